#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// A normalisation that only feeds projections becomes their prologue.
///
///   linear(rms_norm(x, w), …)          ->  linear(x, …, w) {norm_epsilon}
///   qkv_projection(rms_norm(x, w), …)  ->  qkv_projection(x, …, w) {norm_epsilon}
///   layer_norm(x, w, b?) likewise      ->  … {norm_epsilon, norm_kind = layer}
///
/// With several such readers each repeats the norm: it costs less than the meeting of threads that
/// a stage of its own needs. Unchanged when something else reads the norm as well, or when a reader
/// has a norm already.
Result<ir::Graph> fuse_norm(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
