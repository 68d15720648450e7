#include "compiler/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "compiler/support/signal_cleanup.h"
#include "compiler/support/subprocess.h"

extern "C" char** environ;  // declared by POSIX

namespace llmc {
namespace {

/// Running process groups, for kill_running_commands. 0 marks a free slot.
std::array<std::atomic<pid_t>, 64> running_groups{};

/// Starts argv[0], which is searched in PATH, in process group `group`; 0: in a new group. Returns
/// 0 or an errno.
int spawn_in(pid_t group, const std::vector<std::string>& argv,
             const std::filesystem::path& working_directory, const Streams& streams, pid_t& pid) {
  for (const auto& argument : argv)
    if (argument.find('\0') != std::string::npos) return EINVAL;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  const int wanted[] = {streams.input, streams.output, streams.error};
  for (int stream = 0; stream < 3; ++stream) {
    if (wanted[stream] < 0) {
      posix_spawn_file_actions_addopen(&actions, stream, "/dev/null",
                                       stream == 0 ? O_RDONLY : O_WRONLY, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions, wanted[stream], stream);
    }
  }
  if (!working_directory.empty())
    posix_spawn_file_actions_addchdir_np(&actions, working_directory.c_str());
  // Uses a group other than this process's, so that an interrupt also kills the command's children.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, group);
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

}  // namespace

bool Pipe::open() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return false;
  read = fds[0], write = fds[1];
  return true;
}

void Pipe::close_read() {
  if (read >= 0) ::close(read);
  read = -1;
}

void Pipe::close_write() {
  if (write >= 0) ::close(write);
  write = -1;
}

RunningGroup::RunningGroup() {
  if (!pipe_.open()) return;
  // `read` returns when this process's end of the pipe is closed; then `kill -9 0` kills the group.
  const int error =
      spawn_in(0, {"/bin/sh", "-c", "read line; kill -9 0"}, {}, {pipe_.read, -1, -1}, guard_);
  pipe_.close_read();
  if (error != 0) {
    guard_ = 0;
    return;
  }
  watch(guard_);
}

RunningGroup::~RunningGroup() {
  if (slot_ >= 0) running_groups[static_cast<std::size_t>(slot_)].store(0);
  if (guard_ == 0) return;
  // Kill the guard before the pipe is closed. Otherwise the guard would kill processes that the
  // command left running.
  ::kill(guard_, SIGKILL);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void RunningGroup::watch(pid_t id) {
  id_ = id;
  for (std::size_t i = 0; i < running_groups.size(); ++i) {
    pid_t free = 0;
    if (running_groups[i].compare_exchange_strong(free, id)) {
      slot_ = static_cast<int>(i);
      return;
    }
  }
}

void RunningGroup::kill() const {
  if (id_ > 0) ::kill(-id_, SIGKILL);
}

void kill_running_commands() {
  for (auto& slot : running_groups)
    if (const pid_t group = slot.load()) ::kill(-group, SIGKILL);
}

Diagnostic start_error(const std::string& program, int error_number) {
  Diagnostic d;
  d.kind = ErrorKind::kToolchain;
  d.message = "cannot run '" + program + "': " + std::strerror(error_number);
  if (error_number == ENOENT) d.hint = "install it, or add its folder to PATH";
  return d;
}

int spawn(const std::vector<std::string>& argv, const std::filesystem::path& working_directory,
          const Streams& streams, RunningGroup& group, pid_t& pid) {
  const DelayedSignals delayed;  // no command is started after the others were killed
  const int error = spawn_in(group.guard_, argv, working_directory, streams, pid);
  if (error == 0 && group.guard_ == 0) group.watch(pid);
  return error;
}

}  // namespace llmc
