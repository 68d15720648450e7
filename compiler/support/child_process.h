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

/// A program that is talked to through its standard input and output while it runs. It ends with
/// the object, and with this process, however that ends (RunningGroup).
class ChildProcess {
 public:
  /// How it ended.
  struct End {
    int exit_code;               // 128 + signal when a signal ended it; -1 when that is lost
    bool was_killed;             // by end(): it did not end by itself
    std::string standard_error;  // the first 64 KiB
  };

  /// Starts argv[0] (searched in PATH) with exactly these arguments, no shell between. kToolchain
  /// when it cannot be started.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits until all bytes are on their way; false when it reads no more. Never raises SIGPIPE.
  bool send(std::span<const std::byte> bytes);
  /// Waits until all of `bytes` are there; false when its output ends before, or `limit` passes.
  bool receive(std::span<std::byte> bytes,
               std::optional<std::chrono::milliseconds> limit = std::nullopt);

  /// Closes its input and waits until it ends; kills it after `patience`. What it
  /// started and left in its process group is killed in any case. Afterwards send and receive fail.
  /// Again: the same answer.
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
