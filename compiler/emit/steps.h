#pragma once

#include <string>
#include <string_view>

#include "compiler/plan/partition.h"
#include "compiler/plan/plan.h"

/// The forward pass of a partitioned decoder, as a list of steps for accelerators.
namespace llmc::emit {

/// Returns the name of the function for segment `index` of `function`, a loop body or the forward
/// pass: "layer_part_1" for segment 0 of "layer".
std::string segment_name(std::string_view function, std::size_t index);
/// Returns the comment line before this function: "/// Region 2: gate_up, down.".
std::string segment_comment(const plan::Plan& plan, const plan::Segment& segment);

/// Returns `run_step`, which calls these functions, `forward`, which runs all steps, and the table
/// of the steps' regions. Requires a plan with a partition.
std::string step_functions(const plan::Plan& plan);

}  // namespace llmc::emit
