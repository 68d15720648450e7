#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Computes only the chosen experts of a graph that computes all experts and adds up their results.
/// Each result is multiplied by a routing factor, which is 0 for experts that are not chosen:
///
///   ids[…, k] = indices of top_k(…)                over E elements
///   w[…, E] = 0 except at the ids                  scatter_elements, one_hot, comparisons, …
///   y = w[…, 0] * f(x; W.0) + … + w[…, E-1] * f(x; W.E-1)
/// ->
///   y = reduce_sum(v[…, k, 1] * f(x[…, 1, K]; W[ids]))    over the k chosen ones, v = w[…, ids]
///
/// Instead, all experts may be computed by one product with W[E, K, N], whose results are added up
/// along the first dim (expert_lanes.h).
///
/// f: products with matrices, which become ExpertLinear, elementwise operators, and slices and
/// splits of rows. A term may be where(chosen, w * f, 0) instead. Other terms of the sum are kept.
/// An expert that is not chosen has no effect, even if its result is not finite. The order of
/// additions changes. The width of each product's result must be a multiple of 8, as ExpertLinear
/// requires. Plain graphs are unchanged.
Result<ir::Graph> choose_experts(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
