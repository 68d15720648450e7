#pragma once

#include <cstdint>
#include <span>

#include "compiler/ir/constant.h"

/// The Walsh-Hadamard transform of the inputs of a matrix product, and of its weights
/// (templates/llmc/quant/hadamard.h, docs/numerics.md). A row is divided into superblocks, of which
/// the last may have fewer columns. A superblock is divided into groups of equal size, and each
/// group is transformed separately. The product of the transformed rows of x and W equals the
/// product of x and W, except for rounding.
namespace llmc::ir {

/// Returns the size of the groups in a superblock of `columns` columns: the largest power of two
/// that divides `columns`, or 1 (no transform) if that is less than 32.
std::int64_t hadamard_size(std::int64_t columns);
/// Returns whether any group of a row of `columns` columns is transformed.
bool has_hadamard_basis(std::int64_t columns, std::int64_t superblock);

/// Transforms a row of x in place.
void hadamard_input(std::span<float> row, std::int64_t superblock);
/// Makes a lazy f32 view of W, a matrix, whose rows are transformed. Its text form is
/// hadamard(W, superblock). A group with an element that is not finite is not transformed, so that
/// messages about the weight name this element. `superblock` must be positive (LLMC_CHECK).
ConstantPtr hadamard_weight(ConstantPtr matrix, std::int64_t superblock);

}  // namespace llmc::ir
