#pragma once

#include <optional>
#include <vector>

#include "compiler/bench/gemm_operands.h"
#include "compiler/bench/kernel_bench.h"
#include "compiler/driver/toolchain.h"
#include "compiler/exec/emulator.h"

/// Kernels that another processor's emulator runs.
namespace llmc::bench {

/// An emulator, and the plugin that counts what it executes (tools/instructions).
struct CountingEmulator {
  exec::Emulator emulator;
  std::filesystem::path plugin;  // empty: time is measured
};

/// How the kernel is to be run at all of the levels; nullopt: in this process. Errors: as
/// find_emulator, and kToolchain when instructions are to be counted and the plugin is missing.
Result<std::optional<CountingEmulator>> find_counting_emulator(const KernelBenchOptions& options);

/// Times or counts of one format, one thread, each level in turn; appended to `results`.
Status bench_emulated(const KernelBenchOptions& options, const CountingEmulator& emulator,
                      WeightKind format, const driver::Toolchain& toolchain,
                      const driver::Progress& progress, std::vector<KernelTimes>& results);

}  // namespace llmc::bench
