#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "compiler/driver/function.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {

struct FunctionBench {
  std::optional<std::uint32_t> repetitions = std::nullopt;
  TableFormat format = TableFormat::kText;
};

/// Returns the graph to measure as a function: one that is not a decoder, or any graph if --dim or
/// --function is given; nullopt for a decoder or a bundle. Copies `options` to `compile`.
Result<std::optional<driver::Source>> function_to_bench(const FunctionOptions& options,
                                                        driver::CompileOptions& compile);

/// `llmc bench` of a graph that is compiled as a function: measures the time of a run and returns
/// the exit code. kUsage for options that select tests of decoders, a warning for options that
/// compile decoders.
int bench_function(const CLI::App& app, const ModelOptions& model,
                   const exec::NativeOptions& native, driver::Source source,
                   const FunctionBench& options, const Globals& globals);

}  // namespace llmc::cli
