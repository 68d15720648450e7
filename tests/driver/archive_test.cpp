#include "compiler/driver/archive.h"

#include <gtest/gtest.h>

#include "compiler/driver/toolchain.h"
#include "compiler/emit/elf_object.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

std::string object_of(const std::string& symbol, const std::string& data) {
  const emit::ElfObject elf =
      emit::elf_object(target::Architecture::kX86_64, symbol, data.size(), 64);
  return elf.prefix + data + elf.suffix;
}

// The result must equal that of an archiver that gets the real object.
TEST(ReplaceLastMember, GivesTheArchiveOfTheContent) {
  const auto toolchain = find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  for (const std::string name : {"w.o", "a_name_of_more_than_fifteen_letters_weights.o"}) {
    for (const std::size_t size : {0, 1, 300, 3000001}) {
      const testing::TemporaryFolder folder;
      const fs::path at = folder.path();
      const std::string data(size, 'x');
      ASSERT_TRUE(write_file(at / "other.o", object_of("other", "abc")).ok());
      ASSERT_TRUE(write_file(at / name, object_of("weights", "stands in")).ok());
      ASSERT_TRUE(make_archive(*toolchain, at, "a.a", {"other.o", name}).ok());
      ASSERT_TRUE(write_file(at / "content", object_of("weights", data)).ok());
      const Status status = replace_last_member(at, "a.a", "content");
      ASSERT_TRUE(status.ok()) << format(status.error().first());

      fs::rename(at / "content", at / name);
      ASSERT_TRUE(make_archive(*toolchain, at, "b.a", {"other.o", name}).ok());
      EXPECT_EQ(*read_file(at / "a.a"), *read_file(at / "b.a")) << name << " " << size;
    }
  }
}

TEST(ReplaceLastMember, RefusesWhatIsNoArchive) {
  const testing::TemporaryFolder folder;
  const fs::path at = folder.path();
  ASSERT_TRUE(write_file(at / "content", std::string_view("new")).ok());
  const std::string header = "w.o/            0           0     0     644     ";
  for (const std::string& bad :
       {std::string(), std::string("!<arch>\n"), std::string("!<thin>\n"), "!<arch>\n" + header,
        "!<arch>\n" + header + "4         `\nabc", "!<arch>\n" + header + "-1        `\nabc\n",
        "!<arch>\n" + header + "3         ??abc\n"}) {
    ASSERT_TRUE(write_file(at / "a.a", std::string_view(bad)).ok());
    const Status status = replace_last_member(at, "a.a", "content");
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().first().kind, ErrorKind::kToolchain);
    EXPECT_EQ(*read_file(at / "a.a"), bad);
  }
  EXPECT_FALSE(replace_last_member(at, "none.a", "content").ok());
  EXPECT_FALSE(replace_last_member(at, "a.a", "none").ok());
}

}  // namespace
}  // namespace llmc::driver
