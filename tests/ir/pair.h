#pragma once

#include "compiler/ir/type.h"

namespace llmc::ir {

/// A type for graphs whose types do not matter.
inline const TensorType kPair{ElementType::kF32, {Dim(2)}};

}  // namespace llmc::ir
