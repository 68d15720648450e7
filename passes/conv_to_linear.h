#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Converts convolutions to linear layers over their windows, so that their weights can be
/// quantized. Channels become the last dim, in which a window's elements are contiguous in memory.
///
///   conv(x, w)       ->  t(linear(unfold(t'(x)), w'))       t' moves the channels last, t back
///   … + bias         ->  the layer's bias
///   conv(pad(x), w)  ->  … unfold(pad(t'(x))) …
///   f(conv(x, w))    ->  t(f(linear(…)))                    f elementwise with one operand
///
/// unfold is left out if the kernel is one element with steps of 1. Only in plain graphs, with a
/// quantized PassOptions::weights: the kernel of float convolutions is faster than a product of
/// float rows. Unchanged with several groups, with a weight that is not constant, and with windows
/// or results too small for the blocks and panels of quantized matrices.
Result<ir::Graph> conv_to_linear(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
