#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Moves a factor after a product with a quantized matrix into the matrix's scales.
///
///   matmul(x, quantized(codes, s, z)) * c  ->  matmul(x, quantized(codes, s c, z))
///
/// c is an f32 constant: a scalar, or one element for each column. Graphs with dynamically
/// quantized activations contain this pattern after the importer has replaced the integer product
/// by a float product. Unchanged if the product has other users, the matrix is not quantized, or c
/// has another shape.
Result<ir::Graph> fuse_dynamic_quant(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
