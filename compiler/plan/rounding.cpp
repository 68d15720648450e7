#include "compiler/plan/rounding.h"

#include <algorithm>

#include "compiler/plan/weight_formats.h"

namespace llmc::plan {
namespace {

/// Returns the format that a weight's numbers were rounded to; kF32 if they are exact.
ir::WeightFormat rounded_to(const PackedWeight& weight) {
  if (weight.conversion == WeightConversion::kPreserved || weight.use == WeightUse::kVector)
    return ir::WeightFormat::kF32;
  if (weight.use == WeightUse::kTable) {
    if (weight.table == TableKind::kQ8) return ir::WeightFormat::kQ8;
    const bool narrowed = weight.table == TableKind::kF16 && weight.data != nullptr &&
                          weight.data->element() == ir::ElementType::kF32;
    return narrowed ? ir::WeightFormat::kF16 : ir::WeightFormat::kF32;
  }
  const WeightFormatInfo* const info = find_weight_format(weight.matrix);
  return info ? info->format : ir::WeightFormat::kF32;
}

}  // namespace

ir::WeightFormat Rounding::coarsest() const {
  const ir::WeightFormat weights = formats.empty() ? ir::WeightFormat::kF32 : formats.front();
  const bool at_least_q8 = rounds_activations &&
                           (weights == ir::WeightFormat::kF32 || weights == ir::WeightFormat::kF16);
  return at_least_q8 ? ir::WeightFormat::kQ8 : weights;
}

Rounding rounding_of(const Program& program) {
  Rounding rounding;
  for (const PackedWeight& weight : program.weights) {
    if (weight.rows * weight.columns == 0) continue;
    if (weight.use == WeightUse::kMatrix && is_quantized(weight.matrix))
      rounding.rounds_activations = true;
    if (weight.conversion == WeightConversion::kPreserved) ++rounding.kept;
    const ir::WeightFormat format = rounded_to(weight);
    if (format == ir::WeightFormat::kF32) continue;
    ++rounding.rounded;
    if (weight.conversion == WeightConversion::kRequantized) ++rounding.requantized;
    if (std::ranges::count(rounding.formats, format) == 0) rounding.formats.push_back(format);
  }
  std::ranges::sort(rounding.formats, {}, [](ir::WeightFormat format) {
    return &weight_format_info(format) - kWeightFormats;
  });
  return rounding;
}

}  // namespace llmc::plan
