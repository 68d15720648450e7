#pragma once

#include <string>

#include "compiler/plan/plan.h"

/// Where weights and buffers start, as constants of the emitted source: "constexpr uint64_t kQkv =
/// 4096;  // q4[128, 64]  name in the model". Each function returns an empty text if there is
/// nothing to list.
namespace llmc::emit {

/// Returns the offsets of the weights, except those in the tables of loops (loop_weights()).
std::string weight_offsets(const plan::Program& program);
/// Returns the table of a loop's weights: a struct of offsets, and its values for each iteration.
std::string loop_weights(const plan::Program& program, const plan::LoopStage& loop);
/// Returns the offsets of the buffers in the arena or scratch, and of the kernels' work area.
std::string buffer_offsets(const plan::Plan& plan);

}  // namespace llmc::emit
