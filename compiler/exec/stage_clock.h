#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "llmc/parts.h"

namespace llmc::exec {

/// Receives the calls of StageHook::end and adds the time since the previous call to the stage, or
/// part, that ended.
class StageClock {
 public:
  /// `count`: number of stages or parts. The last one also gets the time that belongs to no other.
  explicit StageClock(std::size_t count) : seconds_(count) {}

  void start();
  /// Stops the clock and returns the seconds since start(), by stage. The time after the end of the
  /// last call is added to the last stage, so that the sum is the total time.
  std::vector<double> stop();
  StageHook hook() { return {.end = end, .user = this}; }

 private:
  static void end(void* clock, std::uint32_t stage);
  void add(std::size_t stage);

  std::vector<double> seconds_;
  std::chrono::steady_clock::time_point last_;
};

/// Sets the hook of a library that was loaded by dlopen(). Returns false if the library has none.
bool set_stage_hook(void* library, StageHook hook);

}  // namespace llmc::exec
