#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/op.h"
#include "compiler/plan/program.h"

namespace llmc::plan {

/// Summary of the rounding of a model's weights. It can differ from the requested format: matrices
/// and tables that are quantized in the model may keep their codes, and `--quant=q4` mixes formats.
struct Rounding {
  /// Formats to which weights were rounded, coarsest first. Excludes kF32, which does not round.
  std::vector<ir::WeightFormat> formats;
  std::size_t rounded = 0;      // number of matrices and tables rounded to these formats
  std::size_t kept = 0;         // number of matrices and tables that keep their original codes
  std::size_t requantized = 0;  // those of `rounded` that have codes in the model
  /// Whether at least one matrix has integer codes, so that its input activations are rounded to 8
  /// bits.
  bool rounds_activations = false;

  /// Returns the format that determines the error of the result: the coarsest weight format, or kQ8
  /// if activations are rounded and no weight format is coarser; kF32 if nothing is rounded.
  ir::WeightFormat coarsest() const;
};
Rounding rounding_of(const Program& program);

}  // namespace llmc::plan
