#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/support/diagnostic.h"

/// What run_command and ChildProcess are made of.
namespace llmc {

/// Both ends of a pipe, closed on exec; -1 where closed.
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

/// A process group that kill_running_commands ends as long as this lives.
class RunningGroup {
 public:
  explicit RunningGroup(pid_t pid);
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
  ~RunningGroup();

 private:
  int slot_ = -1;
};

/// Descriptors of a new process' standard streams; -1 as input: /dev/null.
struct Streams {
  int input, output, error;
};

/// Starts argv[0], searched in PATH, in a process group of its own. Returns an errno, 0 for
/// success.
int spawn(const std::vector<std::string>& argv, const std::filesystem::path& working_directory,
          const Streams& streams, pid_t& pid);

/// kToolchain: why `program` could not be started.
Diagnostic start_error(const std::string& program, int error_number);

}  // namespace llmc
