#pragma once

#include <array>
#include <chrono>
#include <memory>

#include "compiler/exec/native.h"
#include "llmc/parts.h"

/// A model once more, compiled so that its stages say when they end.
namespace llmc::bench {

/// Seconds by Part.
using PartSeconds = std::array<double, kParts>;

/// What StageHook::end writes to: the time since the last call goes to the part that has ended.
class StageClock {
 public:
  void start();
  /// Since start(); what came after the last stage is kRest, so that the sum is all the time.
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
