#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "compiler/support/check.h"
#include "llmc/parts.h"

namespace llmc::exec {

/// Receives the calls of StageHook::end and adds the time since the previous call to the stage, or
/// part, that ended.
class StageClock {
 public:
  /// `count`: number of stages or parts, at least 1. The last one also gets the time that belongs
  /// to no other.
  explicit StageClock(std::size_t count) : seconds_(count) { LLMC_CHECK(count > 0); }

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

/// Lets a loaded library, which must have a hook, report to a clock as long as the object exists.
class StageHookScope {
 public:
  StageHookScope(void* library, StageClock& clock) : library_(library) {
    LLMC_CHECK(set_stage_hook(library, clock.hook()));
  }
  ~StageHookScope() { set_stage_hook(library_, {}); }
  StageHookScope(const StageHookScope&) = delete;
  StageHookScope& operator=(const StageHookScope&) = delete;

 private:
  void* library_;
};

}  // namespace llmc::exec
