#pragma once

#include <span>
#include <string>

#include "compiler/plan/plan.h"

/// The text of the files a compiled function's bundle is made from (docs/functions.md). All are
/// functions of the plan alone: the same plan gives the same bytes.
namespace llmc::emit {

/// src/model.cpp: loops and kernel calls in order, constants as offsets, NAME_run.
/// `weights_hash` is xxh64 of the weights; a file of others is refused.
std::string function_source(const plan::Plan& plan, std::uint64_t weights_hash);

/// Its parts, to compile many functions as one source: the includes, which all share, and what
/// belongs to one function.
std::string function_includes(std::span<const plan::Plan* const> plans);
std::string function_body(const plan::Plan& plan, std::uint64_t weights_hash);

/// A function for the table of runtime/runner/function_runner.cpp.
struct RunnerFunction {
  std::string name;
  bool has_options = false;  // NAME_run_with
};
/// llmc_runner_functions: functions that call these, for runtime/runner/function_runner.cpp.
std::string function_table(std::span<const RunnerFunction> functions);

/// NAME.h: sizes and types of inputs and outputs, NAME_ARENA_BYTES, NAME_run.
std::string function_header(const plan::Plan& plan);

}  // namespace llmc::emit
