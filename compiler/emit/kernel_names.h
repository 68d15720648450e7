#pragma once

#include <string>

#include "compiler/ir/op.h"
#include "compiler/plan/program.h"

/// Names of templates/llmc/kernels/ in the emitted source.
namespace llmc::emit {

/// C++ type of a packed matrix or table: "WeightQ4<432, 288>". `rows` and `columns`: texts of these
/// numbers, or empty.
std::string weight_type(const plan::PackedWeight& weight, std::string rows = {},
                        std::string columns = {});

/// The kernels' types of elementwise operators: "Add", "GeluTanh". The operator must have one.
std::string binary_name(ir::BinaryKind kind);
std::string unary_name(ir::UnaryKind kind);
/// The same of an activation function; kNone is "Identity".
std::string function_name(ir::ActivationFn function);

}  // namespace llmc::emit
