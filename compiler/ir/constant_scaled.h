#pragma once

#include "compiler/ir/constant.h"

namespace llmc::ir {

/// Makes the f32 matrix whose elements are those of `matrix`, as floats, times `factor`, rounded to
/// f32: scaled_rows() if the matrix was made by make_quantized, otherwise a lazy view.
ConstantPtr scaled(ConstantPtr matrix, float factor);

}  // namespace llmc::ir
