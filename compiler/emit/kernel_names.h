#pragma once

#include <string>

#include "compiler/ir/op.h"
#include "compiler/plan/program.h"

/// Names of templates/llmc/kernels/ in the emitted source.
namespace llmc::emit {

/// Returns the C++ type of a packed matrix or table: "WeightQ4<432, 288>". `rows` and `columns`
/// override the text of these numbers unless they are empty.
std::string weight_type(const plan::PackedWeight& weight, std::string rows = {},
                        std::string columns = {});

/// Returns the kernel type of an elementwise operator: "Add", "GeluTanh". The operator must have
/// one.
std::string binary_name(ir::BinaryKind kind);
std::string unary_name(ir::UnaryKind kind);
/// Returns the kernel type of an activation function; "Identity" for kNone.
std::string function_name(ir::ActivationFn function);

}  // namespace llmc::emit
