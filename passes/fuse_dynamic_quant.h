#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The scale of a quantized matrix that stands behind the product moves into the matrix, which then
/// is what the whole arithmetic stands for.
///
///   matmul(x, quantized(codes, s, z)) * c  ->  matmul(x, quantized(codes, s c, z))
///
/// c: one number, or one for each column. Exporters that quantize activations dynamically write
/// this (the importer has made the integer product one of floats). Unchanged when the product is
/// read elsewhere, when the matrix is not quantized, or when c is no such constant.
Result<ir::Graph> fuse_dynamic_quant(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
