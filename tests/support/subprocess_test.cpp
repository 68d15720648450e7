#include "compiler/support/subprocess.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "compiler/support/child_process.h"
#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// Returns whether a process has ended, or is an unreaped zombie, within ten seconds.
bool ends_soon(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    std::string stat;  // files of /proc have size 0, so read_file would read nothing
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), stat);
    if (stat.empty() || stat.find(") Z ") != std::string::npos) return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

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
  EXPECT_TRUE(ends_soon(std::stoi(result->standard_output)));
}

/// Forks a process that runs a command which starts a child. Kills the forked process by
/// `signal_number` and returns the process id of the command's child.
template <class Run>
pid_t child_of_killed(int signal_number, Run run) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "pid";
  const pid_t parent = ::fork();
  if (parent == 0) {
    const std::vector<std::string> argv{"sh", "-c", "sleep 60 & echo $! > new; mv new pid; wait"};
    run(argv, folder.path());
    ::_exit(0);
  }
  std::string text;
  for (int i = 0; i < 500 && text.empty(); ++i) {
    std::this_thread::sleep_for(20ms);
    if (fs::exists(file)) text = *read_file(file);
  }
  ::kill(parent, signal_number);
  ::waitpid(parent, nullptr, 0);
  return text.empty() ? 0 : std::stoi(text);
}

TEST(Subprocess, EndsWithThisProcessEvenByAKill) {
  for (const int signal_number : {SIGKILL, SIGTERM, SIGSEGV}) {
    const pid_t child = child_of_killed(signal_number, [](const auto& argv, const auto& folder) {
      (void)run_command(argv, {.working_directory = folder});
    });
    ASSERT_GT(child, 0);
    EXPECT_TRUE(ends_soon(child)) << "after signal " << signal_number;
  }
}

TEST(Subprocess, AProgramThatIsTalkedToEndsWithThisProcess) {
  const pid_t child = child_of_killed(SIGKILL, [](const auto& argv, const auto& folder) {
    fs::current_path(folder);
    const auto started = ChildProcess::start(argv);
    ::pause();
  });
  ASSERT_GT(child, 0);
  EXPECT_TRUE(ends_soon(child));
}

TEST(Subprocess, LeavesNoGuardBehind) {
  ASSERT_TRUE(run_command({"true"}).ok());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child that was not reaped";
  EXPECT_EQ(errno, ECHILD);
}

TEST(Subprocess, AnExitCodeThatIsLostIsNoSuccess) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const auto result = run_command({"false"});
  ::signal(SIGCHLD, before);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().kind, ErrorKind::kToolchain);
  EXPECT_THAT(result.error().first().message, HasSubstr("cannot get the exit code of 'false'"));
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
