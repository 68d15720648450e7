#pragma once

#include <cstdint>

#include "compiler/plan/program.h"

namespace llmc::plan {

/// Returns a hash of what a program computes with its weights: every stage in order with its
/// buffers, weights, shapes and constants (an epsilon, a scale, a window, an activation, …), and
/// the storage format of each weight. Two models that differ in any of these may compute different
/// caches for the same tokens. The hash does not depend on the contents of the weights, the target,
/// the context or the batch. Compiler versions that produce the same program compute the same hash.
/// It is stored in llmc_model.program_hash and is never 0. `encoder`: also hashed unless nullptr.
std::uint64_t program_hash(const Program& program, const Program* encoder = nullptr);

}  // namespace llmc::plan
