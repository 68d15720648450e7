#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Replaces products with a constant matrix by linear layers, and a gather of table rows by an
/// embedding.
///
///   matmul(x, W[K, N])                  -> linear(x, W^T)          W^T a lazy view
///   gemm(x, W, c?) {alpha = beta = 1}   -> linear(x, W or W^T, c?) for either trans_b
///   add(linear(x, W), b)                -> linear(x, W, b)         b f32[N] constant, either side
///   [cast] gather(table[V, n], ids)     -> embedding(ids, table)   axis 0, to f32; ids or
///                                          positions: an input or a view of it, all tokens along
///                                          one axis (reshapes around)
///   linear(view of x as [rows, K], W)   -> reshape(linear(x, W))
///
/// W and table may be f16 or bf16 with a Cast to f32: the layer reads the constant as it is stored.
/// Unchanged if the matrix is computed or its rank is not 2, or alpha or beta are not 1.
Result<ir::Graph> to_linear(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
