#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "tools/llmc/function_text.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {

struct FunctionBench {
  std::optional<std::uint32_t> repetitions = std::nullopt;
  TableFormat format = TableFormat::kText;
};

/// Whether `bench` measures a function: the model's graph is none of a decoder, or --dim or
/// --function asks for it. Puts `options` into `compile`.
Result<bool> benches_function(const FunctionOptions& options, const ModelOptions& model,
                              driver::CompileOptions& compile);

/// `llmc bench` of a graph that is compiled as a function: the time of a run. kUsage for options of
/// `app` that only decoders have. Returns the exit code.
int bench_function(const CLI::App& app, const driver::NativeOptions& native,
                   const FunctionBench& options, const Globals& globals);

}  // namespace llmc::cli
