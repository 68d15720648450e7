#include "compiler/support/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

extern "C" char** environ;  // NOLINT: what POSIX calls it

namespace llmc {
namespace {

/// Process groups that are running, for kill_running_commands. 0 marks a free slot.
std::array<std::atomic<pid_t>, 64> running_groups{};

class RunningGroup {
 public:
  explicit RunningGroup(pid_t pid) {
    for (auto& slot : running_groups) {
      pid_t free = 0;
      if (slot.compare_exchange_strong(free, pid)) {
        slot_ = &slot;
        return;
      }
    }
  }
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
  ~RunningGroup() {
    if (slot_) slot_->store(0);
  }

 private:
  std::atomic<pid_t>* slot_ = nullptr;
};

struct Pipe {
  int read = -1, write = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_read();
    close_write();
  }
  bool open() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return false;
    read = fds[0], write = fds[1];
    return true;
  }
  void close_read() {
    if (read >= 0) ::close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

Diagnostic start_error(const std::string& program, int error_number) {
  Diagnostic d;
  d.kind = ErrorKind::kToolchain;
  d.message = "cannot run '" + program + "': " + std::strerror(error_number);
  if (error_number == ENOENT) d.hint = "install it, or say where it is";
  return d;
}

Diagnostic lost_exit_code(const std::string& program, int error_number) {
  Diagnostic d;
  d.kind = ErrorKind::kToolchain;
  d.message = "cannot tell how '" + program + "' ended: " + std::strerror(error_number);
  d.hint = "is SIGCHLD ignored in this process?";
  return d;
}

/// Spawns with both streams into the pipes; returns an errno, 0 for success.
int spawn(const std::vector<std::string>& argv, const CommandOptions& options, const Pipe& out,
          const Pipe& err, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, 1);
  posix_spawn_file_actions_adddup2(&actions, err.write, 2);
  if (!options.working_directory.empty())
    posix_spawn_file_actions_addchdir_np(&actions, options.working_directory.c_str());
  // A group of its own, so that an interrupt takes the command's children with it.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  std::vector<char*> arguments;
  for (const auto& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int error =
      posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Reads what is there; closes the pipe at its end. The rest beyond the limit is read and dropped,
/// or the command would block on a full pipe.
void drain(Pipe& pipe, std::string& text, std::size_t limit) {
  char buffer[65536];
  const ssize_t got = ::read(pipe.read, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return pipe.close_read();
  const std::size_t room = limit - std::min(limit, text.size());
  text.append(buffer, std::min(room, static_cast<std::size_t>(got)));
}

}  // namespace

Result<CommandOutput> run_command(const std::vector<std::string>& argv,
                                  const CommandOptions& options) {
  LLMC_CHECK(!argv.empty());
  for (const auto& argument : argv)
    if (argument.find('\0') != std::string::npos) return start_error(argv[0], EINVAL);
  Pipe out, err;
  if (!out.open() || !err.open()) return start_error(argv[0], errno);
  pid_t pid = 0;
  if (const int error = spawn(argv, options, out, err, pid)) return start_error(argv[0], error);
  out.close_write();
  err.close_write();

  CommandOutput result;
  int status = 0;
  int wait_error = 0;
  {
    const RunningGroup running(pid);
    while (out.read >= 0 || err.read >= 0) {
      pollfd fds[2] = {{out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
      if (::poll(fds, 2, -1) <= 0) continue;
      if (fds[0].revents) drain(out, result.standard_output, options.max_output_bytes);
      if (fds[1].revents) drain(err, result.standard_error, options.max_output_bytes);
    }
    while (::waitpid(pid, &status, 0) < 0) {
      if (errno == EINTR) continue;
      wait_error = errno;
      break;
    }
  }
  // Where SIGCHLD is ignored the kernel throws the exit code away: it must not pass for success.
  if (wait_error != 0) return lost_exit_code(argv[0], wait_error);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::filesystem::path find_program(const std::string& program) {
  const auto executable = [](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return executable(program) ? program : "";
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const auto colon = rest.find(':');
    const auto folder = rest.substr(0, colon);
    const auto candidate = std::filesystem::path(folder.empty() ? "." : folder) / program;
    if (!program.empty() && executable(candidate)) return candidate;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

void kill_running_commands() {
  for (auto& slot : running_groups)
    if (const pid_t group = slot.load()) ::kill(-group, SIGKILL);
}

}  // namespace llmc
