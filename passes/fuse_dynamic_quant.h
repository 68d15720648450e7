#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Moves a factor after a product with a quantized matrix into the matrix's scales.
///
///   matmul(x, quantized(codes, s, z)) * c  ->  matmul(x, quantized(codes, s c, z))
///
/// c: a constant scalar, or one element for each column. Exporters that quantize activations
/// dynamically write this (the importer has replaced the integer product by one of floats).
/// Unchanged if the product has other users, the matrix is not quantized, or c is not of that form.
Result<ir::Graph> fuse_dynamic_quant(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
