#pragma once

#include <string>
#include <vector>

#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

/// `llmc bench --kernel`: measures a kernel at several levels.
namespace llmc::cli {

struct KernelOptions {
  std::string kernel;  // "gemm"; empty: a model is measured
  std::string formats = "f32,q4";
  std::string shape = "11008x4096x128";
  bool count = false;
  std::string plugin;
};
/// Adds --kernel and the options that only apply to it.
void add_kernel_options(CLI::App& app, KernelOptions& options);

/// Adds --count and --plugin, for kernels under an emulator.
void add_counting(CLI::App& app, bool& count, std::string& plugin, const std::string& group);

/// The other options that kernel benchmarks use.
struct KernelRun {
  std::string levels = "1,2,3";  // value of --opt-level
  std::string threads = "1";
  std::uint32_t repetitions = 5;
  TableFormat format = TableFormat::kText;
};
/// Runs the benchmark and returns the exit code. Fails with kMismatch if the bits of the
/// results differ between levels or numbers of threads.
Result<int> bench_kernel(const KernelOptions& options, const ModelOptions& model,
                         const KernelRun& run, const Globals& globals);

}  // namespace llmc::cli
