#pragma once

#include <array>
#include <chrono>
#include <memory>

#include "compiler/exec/native.h"
#include "llmc/parts.h"

/// Measures the time of stages by compiling the model again with a call after each stage.
namespace llmc::bench {

/// Seconds by Part.
using PartSeconds = std::array<double, kParts>;

/// Receives the calls of StageHook::end and adds the time since the previous call to the finished
/// part.
class StageClock {
 public:
  void start();
  /// Stops the clock and returns the seconds since start(). The time after the last stage is part
  /// of kRest, so the sum is the total time.
  PartSeconds stop();
  static void end(void* clock, std::uint32_t part);

 private:
  void add(std::uint32_t part);

  PartSeconds seconds_{};
  std::chrono::steady_clock::time_point last_;
};

/// Compiles the source in `model`'s bundle with a call after each stage, and loads it with the same
/// weights. Sessions of the result report to `clock`; run only one at a time. `compile`: compiler
/// and flags. `huge_pages`: as in NativeOptions. Fails with kUsage if the model runs under an
/// emulator, with kBadInput if src/model.cpp is missing or the compiled library does not define
/// llmc_stage_hook, and with kToolchain if clang fails.
Result<std::unique_ptr<exec::NativeModel>> load_with_stage_times(
    const exec::NativeModel& model, const driver::CompileOptions& compile,
    exec::HugePageOptions huge_pages, StageClock& clock);

}  // namespace llmc::bench
