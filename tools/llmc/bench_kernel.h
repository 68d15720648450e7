#pragma once

#include <string>
#include <vector>

#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

/// `llmc bench --kernel`: one kernel at several levels instead of a model.
namespace llmc::cli {

struct KernelOptions {
  std::string kernel;  // "gemm"; empty: a model is measured
  std::string formats = "f32,q4";
  std::string shape = "11008x4096x128";
  bool count = false;
  std::string plugin;
};
/// Adds --kernel and what goes with it alone.
void add_kernel_options(CLI::App& app, KernelOptions& options);

/// --count and --plugin, of kernels that an emulator executes.
void add_counting(CLI::App& app, bool& count, std::string& plugin, const std::string& group);

/// What else of the command line a kernel's benchmark takes.
struct KernelRun {
  std::string levels = "1,2,3";  // as --opt-level has it
  std::string threads = "1";
  std::uint32_t repetitions = 5;
  TableFormat format = TableFormat::kText;
};
/// The exit code. kMismatch when the levels' results are not the same bits.
int bench_kernel(const KernelOptions& options, const ModelOptions& model, const KernelRun& run,
                 const Globals& globals);

}  // namespace llmc::cli
