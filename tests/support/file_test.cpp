#include "compiler/support/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "compiler/support/mapped_file.h"
#include "compiler/support/remove_tree.h"
#include "tests/support/temporary_folder.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(CopyBytes, OfAFileThatIsTooShortSaysSo) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "short";
  ASSERT_TRUE(write_file(file, std::string_view("abc")).ok());
  std::ostringstream out;
  EXPECT_TRUE(copy_bytes(file, 1, 2, out).ok());
  EXPECT_EQ(out.str(), "bc");
  const Status status = copy_bytes(file, 1, 3, out);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().first().message, "ended while it was copied");
}

TEST(File, WritesAndReads) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "a file";
  const std::string content("a\0b\xff", 4);
  ASSERT_TRUE(write_file(path, content).ok());
  EXPECT_EQ(read_file(path).value(), content);
  ASSERT_TRUE(write_file(path, std::string_view("x")).ok());
  EXPECT_EQ(read_file(path).value(), "x");
  EXPECT_THAT(read_file(path, 0).error().first().message, HasSubstr("more than the 0"));
}

TEST(File, SaysWhyNot) {
  const testing::TemporaryFolder folder;
  const auto missing = read_file(folder.path() / "missing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().first().kind, ErrorKind::kBadInput);
  EXPECT_THAT(format(missing.error().first()), HasSubstr("missing: cannot open: No such file"));
  EXPECT_THAT(read_file(folder.path()).error().first().message, HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_file(folder.path() / "pipe").ok());  // without waiting for a writer
  EXPECT_FALSE(write_file(folder.path() / "no" / "such", std::string_view("x")).ok());
}

TEST(File, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  const auto status = write_file("/dev/full", std::string_view("x"));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().first().message, HasSubstr("No space left"));
  EXPECT_THAT(status.error().first().hint, HasSubstr("free disk space"));
}

TEST(File, ReplacesWholeFiles) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "golden.json";
  ASSERT_TRUE(replace_file(path, "one").ok());
  ASSERT_TRUE(replace_file(path, "two").ok());
  EXPECT_EQ(read_file(path).value(), "two");
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_FALSE(replace_file(folder.path(), "x").ok());
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(MappedFile, ShowsTheBytes) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "weights";
  const std::string content(100'000, 'w');
  ASSERT_TRUE(write_file(path, content).ok());
  const auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped.ok());
  ASSERT_EQ((*mapped)->bytes().size(), content.size());
  EXPECT_EQ(std::memcmp((*mapped)->bytes().data(), content.data(), content.size()), 0);
  (*mapped)->drop_pages();
  EXPECT_EQ(static_cast<char>((*mapped)->bytes()[99'999]), 'w');
  fs::remove(path);  // the mapping remains valid
  EXPECT_EQ(static_cast<char>((*mapped)->bytes()[0]), 'w');
}

TEST(MappedFile, EmptyMissingAndIrregular) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path() / "empty", std::string_view()).ok());
  EXPECT_TRUE((*MappedFile::open(folder.path() / "empty"))->bytes().empty());
  EXPECT_FALSE(MappedFile::open(folder.path() / "missing").ok());
  EXPECT_FALSE(MappedFile::open(folder.path()).ok());
  EXPECT_FALSE(MappedFile::open("/dev/zero").ok());
}

TEST(RemoveTree, RemovesAllAndFollowsNothing) {
  const testing::TemporaryFolder folder;
  const auto tree = folder.path() / "tree", other = folder.path() / "other";
  fs::create_directories(tree / "a" / "b");
  fs::create_directories(other);
  ASSERT_TRUE(write_file(other / "precious", std::string_view("x")).ok());
  fs::create_symlink(other, tree / "a" / "link");
  fs::create_symlink("/nowhere", tree / "dangling");
  for (int i = 0; i < 300; ++i)  // more entries than one read of the folder returns
    ASSERT_TRUE(write_file(tree / "a" / ("file" + std::to_string(i)), std::string_view("x")).ok());
  EXPECT_TRUE(remove_tree(tree));
  EXPECT_FALSE(fs::exists(tree));
  EXPECT_TRUE(fs::exists(other / "precious"));
  EXPECT_TRUE(remove_tree(tree));  // a missing folder is no error
  fs::create_symlink(other, tree);
  EXPECT_TRUE(remove_tree(tree));
  EXPECT_TRUE(fs::exists(other / "precious"));
}

}  // namespace
}  // namespace llmc
