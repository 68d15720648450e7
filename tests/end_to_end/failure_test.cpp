// Compilations that cannot succeed, or are ended from outside: the right kind of error, and nothing
// left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "compiler/driver/bundle_files.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Diagnostic failure_of(const driver::CompileOptions& options) {
  const auto bundle = driver::compile_model(options);
  if (bundle.ok()) {
    ADD_FAILURE() << "compiled";
    return {};
  }
  return bundle.error().first();
}

TEST(CompileFailure, WithoutClangSaysWhatToInstall) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  auto options = quick(model.path(), out.path() / "bundle");
  options.cc = "/nowhere/clang++";
  const Diagnostic d = failure_of(options);
  EXPECT_EQ(d.kind, ErrorKind::kToolchain);
  EXPECT_THAT(d.hint, HasSubstr("clang-19"));
  EXPECT_EQ(entries(out.path()), 0u);
}

TEST(CompileFailure, ShowsWhatClangSaid) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  auto options = quick(model.path(), out.path() / "bundle");
  options.cflags = {"-include", "no_such_header.h"};
  const Diagnostic d = failure_of(options);
  EXPECT_EQ(d.kind, ErrorKind::kToolchain);
  EXPECT_THAT(d.message, HasSubstr("no_such_header.h"));
  EXPECT_EQ(entries(out.path()), 0u);
}

TEST(CompileFailure, ACompilerThatIsNotClangIsCalledSo) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path other = out.path() / "other++";
  ASSERT_TRUE(
      write_file(other, std::string_view("#!/bin/sh\n[ \"$1\" = --version ] && echo other 1 "
                                         "&& exit 0\nexit 1\n"))
          .ok());
  fs::permissions(other, fs::perms::owner_all);
  auto options = quick(model.path(), out.path() / "bundle");
  options.cc = other.string();
  const Diagnostic d = failure_of(options);
  EXPECT_EQ(d.kind, ErrorKind::kToolchain);
  EXPECT_THAT(d.hint, HasSubstr("other++ is not clang"));
}

TEST(CompileFailure, UnwritableOutputs) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  ASSERT_TRUE(write_file(out.path() / "file", std::string_view("x")).ok());
  for (const fs::path& target : {out.path() / "file", out.path() / "file/below",
                                 fs::path("/proc/x"), fs::path("/dev/null/x"), fs::path()}) {
    EXPECT_EQ(failure_of(quick(model.path(), target)).kind, ErrorKind::kBadInput) << target;
  }
  EXPECT_EQ(entries(out.path()), 1u);
}

TEST(CompileFailure, OptionsThatMakeNoSense) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const auto kind = [&](auto change) {
    auto options = quick(model.path(), out.path() / "bundle");
    change(options);
    return failure_of(options).kind;
  };
  EXPECT_EQ(kind([](auto& o) { o.target = "z80"; }), ErrorKind::kUsage);
  EXPECT_EQ(kind([](auto& o) { o.name = "*/ int x; /*"; }), ErrorKind::kUsage);
  EXPECT_EQ(kind([](auto& o) { o.name = "../up"; }), ErrorKind::kUsage);
  EXPECT_EQ(kind([](auto& o) { o.block = 9; }), ErrorKind::kUsage);
  EXPECT_EQ(kind([](auto& o) { o.ctx = 0; }), ErrorKind::kUsage);
  EXPECT_EQ(kind([](auto& o) { o.max_ram = 1000; }), ErrorKind::kOverBudget);
  EXPECT_EQ(kind([](auto& o) { o.model = "/nowhere"; }), ErrorKind::kBadInput);
  EXPECT_EQ(entries(out.path()), 0u);
}

