#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/op.h"
#include "compiler/plan/program.h"

namespace llmc::plan {

/// What was really done to a model's weights, whatever format was asked for: matrices and tables
/// that arrive quantized may keep their codes, and `--quant=q4` is a mixture.
struct Rounding {
  /// Formats that weights were rounded to, the coarsest first; kF32 is no rounding and not listed.
  std::vector<ir::WeightFormat> formats;
  std::size_t rounded = 0;  // matrices and tables rounded to them
  std::size_t kept = 0;     // those that keep the codes they came in
  /// Some matrix has integer codes, so the activations that it multiplies are rounded to 8 bits.
  bool rounds_activations = false;

  /// The format whose error the result shows: the coarsest of the weights', at least kQ8 where
  /// activations are rounded; kF32 when nothing is.
  ir::WeightFormat coarsest() const;
};
Rounding rounding_of(const Program& program);

/// "q4", "q6", "q8", "f16", "f32".
std::string_view weight_format_name(ir::WeightFormat format);

}  // namespace llmc::plan
