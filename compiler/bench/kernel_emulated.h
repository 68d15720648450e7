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
  std::filesystem::path plugin;  // empty: measure time
};

/// Returns the emulator for all levels; nullopt: run in this process. Fails like find_emulator().
/// Fails with kToolchain if instructions must be counted but no plugin is found. Fails with kUsage
/// if instructions must be counted with the plugin of `options`, but no emulator is given and the
/// target needs none.
Result<std::optional<CountingEmulator>> find_counting_emulator(const KernelBenchOptions& options);

/// Measures one format on one thread and appends its times or instruction counts to `results`.
Status bench_emulated(const KernelBenchOptions& options, const CountingEmulator& emulator,
                      WeightKind format, const driver::Toolchain& toolchain,
                      const driver::Progress& progress, std::vector<KernelTimes>& results);

}  // namespace llmc::bench
