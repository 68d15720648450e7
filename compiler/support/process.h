#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/support/diagnostic.h"

/// Shared parts of run_command and ChildProcess.
namespace llmc {

/// Both ends of a pipe, closed on exec; -1 if closed.
struct Pipe {
  int read = -1, write = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_read();
    close_write();
  }
  bool open();
  void close_read();
  void close_write();
};

/// Descriptors of a new process's standard streams; -1: /dev/null.
struct Streams {
  int input, output, error;
};

/// The process group of one command. It is killed when this process ends, also by SIGKILL: the
/// leader of the group is a guard process, which waits for the end of a pipe whose other end this
/// process holds. The command joins the group before it is executed, so it can never be left
/// behind. While the object lives, kill_running_commands kills the group, too.
class RunningGroup {
 public:
  /// Starts the guard. If there is no /bin/sh to run it, the command leads a separate group, which
  /// survives a SIGKILL of this process.
  RunningGroup();
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
  /// Ends the guard, not the command.
  ~RunningGroup();

  /// Kills every process of the group.
  void kill() const;

 private:
  friend int spawn(const std::vector<std::string>& argv,
                   const std::filesystem::path& working_directory, const Streams& streams,
                   RunningGroup& group, pid_t& pid);
  void watch(pid_t id);

  pid_t id_ = 0, guard_ = 0;  // 0: none
  Pipe pipe_;                 // its write end stays open as long as this process lives
  int slot_ = -1;
};

/// Starts argv[0], searched in PATH, in `group`. Returns an errno, 0 for success.
int spawn(const std::vector<std::string>& argv, const std::filesystem::path& working_directory,
          const Streams& streams, RunningGroup& group, pid_t& pid);

/// Returns the kToolchain error for `program`, which could not be started.
Diagnostic start_error(const std::string& program, int error_number);

}  // namespace llmc
