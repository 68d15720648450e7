#include "compiler/driver/golden.h"

#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

TEST(Golden, ComesBackAsItWasWritten) {
  testing::TemporaryFolder folder;
  const auto file = default_golden_file(folder.path());
  EXPECT_EQ(file.filename(), "golden-hashes.json");
  ASSERT_TRUE(read_golden(file).ok());
  EXPECT_TRUE(read_golden(file)->empty());
  const std::map<std::string, std::string> hashes{{"q4", "0123456789abcdef"}, {"f32", "1"}};
  ASSERT_TRUE(write_golden(file, hashes).ok());
  EXPECT_EQ(*read_golden(file), hashes);
}

TEST(Golden, StandsBesideASingleFile) {
  EXPECT_EQ(default_golden_file("/models/a.onnx"), "/models/a.onnx.golden-hashes.json");
}

TEST(Golden, RefusesDamageAndForgetsOtherNumerics) {
  testing::TemporaryFolder folder;
  const auto file = folder.path() / "golden.json";
  for (const char* text :
       {"", "{", "[]", "{\"numerics\":1,\"hashes\":{}}", "{\"numerics\":null,\"hashes\":{}}",
        "{\"hashes\":3}", "{\"numerics\":\"1\",\"hashes\":{\"q4\":4}}"}) {
    ASSERT_TRUE(write_file(file, std::string_view(text)).ok());
    EXPECT_FALSE(read_golden(file).ok()) << text;
  }
  ASSERT_TRUE(write_file(file, std::string_view(R"({"numerics":"0","hashes":{"q4":"a"}})")).ok());
  ASSERT_TRUE(read_golden(file).ok());
  EXPECT_TRUE(read_golden(file)->empty());
}

TEST(Golden, UnwritablePlacesAreErrors) {
  const Status status = write_golden("/dev/null/golden.json", {{"q4", "1"}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().first().kind, ErrorKind::kBadInput);
}

}  // namespace
}  // namespace llmc::driver
