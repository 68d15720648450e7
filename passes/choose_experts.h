#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Computes only chosen experts where a graph computes all of them and adds up their results, each
/// multiplied with its factor of routing, which is 0 for experts that are not chosen:
///
///   ids[…, k] = indices of top_k(…)                over E elements
///   w[…, E] = what is 0 but at the ids             scatter_elements, one_hot, comparisons, …
///   y = w[…, 0] * f(x; W.0) + … + w[…, E-1] * f(x; W.E-1)
/// ->
///   y = reduce_sum(v[…, k, 1] * f(x[…, 1, K]; W[ids]))    over the k chosen ones
///
/// The experts may also be one product with W[E, K, N], whose results are added up along the first
/// dim (expert_lanes.h).
///
/// f: products with matrices, which become ExpertLinear, and operators on each element or on parts
/// of a row. Terms may be where(chosen, w * f, 0) instead. Other terms of the sum stay. An expert
/// that is not chosen has no effect, even if its result is not finite. The order of additions
/// changes. Rows of matrices must be a multiple of 8, which ExpertLinear needs.
Result<ir::Graph> choose_experts(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
