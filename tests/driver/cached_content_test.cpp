#include "compiler/driver/cached_content.h"

#include <gtest/gtest.h>

#include <string_view>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(CachedContent, IsReadAsItWasWritten) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "entry" / "content.bin";
  EXPECT_FALSE(read_content(file).has_value());
  const std::span<const std::byte> parts[] = {bytes_of("one"), bytes_of(""), bytes_of("two")};
  keep_content(file, parts);
  const auto read = read_content(file);
  ASSERT_TRUE(read.has_value());
  const std::string_view text(reinterpret_cast<const char*>(read->bytes.data()),
                              read->bytes.size());
  EXPECT_EQ(text, "onetwo");
  const std::span<const std::byte> joined = bytes_of("onetwo");
  const auto other = folder.path() / "other" / "content.bin";
  keep_content(other, std::span(&joined, 1));
  EXPECT_EQ(*read_file(file), *read_file(other)) << "parts leave no trace";
}

TEST(CachedContent, DamageIsNotRead) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "entry" / "content.bin";
  const std::span<const std::byte> bytes = bytes_of("content");
  keep_content(file, std::span(&bytes, 1));
  auto content = read_file(file);
  ASSERT_TRUE(content.ok());
  content->back() ^= 1;
  ASSERT_TRUE(write_file(file, std::string_view(*content)).ok());
  EXPECT_FALSE(read_content(file).has_value());
  ASSERT_TRUE(write_file(file, std::string_view("short")).ok());
  EXPECT_FALSE(read_content(file).has_value());
}

}  // namespace
}  // namespace llmc::driver
