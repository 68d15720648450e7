#include "compiler/driver/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "compiler/emit/elf_object.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(FindToolchain, SaysWhatToInstallWhenThereIsNoClang) {
  const auto missing = find_toolchain("/nowhere/clang++");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().first().kind, ErrorKind::kToolchain);
  EXPECT_THAT(missing.error().first().hint, HasSubstr("apt install clang-19"));

  const std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  unsetenv("LLMC_CC");
  const auto nothing = find_toolchain("");
  setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().first().kind, ErrorKind::kToolchain);
}

TEST(FindToolchain, TakesTheCompilerFromTheEnvironment) {
  setenv("LLMC_CC", "/nowhere/else", 1);
  const auto found = find_toolchain("");
  unsetenv("LLMC_CC");
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().first().message, HasSubstr("/nowhere/else"));
}

TEST(Arguments, AreFreestandingAndExactAboutFloats) {
  const target::Target& avx2 = **target::find("avx2");
  for (const auto& arguments : {model_arguments(avx2, "tiny", {}), core_arguments(avx2)}) {
    for (const char* flag : {"-ffreestanding", "-nostdlibinc", "-fno-exceptions", "-fno-rtti",
                             "-ffp-contract=off", "-fno-threadsafe-statics"}) {
      EXPECT_THAT(arguments, Contains(flag));
    }
  }
  EXPECT_THAT(model_arguments(avx2, "tiny", {}), Contains("-mavx2"));
  EXPECT_THAT(core_arguments(avx2), ::testing::Not(Contains("-mavx2")))
      << "the core is the same in every library of an architecture";
  EXPECT_EQ(model_arguments(avx2, "tiny", {"-DX=1"}).back(), "-DX=1");
}

TEST(Arguments, SayTheLevelToTheModelsSourceAlone) {
  for (const std::uint32_t level : {1u, 2u, 3u}) {
    const target::Target& avx2 = **target::find("avx2", level);
    const auto arguments = model_arguments(avx2, "tiny", {});
    EXPECT_THAT(arguments, Contains("-DLLMC_OPT_LEVEL=" + std::to_string(level)));
    EXPECT_EQ(std::ranges::count(arguments, "-mavx2"), level == 1 ? 0 : 1);
    EXPECT_EQ(std::ranges::count(arguments, "-DLLMC_TARGET_AVX2=1"), level == 1 ? 0 : 1);
    EXPECT_EQ(core_arguments(avx2), core_arguments(**target::find("generic")));
  }
}

TEST(CompileSource, ShowsTheFirstLinesOfWhatClangSays) {
  testing::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path() / "bad.cpp", std::string_view("int f( {\n")).ok());
  const auto toolchain = find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  const Status status = compile_source(
      *toolchain, folder.path(), core_arguments(**target::find("generic")), "bad.cpp", "bad.o");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().first().kind, ErrorKind::kToolchain);
  EXPECT_THAT(status.error().first().message, HasSubstr("bad.cpp:1:"));
}

TEST(CompileSource, IsNotAShell) {
  testing::TemporaryFolder folder;
  const std::string name = "$(touch gone);x.cpp";
  ASSERT_TRUE(write_file(folder.path() / name, std::string_view("int x;\n")).ok());
  const auto toolchain = find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  EXPECT_TRUE(compile_source(*toolchain, folder.path(), core_arguments(**target::find("generic")),
                             name, "x.o")
                  .ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "gone"));
}

TEST(MakeArchive, IsTheSameBytesEveryTime) {
  testing::TemporaryFolder folder;
  const auto toolchain = find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  const emit::ElfObject elf = emit::elf_object(target::Architecture::kX86_64, "w", 4, 64);
  ASSERT_TRUE(write_file(folder.path() / "w.o", elf.prefix + "data" + elf.suffix).ok());
  ASSERT_TRUE(make_archive(*toolchain, folder.path(), "a.a", {"w.o"}).ok());
  std::filesystem::last_write_time(
      folder.path() / "w.o",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1000));
  ASSERT_TRUE(make_archive(*toolchain, folder.path(), "b.a", {"w.o"}).ok());
  const auto a = read_file(folder.path() / "a.a");
  const auto b = read_file(folder.path() / "b.a");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
}

TEST(ShellQuoted, IsOneWordForAShell) {
  EXPECT_EQ(shell_quoted("-DX=1"), "-DX=1");
  for (const std::string text :
       {"a b", "$(touch x)", "it's", "", "a\nb", "`x`", "\\", "*", "-D'\"x"}) {
    const auto output = run_command({"sh", "-c", "printf %s " + shell_quoted(text)});
    ASSERT_TRUE(output.ok());
    EXPECT_EQ(output->standard_output, text);
  }
}

}  // namespace
}  // namespace llmc::driver
