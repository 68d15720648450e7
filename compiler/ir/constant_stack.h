#pragma once

#include "compiler/ir/constant.h"

namespace llmc::ir {

/// Returns matrix `index` of a stack [count, rows, columns] (LLMC_CHECK) as a copy. Packed integers
/// remain packed if a matrix begins in a whole byte.
ConstantPtr matrix_of_stack(const ConstantPtr& stack, std::int64_t index);

/// Returns packed integers with other dims; nullptr for other constants, and for rows that are
/// padded.
ConstantPtr reshaped_packed(const ConstantPtr& source, const std::vector<std::int64_t>& dims);

}  // namespace llmc::ir
