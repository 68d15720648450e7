#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses a normalization into the projections that read it, as their prologue.
///
///   linear(rms_norm(x, w), …)          ->  linear(x, …, w) {norm_epsilon}
///   qkv_projection(rms_norm(x, w), …)  ->  qkv_projection(x, …, w) {norm_epsilon}
///   layer_norm(x, w, b?) likewise      ->  … {norm_epsilon, norm_kind = layer}
///
/// If several projections read the norm, each repeats it, which costs less than the barrier of a
/// separate stage. Unchanged if another node reads the norm, it is a graph output, its weight or
/// bias is not a constant, or a projection already has a norm.
Result<ir::Graph> fuse_norm(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
