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
  std::vector<std::string> dims;  // "name=value", "name=1..512"
};
void add_function_options(CLI::App& app, FunctionOptions& options);
/// Adds --dim alone and returns the option.
CLI::Option* add_dims(CLI::App& app, std::vector<std::string>& dims);
/// Copies the options to `compile`. Fails like parse_dims().
Status apply(const FunctionOptions& options, driver::CompileOptions& compile);
/// Parses the values of --dim. Fails with kUsage for a value that is not "name=size" or
/// "name=min..max", and for a dim with two sizes.
Result<plan::DimRanges> parse_dims(const std::vector<std::string>& dims);

/// Returns the graph to run as a function: one that is not a decoder, or any graph if --dim or
/// --function is given; nullopt for a decoder or a bundle. Copies `options` to `compile`, except
/// for a bundle. Fails with kUsage for these options with a bundle, and like driver::read_source().
Result<std::optional<driver::Source>> function_to_run(const FunctionOptions& options,
                                                      driver::CompileOptions& compile);

}  // namespace llmc::cli
