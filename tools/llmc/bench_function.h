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
  std::vector<std::uint32_t> threads = {};  // empty: bench::FunctionBenchOptions decides
};

/// `llmc bench` of a graph that is compiled as a function: the time of a run. kUsage for options of
/// `app` that say what to measure of a decoder, a warning for those that say how to compile one.
/// Returns the exit code.
int bench_function(const CLI::App& app, const ModelOptions& model,
                   const exec::NativeOptions& native, driver::Source source,
                   const FunctionBench& options, const Globals& globals);

}  // namespace llmc::cli
