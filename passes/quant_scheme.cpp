#include "passes/quant_scheme.h"

#include <algorithm>
#include <array>
#include <ranges>

#include "compiler/support/name_list.h"

namespace llmc::passes {
namespace {

using ir::WeightFormat;

/// All schemes, by descending rounding error: each format, and q4m after q4.
constexpr auto kSchemes = [] {
  std::array<QuantScheme, ir::kFormatsByError.size() + 1> schemes;
  std::size_t count = 0;
  for (const WeightFormat format : ir::kFormatsByError) {
    schemes[count++] = format;
    if (format == kQ4Mixed.format) schemes[count++] = kQ4Mixed;
  }
  return schemes;
}();

}  // namespace

std::string quant_name(QuantScheme scheme) {
  std::string name(ir::kWeightFormatNames[static_cast<std::size_t>(scheme.format)]);
  return scheme.mixed ? name + "m" : name;
}

std::optional<QuantScheme> parse_quant_scheme(std::string_view name) {
  const auto found = std::ranges::find(kSchemes, name, quant_name);
  return found == std::end(kSchemes) ? std::nullopt : std::optional(*found);
}

std::string quant_scheme_list(std::string_view last_separator) {
  return name_list(kSchemes | std::views::transform(quant_name), last_separator);
}

}  // namespace llmc::passes
