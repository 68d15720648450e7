#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "compiler/driver/source.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {

struct FunctionBench {
  std::optional<std::uint32_t> repetitions = std::nullopt;
  TableFormat format = TableFormat::kText;
  std::vector<std::uint32_t> threads = {};  // empty: the default of bench::FunctionBenchOptions
  bool layers = false;                      // whether to measure each stage, too
};

/// Implements `llmc bench` for a graph that is compiled as a function: measures the time of a run
/// and returns the exit code. Fails with kUsage for options that select tests of decoders. Warns
/// about options for the compilation of decoders.
Result<int> bench_function(const CLI::App& app, const ModelOptions& model,
                           const exec::NativeOptions& native, driver::Source source,
                           const FunctionBench& options, const Globals& globals);

}  // namespace llmc::cli
