// `llmc targets`, and where compile looks for compilers and headers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "compiler/target/target.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support/opencl.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(TargetsCommand, SaysWhatCompilesAndRunsHereAndHow) {
  const std::filesystem::path cross = cross_folder();
  const auto ran =
      llmc({"targets", "--json"}, {"-u", "LLMC_EMULATOR", "LLMC_CROSS_DIR=" + cross.string()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json list = Json::parse(ran.out)["targets"];
  ASSERT_EQ(list.size(), target::all().size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const target::Target& t = target::all()[i];
    EXPECT_EQ(list[i]["name"], t.name);
    EXPECT_EQ(list[i]["triple"], t.triple);
    EXPECT_EQ(list[i]["features"].size(), t.features.size());
    EXPECT_EQ(list[i]["compiles"], true) << "clang-19 has all of them";
    EXPECT_EQ(list[i]["runs_here"], target::runs_here(t));
    const auto qemu = cross / "bin" / t.emulator;
    if (target::runs_here(t)) {
      EXPECT_EQ(list[i]["run_with"], "natively");
    } else if (t.architecture != target::host_architecture() && std::filesystem::exists(qemu)) {
      EXPECT_EQ(list[i]["run_with"], fmt::format("{} -cpu {}", qemu.string(), t.emulated_cpu));
    }
  }
}

TEST(TargetsCommand, ListsOpenClDevices) {
  const auto text = llmc({"targets"});
  ASSERT_EQ(text.code, 0) << text.err;
  const auto ran = llmc({"targets", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json parsed = Json::parse(ran.out), devices = parsed["opencl"];
  ASSERT_TRUE(devices.is_array());
  EXPECT_TRUE(devices.empty() || !parsed.contains("opencl_problem"));
  if (missing_opencl().empty()) EXPECT_FALSE(devices.empty());
  EXPECT_THAT(text.out, HasSubstr("accelerator opencl:"));
  for (const Json& device : devices) {
    EXPECT_THAT(device["versions"].get<std::string>(), ::testing::StartsWith("OpenCL "));
    EXPECT_EQ(device["usable"], !device.contains("problem"));
    const std::string note = device["matrix_instructions"] == true ? " (matrix instructions)" : "";
    EXPECT_THAT(text.out, HasSubstr(device["name"].get<std::string>() + note));
  }
}

TEST(TargetsCommand, TriesEmulators) {
  testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "bin");
  write_script(folder.path() / "bin" / "qemu-loongarch64", "echo is too old >&2; exit 132");
  // An emulator of a processor without the features, whatever the arguments.
  const auto arm = cross_folder() / "bin" / "qemu-aarch64";
  write_script(folder.path() / "bin" / "qemu-aarch64",
               "shift 2; exec '" + arm.string() + "' -cpu cortex-a72 \"$@\"");
  const auto ran = llmc({"targets", "--json"},
                        {"-u", "LLMC_EMULATOR", "LLMC_CROSS_DIR=" + folder.path().string()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json list = Json::parse(ran.out)["targets"];
  for (const Json& row : list) {
    if (row["name"] != "lasx" && row["triple"] != "aarch64-linux-gnu") continue;
    EXPECT_EQ(row["runs"], false) << row["name"];
    const auto problem = row["run_problem"].get<std::string>();
    if (row["name"] == "lasx") {
      EXPECT_THAT(problem, AllOf(HasSubstr("is too old"), HasSubstr("signal 4")));
    } else if (std::filesystem::exists(arm)) {
      EXPECT_THAT(problem, HasSubstr("a CPU without the instructions of arm64"));
    }
  }
}

TEST(TargetsCommand, TellsWhatToInstallForWhatIsMissing) {
  const auto ran = llmc({"targets"}, {"-u", "LLMC_EMULATOR", "-u", "LLMC_CC",
                                      "LLMC_CROSS_DIR=/nowhere", "PATH=/nowhere"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("no: clang++ was not found"));
  EXPECT_THAT(ran.out, HasSubstr("apt install clang-19"));
}

TEST(TargetsCommand, AsksTheCompilerItself) {
  testing::TemporaryFolder folder;
  // Has no backend for LoongArch.
  const std::string cc =
      write_script(folder.path() / "clang++",
                   "case \"$*\" in *loongarch64*) echo no such target >&2; exit 1;; esac");
  const auto ran = llmc({"targets", "--json", "--cc", cc});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json list = Json::parse(ran.out)["targets"];
  for (const Json& row : list) {
    EXPECT_EQ(row["compiles"], row["name"] != "lasx") << row["name"];
    if (row["name"] == "lasx") {
      EXPECT_THAT(row["compile_problem"].get<std::string>(), HasSubstr("no such target"));
    }
  }
}

TEST(CompileCommand, FoldersAndCompilersThatAreNotThereAreRefusedWithAHint) {
  testing::TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string();
  const std::vector<std::string> command{
      "compile", tinyfable().string(), "--target=lasx", "-q", "-o", out};
  const auto with = [&](const std::string& option) {
    std::vector<std::string> arguments = command;
    arguments.push_back(option);
    return llmc(arguments);
  };
  for (const char* sysroot : {"--sysroot=/nowhere", "--sysroot=/dev/null"}) {
    const auto ran = with(sysroot);
    EXPECT_EQ(ran.code, 2) << sysroot;
    EXPECT_THAT(ran.err, HasSubstr("is not a folder")) << sysroot;
  }
  const auto compiler = with("--cc=/nowhere/clang++");
  EXPECT_EQ(compiler.code, 6);
  EXPECT_THAT(compiler.err, HasSubstr("apt install clang-19"));
  const auto flag = with("--cflag=--no-such-flag");
  EXPECT_EQ(flag.code, 6);
  EXPECT_THAT(flag.err, HasSubstr("--no-such-flag"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(CompileCommand, ASysrootServesHeadersOfFlags) {
  testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "sys/usr/include");
  ASSERT_TRUE(write_file(folder.path() / "sys/usr/include/board.h",
                         std::string_view("#define FROM_THE_SYSROOT 1\n"))
                  .ok());
  const auto compile = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{
        "compile", tinyfable().string(),           "--target=arm64", "-q",
        "-o",      (folder.path() / out).string(), "--cflag=-O0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llmc(arguments);
  };
  const std::vector<std::string> include{"--cflag=-isystem=/usr/include", "--cflag=-include",
                                         "--cflag=board.h"};
  std::vector<std::string> both = include;
  both.push_back("--sysroot=" + (folder.path() / "sys").string());
  const auto ran = compile("with", both);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(compile("without", include).code, 6);
}

}  // namespace
}  // namespace llmc::tests
#endif
