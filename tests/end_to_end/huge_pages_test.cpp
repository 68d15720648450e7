// Models in huge pages have the same bits, and commands report what was copied.
#include "runtime/hosted/huge_pages.h"

#include <gmock/gmock.h>

#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

using exec::HugePages;
using ::testing::HasSubstr;

class HugePagesOfModels : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kEnough = 4 << 20;  // contains a page of 2 MiB wherever they are

  static std::unique_ptr<exec::NativeModel> load(const std::filesystem::path& model,
                                                 HugePages huge_pages) {
    exec::NativeOptions options{.compile = options_for(model, "generic", ir::WeightFormat::kF32)};
    options.huge_pages.when = huge_pages;
    auto loaded = exec::load_native(options);
    if (!loaded.ok()) expect_ok(loaded.error());
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }

  /// Loads the model or bundle in both kinds of pages and compares.
  static void expect_same_bits(const std::filesystem::path& model) {
    const auto never = load(model, HugePages::kNever), always = load(model, HugePages::kAlways),
               chosen = load(model, HugePages::kAuto);
    ASSERT_TRUE(never && always && chosen);
    EXPECT_EQ(never->huge_pages().weights, 0u);
    EXPECT_FALSE(never->huge_pages().arena);
    EXPECT_EQ(never->huge_pages().reason, "");
    EXPECT_EQ(chosen->huge_pages().weights, 0u);
    EXPECT_FALSE(chosen->huge_pages().arena);
    const auto page = hosted::huge_page_bytes();
    EXPECT_EQ(chosen->huge_pages().reason, page ? "the weights are small" : page.failure().message);
    if (!page) {
      EXPECT_EQ(always->huge_pages().reason, page.failure().message);
    } else if (*page == std::size_t{2} << 20 && always->huge_pages().reason.empty()) {
      EXPECT_GE(always->huge_pages().weights, *page);
      EXPECT_TRUE(always->huge_pages().arena);
      EXPECT_GT(always->huge_pages().seconds, 0);
    }
    const Generated expected = generate(*never, {1, 5, 9}, 4);
    for (const auto* other : {&always, &chosen}) {
      const Generated found = generate(**other, {1, 5, 9}, 4);
      EXPECT_EQ(found.ids, expected.ids);
      EXPECT_EQ(found.logit_hash, expected.logit_hash);
    }
  }
};

TEST_F(HugePagesOfModels, HaveTheSameBits) {
  const ModelFolder folder({.hidden = 64, .vocabulary = 12000});
  expect_same_bits(folder.path());  // weights in a file
  testing::TemporaryFolder out;
  auto options = options_for(folder.path(), "generic", ir::WeightFormat::kF32);
  options.out_dir = out.path() / "bundle";
  const auto bundle = driver::compile_model(options);  // weights in the library
  ASSERT_TRUE(bundle.ok());
  EXPECT_GE(bundle->plan.weights_bytes, kEnough);
  expect_same_bits(options.out_dir);
}

TEST(HugePages, AreNotFilledForFewTokens) {
  const std::vector<std::byte> weights(exec::kMinHugeWeights);
  const exec::HugePageOptions few{.when = HugePages::kAuto, .few_tokens = true};
  const auto use = exec::use_huge_pages(few, weights, exec::kMinHugeArena);
  const auto page = hosted::huge_page_bytes();
  EXPECT_EQ(use.weights, 0u);
  EXPECT_EQ(use.reason, page ? "few tokens are requested" : page.failure().message);
  EXPECT_EQ(use.arena, bool(page)) << "a prompt may be long";
}

}  // namespace
}  // namespace llmc::tests
