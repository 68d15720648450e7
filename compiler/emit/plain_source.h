#pragma once

#include <span>
#include <string>

#include "compiler/plan/plan.h"

/// Generates the source files of a compiled function's bundle (docs/functions.md). The output is
/// deterministic: it depends only on the arguments.
namespace llmc::emit {

/// Returns src/model.cpp: the stages in execution order, the offsets of the constants in the
/// weights, and NAME_run, NAME_run_with and NAME_supported. `weights_hash` is the xxh64 of the
/// weights; a weights file with another hash is rejected.
std::string function_source(const plan::Plan& plan, std::uint64_t weights_hash);

/// Return the two parts of function_source() for a source that contains several functions: the
/// shared includes, and the code of one function.
std::string function_includes(std::span<const plan::Plan* const> plans);
std::string function_body(const plan::Plan& plan, std::uint64_t weights_hash);

/// An entry of the function table of runtime/runner/function_runner.cpp.
struct RunnerFunction {
  std::string name;
  bool has_options = false;  // the function has NAME_run_with
};
/// Returns the definition of llmc_runner_functions, the table of functions that
/// runtime/runner/function_runner.cpp calls.
std::string function_table(std::span<const RunnerFunction> functions);

/// Returns the macros of a plain graph's inputs, PREFIX_INPUTS and PREFIX_INPUT_…, and of the open
/// dims that a call sets, PREFIX_DIM_….
std::string input_macros(const plan::Program& program, const std::string& prefix);

/// Returns NAME.h: sizes and types of inputs and outputs, NAME_ARENA_BYTES, and the declarations of
/// NAME_run, NAME_run_with and NAME_supported.
std::string function_header(const plan::Plan& plan);

}  // namespace llmc::emit
