#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/source.h"
#include "compiler/support/result.h"
#include "tools/llmc/cli.h"

/// Options and output for graphs that are compiled as functions.
namespace llmc::cli {

struct FunctionOptions {
  bool function = false;
  std::vector<std::string> dims;  // "name=value"
};
void add_function_options(CLI::App& app, FunctionOptions& options);
/// Copies the options to `compile`; kUsage for a dim that is not "name=value".
Status apply(const FunctionOptions& options, driver::CompileOptions& compile);

/// Returns the graph to run as a function: one that is not a decoder, or any graph if --dim or
/// --function is given; nullopt for a decoder or a bundle. Copies `options` to `compile`.
Result<std::optional<driver::Source>> function_to_run(const FunctionOptions& options,
                                                      driver::CompileOptions& compile);

}  // namespace llmc::cli
