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

/// A running program, connected by its standard input and output; terminated on destruction and
/// when this process ends in any way (RunningGroup).
class ChildProcess {
 public:
  /// How the program ended.
  struct End {
    int exit_code;               // 128 + signal if a signal ended it; -1 if unknown
    bool was_killed;             // by end(); it did not end by itself
    std::string standard_error;  // its first 64 KiB
  };

  /// Starts argv[0] (searched in PATH) with exactly these arguments, without a shell. Fails with
  /// kToolchain if it cannot be started.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits until all bytes are sent; false if the program no longer reads. Never raises SIGPIPE.
  bool send(std::span<const std::byte> bytes);
  /// Waits until all of `bytes` have arrived; false if its output ends before, or after `limit`.
  bool receive(std::span<std::byte> bytes,
               std::optional<std::chrono::milliseconds> limit = std::nullopt);

  /// Closes the program's input and waits until it ends; kills it after `patience`. Always kills
  /// the processes it left in its process group. Afterwards send and receive fail, and further
  /// calls return the same result.
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
