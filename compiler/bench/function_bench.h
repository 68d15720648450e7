#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

/// Measures the execution time of a graph that is compiled as a function.
namespace llmc::bench {

struct FunctionBenchOptions {
  driver::CompileOptions compile;  // model, target, dims, cc, cflags
  std::string emulator = {};       // as for find_emulator
  std::uint32_t repetitions = 20;
  /// Numbers of threads. Empty: 1 and, unless an emulator or compile.threads_max prevents it, 2.
  std::vector<std::uint32_t> threads = {};
  bool layers = false;  // whether to measure each stage, too
};

struct FunctionBenchReport {
  std::vector<plan::Port> inputs;
  std::uint64_t weights_bytes = 0, arena_bytes = 0;
  std::string target;
  std::uint32_t opt_level = 0;
  std::string emulator;  // the emulator's command; empty if this processor ran the code
  int max_integer = 1;   // integer and bool inputs are 0 or this (exec/random_inputs.h)
  /// A stage of the graph; the file and the node are untrusted text.
  struct Stage {
    std::string what;  // format of the weights, shapes: "q8 [128, 768] x [3072, 768]^T -> gelu"
    ir::Origin origin;
    std::uint64_t multiply_adds = 0;  // per run
  };
  std::vector<Stage> stages;  // in execution order; empty without `layers`
  struct Test {
    std::uint32_t threads = 1;
    std::vector<double> seconds;  // one per run; the warm-up run is not included
    /// Seconds of each stage in the run with the median total, of a second build that measures
    /// stages.
    std::vector<double> stage_seconds = {};
    double median_seconds() const;
    double deviation() const;  // standard deviation in seconds; 0 for a single run
  };
  std::vector<Test> tests;  // one for each number of threads
};

/// Compiles the graph of `source`, the result of read_source(options.compile), for the sizes in
/// `source.dims`, and runs it on pseudorandom inputs of maximum sizes (exec/random_inputs.h). Fails
/// like compile_model(). Also fails with kBadInput if the function rejects both 0 and 1 as
/// integers, and with kUsage for several threads or `layers` under an emulator.
Result<FunctionBenchReport> bench_function(const FunctionBenchOptions& options,
                                           driver::Source source,
                                           const driver::Progress& progress = {});

}  // namespace llmc::bench
