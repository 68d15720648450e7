#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Replaces products with a constant matrix by linear layers, and a gather of table rows by an
/// embedding.
///
///   matmul(x, W[K, N])                  -> linear(x, W^T)          W^T a lazy view
///   gemm(x, W, c?) {alpha = beta = 1}   -> linear(x, W or W^T, c?) for either trans_b; c constant
///   add(linear(x, W), b)                -> linear(x, W, b)         b f32[N] constant, either side
///   [cast] gather(table[V, n], ids)     -> embedding(ids, table)   axis 0, result f32
///   linear(view of x as [rows, K], W)   -> reshape(linear(x, W))
///
/// In a decoder, ids must be an i64 input (token ids or positions) or a reshape of it, with at most
/// one dim that is not 1; casts to i32 are accepted. In a plain graph, they may be any computed
/// value, but lookups are replaced only if PassOptions::weights is set. W and table may be f16 or
/// bf16 with a Cast to f32: the layer reads the constant as it is stored. Unchanged if the matrix
/// is computed or its rank is not 2, if alpha is not 1, if beta is not 1 and there is a c, or if x
/// is transposed.
Result<ir::Graph> to_linear(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
