#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/process.h"
#include "compiler/support/result.h"

namespace llmc {

/// A running program, connected through its standard input and output. Terminated on destruction,
/// and when this process ends, even by SIGKILL (RunningGroup).
class ChildProcess {
 public:
  /// How the program ended.
  struct End {
    int exit_code;               // 128 + signal if a signal ended it; -1 if unknown
    bool was_killed;             // whether end() killed it, because it did not end by itself
    std::string standard_error;  // the first 64 KiB
  };

  /// Starts argv[0] (searched in PATH) with exactly these arguments, without a shell. Fails with
  /// kToolchain if it cannot be started.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Sends all bytes; waits for the program to read while the socket's buffer is full. Returns
  /// false if the program no longer reads. Never raises SIGPIPE.
  bool send(std::span<const std::byte> bytes);
  /// Waits until all of `bytes` have been received. Returns false if the program's output ends
  /// first or `limit` has passed.
  bool receive(std::span<std::byte> bytes,
               std::optional<std::chrono::milliseconds> limit = std::nullopt);

  /// Closes the program's input and output, waits until the program ends, and kills it after
  /// `patience`. Also kills the other processes in its process group. Afterwards, send() and
  /// receive() fail, and further calls return the same result.
  const End& end(std::chrono::milliseconds patience);

 private:
  ChildProcess() = default;
  void wait_for(short events, int timeout_ms);
  void drain_standard_error();
  bool reap(bool wait);

  pid_t pid_ = 0;
  int socket_ = -1;
  Pipe error_;
  std::optional<RunningGroup> group_;
  std::string standard_error_;
  std::optional<End> end_;
};

}  // namespace llmc
