#include "passes/quant_scheme.h"

#include <algorithm>
#include <iterator>

namespace llmc::passes {
namespace {

using ir::WeightFormat;

/// All schemes, by descending rounding error.
constexpr QuantScheme kSchemes[] = {WeightFormat::kQ4, kQ4Mixed,           WeightFormat::kQ6,
                                    WeightFormat::kQ8, WeightFormat::kF16, WeightFormat::kF32};
// Each format but kUnset, and q4m.
static_assert(std::size(kSchemes) == ir::kWeightFormatNames.size());

}  // namespace

std::string quant_name(QuantScheme scheme) {
  std::string name(ir::kWeightFormatNames[static_cast<std::size_t>(scheme.format)]);
  return scheme.mixed ? name + "m" : name;
}

std::optional<QuantScheme> parse_quant_scheme(std::string_view name) {
  const auto* const found = std::ranges::find(kSchemes, name, quant_name);
  return found == std::end(kSchemes) ? std::nullopt : std::optional(*found);
}

std::string quant_scheme_list(std::string_view last_separator) {
  std::string text;
  for (const QuantScheme& scheme : kSchemes) {
    const bool last = &scheme == std::end(kSchemes) - 1;
    if (!text.empty()) text += last ? last_separator : ", ";
    text += quant_name(scheme);
  }
  return text;
}

}  // namespace llmc::passes
