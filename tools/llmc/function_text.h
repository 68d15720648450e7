#pragma once

#include <CLI/CLI.hpp>
#include <map>
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

}  // namespace llmc::cli
