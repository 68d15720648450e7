#pragma once

#include <cstdint>

#include "compiler/plan/program.h"

namespace llmc::plan {

/// Names what a program computes with its weights: every stage in order, its buffers, weights,
/// shapes and constants (an epsilon, a scale, a window, an activation …), and how each weight is
/// stored. Two models that differ in one of them have different caches after the same tokens. Not
/// the weights' bytes, nor anything of a target, a context or a batch; equal for equal programs in
/// every version that plans alike. llmc_model.program_hash; never 0.
std::uint64_t program_hash(const Program& program);

}  // namespace llmc::plan
