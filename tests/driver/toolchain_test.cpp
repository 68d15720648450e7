#include "compiler/driver/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "compiler/driver/core_objects.h"
#include "compiler/driver/resources.h"
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
    EXPECT_THAT(arguments, Contains("-DLLMC_TARGET=avx2"));
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

/// Checks that the flags in tools/cmake/LlmcResources.cmake equal core_arguments().
class CoreObject : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string_view architecture = processor_of(target().triple);
    if (std::string_view(LLMC_CORE_NOT_EMBEDDED).find(architecture) != std::string_view::npos)
      GTEST_SKIP() << "llmc was built with a compiler that is not a clang for " << architecture;
  }
  static const target::Target& target() { return **target::find(GetParam()); }
};

TEST_P(CoreObject, OfEachSourceIsThere) {
  EXPECT_EQ(core_object(target(), "nothing"), "");
  std::size_t sources = 0;
  for (const Resource& resource : resources_for({})) {
    const std::filesystem::path path = resource.path;
    if (path.extension() != ".cpp") continue;
    ++sources;
    EXPECT_TRUE(
        emit::is_object_for(core_object(target(), path.stem().string()), target().architecture))
        << path;
  }
  EXPECT_GT(sources, 20u);
}

TEST_P(CoreObject, IsWhatTheCompilerMakes) {
  if (std::string_view(LLMC_CXX_COMPILER).empty())
    GTEST_SKIP() << "the compiler of llmc is a command of several words";
  const auto toolchain = find_toolchain(LLMC_CXX_COMPILER);
  ASSERT_TRUE(toolchain.ok());
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(write_resources(folder.path(), resources_for({})).ok());
  for (const std::string stem : {"status", "sampler"}) {
    ASSERT_TRUE(compile_source(*toolchain, folder.path(), core_arguments(target()),
                               "src/core/" + stem + ".cpp", "x.o")
                    .ok());
    EXPECT_TRUE(*read_file(folder.path() / "x.o") == core_object(target(), stem)) << stem;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CoreObject, ::testing::Values("generic", "arm64", "lasx"),
                         [](const auto& info) { return std::string(info.param); });

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

TEST(CheckCflags, RefusesAnotherProcessorOrSystem) {
  const target::Target& arm64 = **target::find("arm64");
  using Flags = std::vector<std::string>;
  for (const Flags& bad :
       {Flags{"--target=arm64-apple-macos13"}, Flags{"-target", "arm64-apple-ios"},
        Flags{"-O2", "--target", "aarch64-pc-windows-msvc"}, Flags{"--target=x86_64-linux-gnu"},
        Flags{"--target=aarch64_be-linux-gnu"}, Flags{"--target=wasm32"}}) {
    const Status status = check_cflags(bad, arm64);
    ASSERT_FALSE(status.ok()) << bad.back();
    EXPECT_EQ(status.error().first().kind, ErrorKind::kUsage);
    EXPECT_THAT(status.error().first().message, HasSubstr("--cflag"));
  }
  for (const Flags& good :
       {Flags{}, Flags{"-O2", "-target"}, Flags{"--target=aarch64-none-elf"},
        Flags{"--target=arm64-linux-android34"}, Flags{"-march=armv8.4-a"}, Flags{"-DX=macos"}}) {
    EXPECT_TRUE(check_cflags(good, arm64).ok()) << good.back();
  }
}

TEST(CheckCflags, SaysAtOnceThatASystemIsNotSupported) {
  for (const char* target : {"avx2", "arm64"}) {
    const Status status = check_cflags({"--target=arm64-apple-macos"}, **target::find(target));
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().first().message, HasSubstr("not supported"));
    EXPECT_THAT(status.error().first().message, HasSubstr("macOS"));
    EXPECT_THAT(status.error().first().hint, ::testing::Not(HasSubstr("--target:")));
  }
}

TEST(CheckObject, TakesElfForTheTargetAlone) {
  testing::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path() / "x.cpp", std::string_view("int x;\n")).ok());
  const auto toolchain = find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  const target::Target& arm64 = **target::find("arm64");
  const auto message = [&](const std::vector<std::string>& flags) {
    EXPECT_TRUE(compile_source(*toolchain, folder.path(), flags, "x.cpp", "x.o").ok());
    const Status status = check_object(folder.path() / "x.o", arm64);
    return status.ok() ? std::string() : status.error().first().message;
  };
  EXPECT_EQ(message({"--target=aarch64-linux-gnu"}), "");
  EXPECT_THAT(message({"--target=aarch64-linux-gnu", "-flto"}), HasSubstr("made LLVM bitcode"));
  EXPECT_THAT(message({"--target=arm64-apple-macos13"}), HasSubstr("made a Mach-O object"));
  EXPECT_THAT(message({"--target=aarch64-pc-windows-msvc"}), HasSubstr("made a COFF object"));
  for (const char* other : {"x86_64-linux-gnu", "aarch64_be-linux-gnu", "arm-linux-gnueabi"})
    EXPECT_THAT(message({std::string("--target=") + other}), HasSubstr("another processor"));
  EXPECT_THAT(message({"--target=aarch64-linux-gnu", "-S"}), HasSubstr("no object"));
}

