#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// With PassOptions::requantize, replaces weights of products that have integer codes in the model
/// by the floats that they represent, if their format is quantized:
///
///   linear(x, W) {format = q4}  ->  linear(x, floats(W)) {format = q4}       W: quantized
///
/// Packing then rounds them to the format instead of keeping the codes, and hadamard_inputs and
/// calibration treat them like other weights. Embedding tables keep their codes.
Result<ir::Graph> requantize(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
