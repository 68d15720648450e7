#include "compiler/driver/golden.h"

#include <gtest/gtest.h>

#include "compiler/plan/plan.h"
#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

TEST(Golden, ComesBackAsItWasWritten) {
  testing::TemporaryFolder folder;
  const auto file = default_golden_file(folder.path());
  EXPECT_EQ(file.filename(), "golden-hashes.json");
  ASSERT_TRUE(read_golden(file).ok());
  EXPECT_TRUE(read_golden(file)->hashes.empty());
  EXPECT_EQ(read_golden(file)->numerics, plan::kNumericsVersion);
  const GoldenHashes golden{"7", {{"q4", "0123456789abcdef"}, {"f32", "1"}}};
  ASSERT_TRUE(write_golden(file, golden).ok());
  EXPECT_EQ(read_golden(file)->hashes, golden.hashes);
  EXPECT_EQ(read_golden(file)->numerics, "7");
}

TEST(Golden, BundlesGetTheHashesOfTheirFormats) {
  testing::TemporaryFolder folder;
  const std::map<std::string, std::string> all{
      {"q4", "1"}, {"q4,kv=f16", "2"}, {"q4,kv=f16/200+4", "3"}, {"q4,kv=f16x", "4"}, {"q8", "5"}};
  const auto file = default_golden_file(folder.path());
  EXPECT_TRUE(stored_hashes(folder.path(), "q4").empty());
  ASSERT_TRUE(write_golden(file, {std::string(plan::kNumericsVersion), all}).ok());
  EXPECT_EQ(golden_key("q4", {}), "q4");
  const std::string key = golden_key("q4", plan::default_kv_formats(ir::WeightFormat::kQ4));
  EXPECT_EQ(key, "q4,kv=f16");
  EXPECT_EQ(stored_hashes(folder.path(), key),
            (std::map<std::string, std::string>{{"q4,kv=f16", "2"}, {"q4,kv=f16/200+4", "3"}}));
  ASSERT_TRUE(write_golden(file, {"other", all}).ok());
  EXPECT_TRUE(stored_hashes(folder.path(), key).empty());
}

TEST(Golden, StandsBesideASingleFile) {
  EXPECT_EQ(default_golden_file("/models/a.onnx"), "/models/a.onnx.golden-hashes.json");
}

TEST(Golden, RefusesDamageAndKeepsOtherNumerics) {
  testing::TemporaryFolder folder;
  const auto file = folder.path() / "golden.json";
  for (const char* text :
       {"", "{", "[]", "{\"numerics\":1,\"hashes\":{}}", "{\"numerics\":null,\"hashes\":{}}", "{}",
        "{\"hashes\":3}", "{\"numerics\":\"1\",\"hashes\":{\"q4\":4}}"}) {
    ASSERT_TRUE(write_file(file, std::string_view(text)).ok());
    EXPECT_FALSE(read_golden(file).ok()) << text;
  }
  ASSERT_TRUE(write_file(file, std::string_view(R"({"numerics":"0","hashes":{"q4":"a"}})")).ok());
  const auto other = read_golden(file);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->numerics, "0");
  EXPECT_EQ(other->hashes.at("q4"), "a");
}

TEST(Golden, AFileWithoutAVersionIsOfAnUnknownOne) {
  testing::TemporaryFolder folder;
  const auto file = default_golden_file(folder.path());
  ASSERT_TRUE(write_file(file, std::string_view(R"({"hashes":{"q4":"a"}})")).ok());
  const auto golden = read_golden(file);
  ASSERT_TRUE(golden.ok()) << format(golden.error().first());
  EXPECT_EQ(golden->numerics, "unknown");
  EXPECT_EQ(golden->hashes.at("q4"), "a");
  EXPECT_TRUE(stored_hashes(folder.path(), "q4").empty()) << "they are not of this version";
}

TEST(Golden, UnwritablePlacesAreErrors) {
  const Status status = write_golden("/dev/null/golden.json", {"1", {{"q4", "1"}}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().first().kind, ErrorKind::kBadInput);
}

}  // namespace
}  // namespace llmc::driver
