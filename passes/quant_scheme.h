#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/ir/op.h"

namespace llmc::passes {

/// Value of `--quant`: a weight format, and whether some matrices get a finer one. format_policy()
/// derives the format of each matrix from it.
struct QuantScheme {
  ir::WeightFormat format = ir::WeightFormat::kUnset;
  /// q4m: whether a narrow model has a finer format for the matrices whose errors cost most.
  bool mixed = false;

  constexpr QuantScheme(ir::WeightFormat all = ir::WeightFormat::kUnset, bool mixes = false)
      : format(all), mixed(mixes) {}
  bool operator==(const QuantScheme&) const = default;
};

/// The default of decoders.
inline constexpr QuantScheme kQ4Mixed{ir::WeightFormat::kQ4, true};

/// Returns "q4", "q4m", "q6", …; "unset" for kUnset.
std::string quant_name(QuantScheme scheme);
/// Returns the scheme of this name; nullopt for other names, including "unset".
std::optional<QuantScheme> parse_quant_scheme(std::string_view name);
/// Returns all names, for example "q4, q4m, q6, q8, f16 or f32" if `last_separator` is " or ".
std::string quant_scheme_list(std::string_view last_separator);

}  // namespace llmc::passes
