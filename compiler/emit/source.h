#pragma once

#include <string>
#include <string_view>

#include "compiler/plan/plan.h"

/// Generates the source files of a bundle. The output is deterministic: it depends only on the
/// arguments.
namespace llmc::emit {

inline constexpr std::string_view kCompilerVersion = "0.1.0";

/// Returns src/model.cpp: the stages of all entries as kernel calls and loops, the offsets of
/// weights and buffers, and the functions that NAME.h declares. `weights_hash` is the xxh64 of the
/// weights.
std::string model_source(const plan::Plan& plan, std::uint64_t weights_hash);

/// Returns NAME.h: the C header. For a model with a session it has the model's constants and
/// NAME_init; for a plain graph the sizes and types of inputs and outputs, NAME_ARENA_BYTES,
/// NAME_run, NAME_run_with and NAME_supported.
std::string header(const plan::Plan& plan, std::uint64_t weights_hash);

/// Returns NAME.cmake, which defines the imported target NAME::NAME.
std::string cmake_file(std::string_view name);
/// Returns NAME.pc. `what` describes the compiled object: "language model" or "function".
std::string pkg_config_file(std::string_view name, std::string_view what,
                            const target::Target& target);

}  // namespace llmc::emit
