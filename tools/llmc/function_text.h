#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "compiler/driver/function.h"
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

/// The content of a plain graph's plan.json as aligned lines, without a final newline. Throws
/// nlohmann's exceptions if a field is missing. Called by plan_text().
std::string function_plan_text(const Json& plan);

}  // namespace llmc::cli