/// Returns the compiler calls of the build script, one per line, if the compiler prints `version`.
std::string calls_of_script(const std::string& version, const std::string& environment,
                            const std::vector<std::string>& flags = {"-DTEXT=a b"}) {
  testing::TemporaryFolder folder;
  const auto write = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder.path() / file).parent_path());
    EXPECT_TRUE(write_file(folder.path() / file, text).ok());
  };
  const target::Target& avx2 = **target::find("avx2");
  write("compiler", "#!/bin/sh\ncase \"$*\" in *--version) echo " + version +
                        "; exit ;; esac\necho \"$@\" >> '" + (folder.path() / "calls").string() +
                        "'\nfor last; do :; done\ntouch \"$last\"\n");
  std::filesystem::permissions(folder.path() / "compiler", std::filesystem::perms::owner_all);
  write("bundle/src/build.sh", build_script({"/usr/bin/clang++-19", "/usr/bin/ar"}, avx2, "tiny",
                                            model_arguments(avx2, "tiny", flags),
                                            {"src/core/session.cpp", "src/core/state.cpp"}, {}));
  const auto ran = run_command({"sh", "-c",
                                "cd '" + folder.path().string() + "' && " + environment +
                                    " sh bundle/src/build.sh && ar t bundle/libtiny.a"});
  EXPECT_TRUE(ran.ok());
  EXPECT_EQ(ran->standard_output, "tiny_model.o\nllmc_session.o\nllmc_state.o\n")
      << ran->standard_error;
  const auto calls = read_file(folder.path() / "calls");
  return calls.ok() ? *calls : "";
}

TEST(BuildScript, TakesOtherCompilersAndFlags) {
  const std::string gnu =
      calls_of_script("g++ 12.2", "CC=\"$PWD/compiler\" CFLAGS='-g -DMINE' AR=ar");
  EXPECT_EQ(std::ranges::count(gnu, '\n'), 3);
  EXPECT_THAT(gnu, ::testing::Not(HasSubstr("--target=")));
  EXPECT_THAT(gnu, ::testing::Not(HasSubstr("-nostdlibinc")));
  EXPECT_THAT(gnu, ::testing::Not(HasSubstr("-Xclang")));
  EXPECT_THAT(gnu, ::testing::StartsWith("-O3 -g0 -g -DMINE"));
  EXPECT_THAT(gnu, HasSubstr("-mavx2 -mfma"));
  EXPECT_THAT(gnu, HasSubstr("-DTEXT=a b -c src/model.cpp -o build/tiny_model.o\n"));
  EXPECT_THAT(gnu, HasSubstr("\n-O2 -g0 -g -DMINE"));
  EXPECT_THAT(gnu, HasSubstr("-c src/core/state.cpp -o build/llmc_state.o\n"));
  const std::string clang = calls_of_script(
      "clang version 19",
      "CXX=\"$PWD/compiler --driver\" CC=false CXXFLAGS=-DMORE CFLAGS=-DLESS AR=ar");
  EXPECT_THAT(clang, ::testing::StartsWith("--driver -O3"));
  EXPECT_THAT(clang, HasSubstr("--target=x86_64-linux-gnu -nostdlibinc -Xclang -fno-cxx-modules"));
  EXPECT_THAT(clang, HasSubstr("-DMORE"));
  EXPECT_THAT(clang, ::testing::Not(HasSubstr("-DLESS")));
  // The user's own flags keep their order.
  const std::string more = calls_of_script("clang version 19", "CXX=\"$PWD/compiler\" AR=ar",
                                           {"-Xclang", "-fmerge-functions", "-Xclang", "-x"});
  EXPECT_THAT(more, HasSubstr("-Isrc -Xclang -fmerge-functions -Xclang -x -c src/model.cpp"));
  EXPECT_EQ(std::ranges::count(more, '\n'), 3);
  EXPECT_THAT(more.substr(more.find('\n')), ::testing::Not(HasSubstr("-fmerge-functions")));
}

TEST(BuildScript, LeavesTheBundleAsItWasWhenItFails) {
  testing::TemporaryFolder folder;
  const target::Target& avx2 = **target::find("avx2");
  std::filesystem::create_directories(folder.path() / "src");
  ASSERT_TRUE(write_file(folder.path() / "libtiny.a", std::string_view("old")).ok());
  ASSERT_TRUE(write_file(folder.path() / "src/build.sh",
                         build_script({"clang++", "ar"}, avx2, "tiny",
                                      model_arguments(avx2, "tiny", {}), {}, {}))
                  .ok());
  for (const char* tools : {"CXX=false AR=true", "CXX=true AR=false"}) {
    const auto ran = run_command(
        {"sh", "-c", std::string(tools) + " sh '" + folder.path().string() + "/src/build.sh'"});
    ASSERT_TRUE(ran.ok());
    EXPECT_NE(ran->exit_code, 0) << tools;
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "build")) << tools;
    const auto library = read_file(folder.path() / "libtiny.a");
    EXPECT_EQ(library.ok() ? *library : "", "old") << tools;
  }
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
