#pragma once

#include <array>
#include <memory>

#include "compiler/exec/native.h"
#include "compiler/exec/stage_clock.h"
#include "llmc/parts.h"

/// Measures the time of stages by compiling the model again with a call after each stage.
namespace llmc::bench {

/// Seconds by Part.
using PartSeconds = std::array<double, kParts>;

/// Returns the kUsage error for stage times of code that runs under this emulator.
Diagnostic stage_times_under(const std::string& emulator);

/// Compiles the source in `model`'s bundle with a call after each stage, and loads it with the same
/// weights. Sessions of the result report to `clock`, by Part; run only one at a time. `compile`:
/// compiler and flags. `huge_pages`: as in NativeOptions. Fails with kUsage if the model runs under
/// an emulator, with kBadInput if src/model.cpp is missing or the compiled library does not define
/// llmc_stage_hook, and with kToolchain if clang fails.
Result<std::unique_ptr<exec::NativeModel>> load_with_stage_times(
    const exec::NativeModel& model, const driver::CompileOptions& compile,
    exec::HugePageOptions huge_pages, exec::StageClock& clock);

}  // namespace llmc::bench