TEST(CompileFailure, NamesAWeightThatIsNotFinite) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path file = model.path() / "embeddings_bf16.bin";
  auto bytes = read_file(file);
  ASSERT_TRUE(bytes.ok());
  (*bytes)[20] = static_cast<char>(0xc0);  // a quiet NaN in bf16: 0x7fc0
  (*bytes)[21] = 0x7f;
  ASSERT_TRUE(write_file(file, *bytes).ok());
  const Diagnostic d = failure_of(quick(model.path(), out.path() / "bundle"));
  EXPECT_EQ(d.kind, ErrorKind::kBadInput);
  EXPECT_THAT(d.message, HasSubstr("is nan"));
  EXPECT_FALSE(d.node.empty());
  EXPECT_EQ(entries(out.path()), 0u);
}

/// Runs compile_model in a child whose files may have `limit` bytes: what a full disk looks like.
int exit_with_file_limit(const driver::CompileOptions& options, rlim_t limit) {
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);  // as the llmc program does: a write error, not an end
    const rlimit size{limit, limit};
    setrlimit(RLIMIT_FSIZE, &size);
    const auto bundle = driver::compile_model(options);
    _exit(bundle.ok() ? 0 : exit_code(bundle.error().first().kind));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CompileFailure, AFullDiskLeavesNothing) {
  const ModelFolder model;
  for (const rlim_t limit : {100, 5000, 40000}) {
    testing::TemporaryFolder out;
    const int code = exit_with_file_limit(quick(model.path(), out.path() / "bundle"), limit);
    EXPECT_TRUE(code == exit_code(ErrorKind::kBadInput) || code == exit_code(ErrorKind::kToolchain))
        << limit << ": " << code;
    EXPECT_EQ(entries(out.path()), 0u) << limit;
  }
}

#ifdef LLMC_PROGRAM
/// The program with `arguments` in a process group of its own; the environment gets `variables`.
pid_t start_llmc(const std::vector<std::string>& arguments,
                 const std::vector<std::pair<std::string, std::string>>& variables = {}) {
  const pid_t pid = fork();
  if (pid != 0) {
    setpgid(pid, pid);  // by both: a signal may be sent to the group before the child runs
    return pid;
  }
  setpgid(0, 0);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv{const_cast<char*>("llmc")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(LLMC_PROGRAM, argv.data());
  _exit(127);
}

int exit_code_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CompileFailure, AFailingArchiverIsSeenThoughTheParentIgnoresItsChildren) {
  const ModelFolder model;
  testing::TemporaryFolder out, programs;
  const fs::path archiver = programs.path() / "llvm-ar-19";
  ASSERT_TRUE(write_file(archiver, std::string_view("#!/bin/sh\nexit 1\n")).ok());
  fs::permissions(archiver, fs::perms::owner_all);
  const std::string path = programs.path().string() + ":" + getenv("PATH");
  const auto before = signal(SIGCHLD, SIG_IGN);  // inherited through exec
  const pid_t pid = start_llmc({"compile", model.path(), "--target=generic", "-q", "--cflag=-O0",
                                "-o", out.path() / "bundle"},
                               {{"PATH", path}});
  signal(SIGCHLD, before);
  EXPECT_EQ(exit_code_of(pid), exit_code(ErrorKind::kToolchain));
  EXPECT_EQ(entries(out.path()), 0u);
}

TEST(CompileFailure, TheCurrentFolderIsNotReplaced) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const auto before = fs::current_path();
  fs::current_path(out.path());
  const pid_t pid = start_llmc({"compile", model.path(), "--target=generic", "-q", "-o", "."});
  fs::current_path(before);
  EXPECT_EQ(exit_code_of(pid), exit_code(ErrorKind::kBadInput));
  EXPECT_EQ(entries(out.path()), 0u);
}

TEST(Killed, ARunLeavesNothingInTheFolderForTemporaryFiles) {
  const ModelFolder model;
  for (const int signal_number : {SIGINT, SIGTERM}) {
    for (const int milliseconds : {50, 400, 1500}) {
      testing::TemporaryFolder temporary;
      const pid_t pid = start_llmc({"run", model.path(), "--target=generic", "-q", "--no-cache",
                                    "--ids", "1,2,3", "-n", "100"},
                                   {{"TMPDIR", temporary.path()}});
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      kill(-pid, signal_number);
      int status = 0;
      waitpid(pid, &status, 0);
      EXPECT_EQ(entries(temporary.path()), 0u) << signal_number << " after " << milliseconds;
    }
  }
}

