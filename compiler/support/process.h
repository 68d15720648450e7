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

/// Descriptors for the standard streams of a new process; -1: /dev/null.
struct Streams {
  int input, output, error;
};

/// The process group of one command. It is killed when this process ends, even by SIGKILL: a guard
/// process leads the group and waits until this process's end of a pipe is closed. The command
/// joins the group before it is executed, so it cannot outlive this process.
/// kill_running_commands() also kills the group, unless 64 others were running when it started.
class RunningGroup {
 public:
  /// Starts the guard. If it cannot be started, for example because there is no /bin/sh, the
  /// command gets a group without a guard, which survives a SIGKILL of this process.
  RunningGroup();
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
  /// Kills the guard, not the command.
  ~RunningGroup();

  /// Kills every process of the group.
  void kill() const;

 private:
  friend int spawn(const std::vector<std::string>& argv,
                   const std::filesystem::path& working_directory, const Streams& streams,
                   RunningGroup& group, pid_t& pid);
  void watch(pid_t id);

  pid_t id_ = 0, guard_ = 0;  // 0: none
  Pipe pipe_;                 // its write end: open until destruction or the end of this process
  int slot_ = -1;
};

/// Starts argv[0], which is searched in PATH, in `group` and sets `pid`. An empty
/// `working_directory` means the caller's. Returns 0 or an errno.
int spawn(const std::vector<std::string>& argv, const std::filesystem::path& working_directory,
          const Streams& streams, RunningGroup& group, pid_t& pid);

/// Returns the kToolchain error for `program`, which could not be started. `error_number`: an
/// errno.
Diagnostic start_error(const std::string& program, int error_number);

}  // namespace llmc
