#pragma once

#include <array>
#include <chrono>
#include <memory>

#include "compiler/exec/native.h"
#include "llmc/parts.h"

/// Time measurement of stages, by compiling the model again with calls at the end of each stage.
namespace llmc::bench {

/// Seconds, indexed by Part.
using PartSeconds = std::array<double, kParts>;

/// Receives the calls of StageHook::end: adds the time since the last call to the finished part.
class StageClock {
 public:
  void start();
  /// Seconds since start(). Time after the last stage is added to kRest, so that the sum is the
  /// total.
  PartSeconds stop();
  static void end(void* clock, std::uint32_t part);

 private:
  void add(std::uint32_t part);

  PartSeconds seconds_{};
  std::chrono::steady_clock::time_point last_;
};

/// Compiles the source in the bundle of `model` with marks after its stages and loads it beside the
/// same weights; sessions of the result report to `clock`, one at a time. `compile`: compiler and
/// flags. kUsage when the model runs under an emulator, kBadInput when its bundle's source has no
/// marks.
Result<std::unique_ptr<exec::NativeModel>> load_with_stage_times(
    const exec::NativeModel& model, const driver::CompileOptions& compile, StageClock& clock);

}  // namespace llmc::bench
