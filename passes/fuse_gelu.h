#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses GELU (Hendrycks & Gimpel 2016) into one node, and a sigmoid that is written with exp.
///
///   c * x * (a + b * erf(s * x))       c a = c b = 1/2, s = 1 / sqrt(2)       -> gelu(x)
///   c * x * (a + b * tanh(p(x)))       p(x) = sqrt(2/pi) (x + 0.044715 x^3)   -> gelu_tanh(x)
///   1 / (1 + exp(-x))  -> sigmoid(x)         y / (1 + exp(-x))  -> y * sigmoid(x)
///
/// Factors may have any order and grouping. Powers may be pow or products. Constants may differ by
/// the rounding of f32 arithmetic and of narrower float types in files.
Result<ir::Graph> fuse_gelu(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
