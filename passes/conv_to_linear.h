#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Converts convolutions to linear layers over their windows, so that their weights can be
/// quantized. Channels become the last dim, so that those of each window element are contiguous in
/// memory.
///
///   conv(x, w)       ->  t(linear(unfold(t'(x)), w'))       t' moves the channels last, t back
///   … + bias         ->  the layer's bias
///   conv(pad(x), w)  ->  … unfold(pad(t'(x))) …
///   f(conv(x, w))    ->  t(f(linear(…)))                    f elementwise with one operand
///
/// unfold is omitted if the kernel has one element and all strides are 1. Applies only to plain
/// graphs with a quantized PassOptions::weights, because a float convolution kernel is faster than
/// a float matrix product. Unchanged with several groups, with a weight that is not constant, with
/// fewer than 32 elements per window (a block of a quantized matrix) or more than 2^24, and with
/// fewer than 8 output channels (a panel).
Result<ir::Graph> conv_to_linear(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
