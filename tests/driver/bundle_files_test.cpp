#include "compiler/driver/bundle_files.h"

#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

void write(const std::filesystem::path& path, std::string_view text = "") {
  std::filesystem::create_directories(path.parent_path());
  ASSERT_TRUE(write_file(path, text).ok());
}

constexpr std::string_view kPlan =
    R"({"target":"avx2","options":{"weights":"embed"},"bytes":{"weights":1,"weights_per_token":1}})";

void write_bundle(const std::filesystem::path& folder) {
  write(folder / "tiny.plan.json", kPlan);
  write(folder / "tiny.h");
  write(folder / "libtiny.a");
  write(folder / "src/model.cpp");
}

TEST(BundleName, NeedsPlanHeaderAndLibrary) {
  testing::TemporaryFolder folder;
  EXPECT_FALSE(bundle_name(folder.path()).has_value());
  EXPECT_FALSE(bundle_name(folder.path() / "missing").has_value());
  write_bundle(folder.path());
  EXPECT_EQ(bundle_name(folder.path()), "tiny");
  std::filesystem::remove(folder.path() / "libtiny.a");
  EXPECT_FALSE(bundle_name(folder.path()).has_value());
}

TEST(BundleName, TwoPlansAreNone) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  write(folder.path() / "other.plan.json");
  EXPECT_FALSE(bundle_name(folder.path()).has_value());
}

TEST(IsOnlyABundle, SparesFoldersWithOtherThings) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  EXPECT_TRUE(is_only_a_bundle(folder.path()));
  write(folder.path() / "thesis.tex");
  EXPECT_FALSE(is_only_a_bundle(folder.path()));
}

TEST(ReadBundle, RefusesDamagedPlans) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  ASSERT_TRUE(read_bundle(folder.path()).ok());
  EXPECT_EQ(read_bundle(folder.path())->target, "avx2");
  for (
      const std::string_view plan :
      {"", "{", "[]", "{\"target\": 3}", R"({"target":"avx2","options":{"weights":"embed"}})",
       R"({"target":"avx2","options":{"weights":"embed"},"bytes":{"weights":1,"weights_per_token":1},
            "tokenizer":{"file":"../../etc/passwd","kind":"x"}})"}) {
    write(folder.path() / "tiny.plan.json", plan);
    const auto facts = read_bundle(folder.path());
    ASSERT_FALSE(facts.ok()) << plan;
    EXPECT_EQ(facts.error().first().kind, ErrorKind::kBadInput);
  }
}

}  // namespace
}  // namespace llmc::driver
