#pragma once

#include <optional>
#include <vector>

#include "compiler/bench/gemm_operands.h"
#include "compiler/bench/kernel_bench.h"
#include "compiler/driver/toolchain.h"
#include "compiler/exec/emulator.h"

/// Measures kernels under an emulator.
namespace llmc::bench {

/// An emulator, and the plugin that counts executed instructions (tools/instructions).
struct CountingEmulator {
  exec::Emulator emulator;
  std::filesystem::path plugin;  // empty: time is measured
};

/// The emulator for all levels; nullopt: run in this process. Errors: as find_emulator, and
/// kToolchain if the plugin is needed to count instructions but missing.
Result<std::optional<CountingEmulator>> find_counting_emulator(const KernelBenchOptions& options);

/// Appends times or counts of one format on one thread to `results`.
Status bench_emulated(const KernelBenchOptions& options, const CountingEmulator& emulator,
                      WeightKind format, const driver::Toolchain& toolchain,
                      const driver::Progress& progress, std::vector<KernelTimes>& results);

}  // namespace llmc::bench
