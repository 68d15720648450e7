#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

/// How long a graph takes that is compiled as a function.
namespace llmc::bench {

struct FunctionBenchOptions {
  driver::CompileOptions compile;  // model, target, dims, cc, cflags
  std::string emulator = {};       // as for find_emulator
  std::uint32_t repetitions = 20;
  std::vector<std::uint32_t> threads = {};  // empty: 1 and 2, under an emulator 1
};

struct FunctionBenchReport {
  std::vector<plan::Port> inputs;
  std::uint64_t weights_bytes = 0, arena_bytes = 0;
  std::string target;
  std::uint32_t opt_level = 0;
  std::string emulator;   // its command; empty when this processor ran the code
  int integer_value = 1;  // of all elements of integer and bool inputs
  struct Test {
    std::uint32_t threads = 1;
    std::vector<double> seconds;  // one per run; a warm-up before them does not count
    double median_seconds() const;
    double deviation() const;  // standard deviation in seconds; 0 of one run
  };
  std::vector<Test> tests;  // one for each number of threads
};

/// Compiles the graph of `source`, what read_source(options.compile) gave, for the sizes of
/// `compile.dims` and runs it on made-up inputs
/// (exec/made_up_inputs.h). Errors as
/// compile_model, kBadInput if neither is a valid input, and kUsage for several threads under an
/// emulator.
Result<FunctionBenchReport> bench_function(const FunctionBenchOptions& options,
                                           driver::Source source,
                                           const driver::Progress& progress = {});

}  // namespace llmc::bench
