// Greedy choices that leave out most logits, beside those from all logits: the same tokens on every
// target, for every number of threads.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "compiler/plan/parts.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const target::Target& target : target::all()) names.emplace_back(target.name);
  return names;
}

std::unique_ptr<exec::Session> start(const exec::NativeModel& model, std::uint32_t threads) {
  auto session = model.start({.threads = threads});
  if (!session.ok()) expect_ok(session.error());
  return session.ok() ? *std::move(session) : nullptr;
}

/// Steps of two sessions, of which one reads all logits before each; returns the mean part of the
/// logits that the other computed.
double compare(const exec::NativeModel& model, std::uint32_t threads, std::size_t texts,
               std::size_t tokens) {
  const auto session = start(model, threads), reader = start(model, 1);
  if (!session || !reader) return 1;
  const auto vocabulary = static_cast<std::int32_t>(model.model().vocab);
  double computed = 0;
  for (std::size_t text = 0; text < texts; ++text) {
    auto prompt = made_up_prompt(4 + text, vocabulary);
    std::rotate(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(text), prompt.end());
    for (exec::Session* const each : {session.get(), reader.get()}) {
      EXPECT_TRUE(each->call(&exec::Api::reset).ok());
      EXPECT_TRUE(each->prefill(prompt).ok());
    }
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto logits = reader->logits();
      const auto token = session->step();
      if (!logits.ok() || !token.ok()) {
        expect_ok(logits.ok() ? token.error() : logits.error());
        return 1;
      }
      EXPECT_EQ(*token, std::ranges::max_element(*logits) - logits->begin());
      const auto other = reader->step();
      EXPECT_TRUE(other.ok() && *other == *token) << "text " << text << ", token " << i;
      computed += static_cast<double>(session->logits_computed());
    }
  }
  return computed / static_cast<double>(texts * tokens) / vocabulary;
}

class Choice : public ::testing::TestWithParam<std::string> {};

TEST_P(Choice, IsThatOfAllLogits) {
  const target::Target& target = **target::find(GetParam());
  if (!executable(target) && target.emulator.empty()) GTEST_SKIP() << without_emulator(target);
  if (!executable(target)) LLMC_MISSING_CROSS(without_emulator(target));
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  const bool here = target::runs_here(target);
  const ModelFolder folder({.layers = 1, .hidden = 64, .vocabulary = 17003});
  auto options = options_for(folder.path(), GetParam(), ir::WeightFormat::kQ6);
  options.cflags = {"-O1"};
  const auto model = load(options);
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(std::ranges::any_of(model->bundle_facts().products, [](const plan::Products& p) {
    return p.part == Part::kHead && p.split_bytes == p.bytes;
  })) << "bench takes less for read";
  for (const std::uint32_t threads : {1u, 3u}) {
    const double part = compare(*model, threads, here ? 8 : 1, here ? 20 : 4);
    if (here) EXPECT_LT(part, 0.8) << "part of the logits that were computed";
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Choice, ::testing::ValuesIn(target_names()),
                         [](const auto& info) { return test_name(info.param); });

TEST(ChoiceOfTrainedModel, TenThousandTokensAreThoseOfAllLogits) {
  const auto folder = shared_folder() / "models/stories15M-split";
  if (!exists(folder)) GTEST_SKIP() << folder << " is not there";
  auto options = options_for(folder, "avx2", ir::WeightFormat::kQ6);
  if (!target::runs_here(**target::find("avx2"))) GTEST_SKIP() << "this processor has no AVX2";
  options.cflags.clear();
  options.ctx = 300;
  const auto model = load(options);
  ASSERT_NE(model, nullptr);
  EXPECT_LT(compare(*model, 1, 42, 240), 0.12);
}

}  // namespace
}  // namespace llmc::tests
