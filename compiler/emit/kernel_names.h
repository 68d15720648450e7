#pragma once

#include <string>

#include "compiler/ir/op.h"
#include "compiler/plan/program.h"

/// Names of templates/llmc/kernels/ in the emitted source.
namespace llmc::emit {

/// C++ type of an attention's shape: "AttentionShape<6, 6, 48, kBlock, kLayers, kCache>".
std::string attention_shape(const plan::AttentionShape& shape);

/// C++ type of a packed matrix or table: "WeightQ4<432, 288>".
std::string weight_type(const plan::PackedWeight& weight);

/// The kernels' types of elementwise operators: "Add", "GeluTanh". The operator must have one.
std::string binary_name(ir::BinaryKind kind);
std::string unary_name(ir::UnaryKind kind);
/// The same of an activation function; kNone is "Identity".
std::string function_name(ir::ActivationFn function);

}  // namespace llmc::emit
