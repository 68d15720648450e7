#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/source.h"
#include "compiler/support/result.h"
#include "tools/llmc/cli.h"

/// What the commands say of graphs that are compiled as functions.
namespace llmc::cli {

struct FunctionOptions {
  bool function = false;
  std::vector<std::string> dims;  // "name=value"
};
void add_function_options(CLI::App& app, FunctionOptions& options);
/// Puts them into `compile`; kUsage for a dim that is no "name=value".
Status apply(const FunctionOptions& options, driver::CompileOptions& compile);

/// Returns what is run as a function: a graph that is not a decoder, or one for which --dim or
/// --function asks for it; nullopt for a decoder or a bundle. Puts `options` into `compile`.
Result<std::optional<driver::Source>> function_to_run(const FunctionOptions& options,
                                                      driver::CompileOptions& compile);

}  // namespace llmc::cli