TEST(Killed, TheCompilerAndWhatItStartedEndToo) {
  const ModelFolder model;
  for (const int signal_number : {SIGKILL, SIGTERM}) {
    testing::TemporaryFolder out;
    const fs::path file = out.path() / "pid";
    const std::string compiler = write_script(
        out.path() / "clang++", "sleep 60 & echo $! > '" + file.string() + ".new'; mv '" +
                                    file.string() + ".new' '" + file.string() + "'; wait");
    const pid_t pid = start_llmc({"compile", model.path(), "--target=generic", "-q", "--cc",
                                  compiler, "-o", out.path() / "bundle"});
    for (int i = 0; i < 1000 && !fs::exists(file); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(fs::exists(file)) << "the compiler was not run";
    kill(pid, signal_number);  // not its group
    waitpid(pid, nullptr, 0);
    std::string child, state = "?";
    std::getline(std::ifstream(file), child);
    for (int i = 0; i < 500 && !state.empty() && state.find(") Z ") == state.npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      state.clear();
      std::getline(std::ifstream("/proc/" + child + "/stat"), state);
    }
    EXPECT_TRUE(state.empty() || state.find(") Z ") != state.npos)
        << "after signal " << signal_number << ": " << state;
  }
}

TEST(Native, ABundlesLibraryIsGoneFromDiskOnceItIsLoaded) {
  const ModelFolder model;
  testing::TemporaryFolder out, temporary;
  const auto options = quick(model.path(), out.path() / "bundle");
  ASSERT_TRUE(driver::compile_model(options).ok());
  const char* const set = getenv("TMPDIR");
  const std::string before = set ? set : "";
  setenv("TMPDIR", temporary.path().c_str(), 1);
  driver::CompileOptions bundle;
  bundle.model = options.out_dir;
  const auto native = exec::load_native({.compile = bundle});
  set ? setenv("TMPDIR", before.c_str(), 1) : unsetenv("TMPDIR");
  ASSERT_TRUE(native.ok()) << format(native.error().first());
  EXPECT_EQ(entries(temporary.path()), 0u) << "not even SIGKILL leaves anything";
  EXPECT_EQ(generate(**native, {1, 2, 3}, 4).ids.size(), 4u);
}

/// `llmc compile` in a process of its own.
pid_t start_compile(const fs::path& model, const fs::path& out) {
  return start_llmc(
      {"compile", model, "--target=generic", "-q", "--cflag=-O0", "--name", "tiny", "-o", out});
}

TEST(Killed, AtAnyMomentTheOldBundleOrNoneIsThere) {
  setenv("CCACHE_DISABLE", "1", 1);  // or the compiler would hardly be there to be interrupted
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path folder = out.path() / "bundle";
  auto options = quick(model.path(), folder);
  options.name = "tiny";
  ASSERT_TRUE(driver::compile_model(options).ok());
  const auto before = read_file(folder / "libtiny.a");
  ASSERT_TRUE(before.ok());
  for (const int signal_number : {SIGTERM, SIGINT, SIGKILL}) {  // the last may leave things
    for (const int milliseconds : {3, 30, 80, 300, 700}) {
      const pid_t pid = start_compile(model.path(), folder);
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      kill(-pid, signal_number);
      int status = 0;
      waitpid(pid, &status, 0);
      ASSERT_EQ(driver::bundle_name(folder), "tiny") << milliseconds;
      ASSERT_TRUE(driver::read_bundle(folder).ok());
      if (signal_number != SIGKILL && WIFSIGNALED(status)) {
        EXPECT_EQ(entries(out.path()), 1u) << "a signal that can be caught cleans up";
      }
    }
  }
  // The next run removes the files of killed processes, once none of their commands is left.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const pid_t pid = start_compile(model.path(), folder);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(entries(out.path()), 1u);
}
#endif

}  // namespace
}  // namespace llmc::tests
