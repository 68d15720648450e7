#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/ir/op.h"
#include "llmc/sizes.h"

/// Table of the weight formats. Names, parsers and limits are derived from it. `--quant` accepts
/// these formats, and mixtures of them (passes/quant_scheme.h).
namespace llmc::plan {

struct WeightFormatInfo {
  ir::WeightFormat format;
  WeightKind kind;          // storage of its matrices
  std::string_view type;    // class template for such matrices in templates/llmc/quant/weights.h
  double max_kl;            // `llmc verify` of decoders: maximum mean KL divergence, in nats
  double max_relative_rms;  // same for plain graphs: maximum RMS error relative to the RMS of the
                            // output; 0: values are not rounded and are compared one by one
};

/// All formats, by descending rounding error. The limits are well above the values measured with
/// small random and trained models, and far below those of a wrong kernel.
inline constexpr WeightFormatInfo kWeightFormats[] = {
    {ir::WeightFormat::kQ4, WeightKind::kQ4, "WeightQ4", 0.5, 0.25},
    {ir::WeightFormat::kQ6, coded_weight(kSixBits), "WeightQ6", 5e-2, 0.1},
    {ir::WeightFormat::kQ8, WeightKind::kQ8, "WeightQ8", 2e-2, 0.05},
    {ir::WeightFormat::kF16, WeightKind::kF16, "WeightF16", 1e-4, 0.01},
    {ir::WeightFormat::kF32, WeightKind::kF32, "WeightF32", 1e-8, 0},
};

/// Returns the entry of the format in which weights are stored: kUnset is stored as f32.
const WeightFormatInfo& weight_format_info(ir::WeightFormat format);
/// Returns the format of a weight kind, or nullptr for kinds that only preserve the codes of a
/// model (quant/coded.h).
const WeightFormatInfo* find_weight_format(WeightKind kind);

/// Returns "q4", "q6", ...
std::string_view weight_format_name(ir::WeightFormat format);
/// Returns nullopt if `name` is not a name in the table.
std::optional<ir::WeightFormat> parse_weight_format(std::string_view name);
/// Returns all names, for example "q4, q6, q8, f16 or f32" if `last_separator` is " or ".
std::string weight_format_list(std::string_view last_separator);

}  // namespace llmc::plan
