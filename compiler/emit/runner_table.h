#pragma once

#include <span>
#include <string>

namespace llmc::emit {

/// An entry of the function table of runtime/runner/function_runner.cpp.
struct RunnerFunction {
  std::string name;
  bool has_options = false;  // the function has NAME_run_with
};
/// Returns the definition of llmc_runner_functions, the table of functions that
/// runtime/runner/function_runner.cpp calls.
std::string runner_table(std::span<const RunnerFunction> functions);

}  // namespace llmc::emit
