#pragma once

#include <cstdint>

#include "passes/pass.h"

namespace llmc::passes {

/// Number of rows of a panel of interleaved weights. The rows of a panel must belong to one expert.
inline constexpr std::int64_t kExpertPanel = 8;

/// Converts products with the weights of chosen experts to ExpertLinear:
///
///   gather(W[E, N, K], ids[…]) . x[…, K, 1]  ->  expert_linear(x[…, K], W[E * N, K], ids)
///   x[…, 1, K] . gather(W[E, K, N], ids[…])  ->  the same with each expert's matrix transposed
///
/// The gathered matrices may be transposed after the lookup instead. A bias gather(b[E, N], ids)
/// that is added to the result is included. The ids must be indices of a TopK along a dim of E
/// elements, or clamped to 0 … E - 1. Weights may be narrower floats with a Cast to f32. Unchanged
/// if N is not a multiple of 8. Plain graphs are unchanged.
Result<ir::Graph> fuse_experts(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
