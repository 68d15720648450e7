#pragma once

#include "compiler/ir/constant.h"

namespace llmc::ir {

/// Returns a copy of matrix `index` of a stack [count, rows, columns] (LLMC_CHECK). Packed integers
/// remain packed if the matrix begins at a byte boundary.
ConstantPtr matrix_of_stack(const ConstantPtr& stack, std::int64_t index);

/// Returns a view of packed integers (make_packed) with other dims; nullptr if `source` is another
/// constant or its rows are padded.
ConstantPtr reshaped_packed(const ConstantPtr& source, const std::vector<std::int64_t>& dims);

}  // namespace llmc::ir
