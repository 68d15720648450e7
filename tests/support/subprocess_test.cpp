#include "compiler/support/subprocess.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(Subprocess, CapturesBothStreamsAndTheExitCode) {
  const auto result = run_command({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->standard_output, "out\n");
  EXPECT_EQ(result->standard_error, "err\n");
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_FALSE(result->ok());
  EXPECT_TRUE(run_command({"true"})->ok());
  EXPECT_EQ(run_command({"sh", "-c", "kill -9 $$"})->exit_code, 128 + 9);
}

TEST(Subprocess, ArgumentsReachTheProgramUntouched) {
  const testing::TemporaryFolder folder;
  const auto marker = folder.path() / "touched";
  const std::vector<std::string> hostile = {"$(touch " + marker.string() + ")",
                                            "`touch " + marker.string() + "`",
                                            "; touch " + marker.string() + " #",
                                            "| touch " + marker.string(),
                                            "*",
                                            "a b\tc\nd",
                                            "\"'\\",
                                            "",
                                            "-rf",
                                            "\xff\xfe",
                                            "$HOME"};
  std::vector<std::string> argv{"printf", "%s\\0"};
  argv.insert(argv.end(), hostile.begin(), hostile.end());
  const auto result = run_command(argv);
  ASSERT_TRUE(result.ok());
  std::string expected;
  for (const auto& argument : hostile) expected += argument + std::string(1, '\0');
  EXPECT_EQ(result->standard_output, expected);
  EXPECT_FALSE(std::filesystem::exists(marker));
  EXPECT_FALSE(run_command({"printf", std::string("a\0b", 3)}).ok());
}

TEST(Subprocess, AMissingProgramIsAToolchainError) {
  const auto result = run_command({"no-such-program-anywhere"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().kind, ErrorKind::kToolchain);
  EXPECT_THAT(result.error().first().message, HasSubstr("cannot run 'no-such-program-anywhere'"));
  EXPECT_FALSE(run_command({"/"}).ok());
  EXPECT_FALSE(run_command({""}).ok());
}

TEST(Subprocess, ReadsNothingFromOurInput) {
  const auto result = run_command({"cat"});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->ok());
  EXPECT_EQ(result->standard_output, "");
}

TEST(Subprocess, MuchOutputOnBothStreamsDoesNotBlock) {
  CommandOptions options;
  options.max_output_bytes = 1000;
  const auto result = run_command(
      {"sh", "-c", "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"}, options);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->ok());
  EXPECT_EQ(result->standard_output.size(), 1000u);
  EXPECT_EQ(result->standard_error.size(), 1000u);
}

TEST(Subprocess, KillEndsWhatOtherThreadsRunWithItsChildren) {
  Result<CommandOutput> result = CommandOutput{};
  std::thread runner([&] { result = run_command({"sh", "-c", "sleep 60 & echo $!; wait"}); });
  std::this_thread::sleep_for(300ms);
  kill_running_commands();
  runner.join();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 128 + 9);
  ASSERT_FALSE(result->standard_output.empty());
  const pid_t grandchild = std::stoi(result->standard_output);
  // It is gone, or a zombie that nobody has reaped yet.
  bool gone = false;
  for (int i = 0; i < 100 && !gone; ++i) {
    const auto stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
    gone = !stat.ok() || stat->find(") Z ") != std::string::npos;
    if (!gone) std::this_thread::sleep_for(20ms);
  }
  EXPECT_TRUE(gone);
}

TEST(Subprocess, AnExitCodeThatIsLostIsNoSuccess) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const auto result = run_command({"false"});
  ::signal(SIGCHLD, before);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().kind, ErrorKind::kToolchain);
  EXPECT_THAT(result.error().first().message, HasSubstr("cannot tell how 'false' ended"));
}

TEST(Subprocess, RunsInAnotherFolder) {
  const testing::TemporaryFolder folder;
  CommandOptions options;
  options.working_directory = folder.path();
  EXPECT_EQ(run_command({"pwd", "-P"}, options)->standard_output, folder.path().string() + "\n");
  options.working_directory = folder.path() / "missing";
  EXPECT_FALSE(run_command({"pwd"}, options).ok());
}

TEST(Subprocess, FindsPrograms) {
  EXPECT_EQ(find_program("sh").filename(), "sh");
  EXPECT_TRUE(find_program("no-such-program-anywhere").empty());
  EXPECT_TRUE(find_program("").empty());
  EXPECT_TRUE(find_program("/etc/passwd").empty());  // not executable
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
}

}  // namespace
}  // namespace llmc
