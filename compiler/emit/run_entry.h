#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compiler/plan/plan.h"

/// The emitted code of a plain graph: NAME_run, NAME_run_with and NAME_supported
/// (docs/functions.md). A decoder's library contains one for its encoder.
namespace llmc::emit {

/// Returns the includes that run_entry() needs for all of the plans.
std::string run_includes(std::span<const plan::Plan* const> plans);
/// Returns the offsets of weights and values, the stages in execution order, and the functions of
/// the entry. `weights_hash` is the xxh64 of the weights; the code rejects a weights file with
/// another hash. With `stage_marks`, finished() of llmc/stage_times.h is called after each stage.
std::string run_entry(const plan::Plan& plan, std::uint64_t weights_hash, bool stage_marks = false);
/// Returns whether the caller passes the weights, as the input after those of the graph.
bool has_weights_input(const plan::Plan& plan);

}  // namespace llmc::emit
