#pragma once

#include <cstdint>
#include <string>

#include "tests/support_onnx/onnx_builder.h"

namespace llmc::testing {

/// How exporters spell an RMS norm of the last dim. Only kPlain and kSumSquare have an epsilon.
enum class NormForm {
  kPlain,            // pow(x, 2), mean, epsilon, a quotient
  kNoEpsilon,        // the same without an epsilon, by the reciprocal of the root
  kIntegerPower,     // an exponent of type i64
  kDoublePower,      // an exponent of type f64
  kSumSquare,        // ReduceSumSquare divided by the width
  kDroppedAxis,      // a mean that drops the axis, and Unsqueeze
  kEuclidean,        // ReduceL2 times width^-0.5; the weight is applied before the division
  kLpNormalization,  // LpNormalization times the root of the width
};

/// Appends x / rms(x) * weight to `b` and returns its name. `weight` has `width` elements.
std::string root_mean_square_norm(OnnxBuilder& b, NormForm form, const std::string& x,
                                  const std::string& weight, std::int64_t width);

}  // namespace llmc::testing
