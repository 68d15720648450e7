#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/function.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

/// Execution time of a graph that is compiled as a function.
namespace llmc::bench {

struct FunctionBenchOptions {
  driver::CompileOptions compile;  // model, target, dims, cc, cflags
  std::string emulator = {};       // as for find_emulator
  std::uint32_t repetitions = 20;
};

struct FunctionBenchReport {
  std::vector<plan::Port> inputs;
  std::uint64_t weights_bytes = 0, arena_bytes = 0;
  std::string target;
  std::uint32_t opt_level = 0;
  std::string emulator;         // its command; empty if this processor ran the code
  int integer_value = 1;        // of all elements of integer and bool inputs
  std::vector<double> seconds;  // one per run, on one thread, without the warm-up
  double median_seconds() const;
  double deviation() const;  // standard deviation in seconds; 0 for one run
};

/// Compiles the graph of `source`, the result of read_source(options.compile), for the sizes of
/// `compile.dims` and runs it on generated inputs: floats in (-1, 1); integers and bools 1, or 0 if
/// 1 is an index out of range. Errors as compile_function, and kBadInput if both are invalid.
Result<FunctionBenchReport> bench_function(const FunctionBenchOptions& options,
                                           driver::Source source,
                                           const driver::Progress& progress = {});

}  // namespace llmc::bench
