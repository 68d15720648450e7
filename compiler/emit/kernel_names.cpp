#include "compiler/emit/kernel_names.h"

#include <fmt/format.h>

#include "compiler/emit/names.h"
#include "compiler/ir/op_info.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

/// Returns, for example, "Coded<4, 32, CodedScale::kF16, CodedZero::kNone, " after `stem`.
std::string coded_type(std::string_view stem, CodedFormat format) {
  static constexpr std::string_view kScales[] = {"kF16", "kF32"};
  static constexpr std::string_view kZeros[] = {"kNone", "kInteger", "kFloat"};
  return fmt::format("{}Coded<{}, {}, CodedScale::{}, CodedZero::{}, ", stem, format.bits,
                     format.block, kScales[static_cast<std::size_t>(format.scale)],
                     kZeros[static_cast<std::size_t>(format.zero)]);
}

/// Returns the type name up to its rows and columns: "WeightQ4<".
std::string weight_template(const plan::PackedWeight& weight) {
  if (weight.use == plan::WeightUse::kTable) {
    if (is_coded(weight.table)) return coded_type("Table", coded_format(weight.table));
    static constexpr std::string_view kTables[] = {"TableF32<", "TableF16<", "TableBF16<",
                                                   "TableQ8<"};
    return std::string(kTables[static_cast<std::size_t>(weight.table)]);
  }
  LLMC_CHECK(weight.use == plan::WeightUse::kMatrix);
  if (weight.matrix == coded_weight(kSplitSixBits)) return "WeightSplitQ6<";
  if (const plan::WeightFormatInfo* const info = plan::find_weight_format(weight.matrix))
    return fmt::format("{}<", info->type);
  return coded_type("Weight", coded_format(weight.matrix));
}

}  // namespace

std::string operator_type(const ir::Op& op) {
  return type_name(ir::op_name(op));
}

std::string operator_type(ir::ActivationFn function) {
  return operator_type(ir::Unary{ir::unary_kind(function)});
}

std::string weight_type(const plan::PackedWeight& weight, std::string rows, std::string columns) {
  if (rows.empty()) {
    const bool table = weight.use == plan::WeightUse::kTable;
    rows = fmt::format("{}", table ? weight.rows : weight.packed_rows);
  }
  if (columns.empty()) columns = fmt::format("{}", weight.columns);
  return fmt::format("{}{}, {}{}>", weight_template(weight), rows, columns,
                     weight.basis == Basis::kHadamard ? ", Basis::kHadamard" : "");
}

std::string attention_rule(const plan::AttentionStage& stage, std::uint64_t ctx) {
  // A window that covers the whole context has no effect.
  const std::uint64_t window = stage.window < ctx ? stage.window : 0;
  const bool capped = stage.softcap > 0, chunked = stage.chunked && window > 0;
  const bool biased = stage.bias.exists(), tables = biased || stage.sinks.exists();
  if (window == 0 && !capped && !tables) return {};
  std::string rule = fmt::format(", AttentionRule</*window=*/{}, /*capped=*/{}", window, capped);
  if (tables || chunked)
    rule += fmt::format(", ScoreBias::{}, /*sinks=*/{}",
                        !biased             ? "kNone"
                        : stage.bias_by_key ? "kByKey"
                                            : "kByDistance",
                        stage.sinks.exists());
  if (chunked) rule += ", /*chunked=*/true";
  return rule + ">";
}

std::string attention_rule(const plan::CrossAttentionStage& stage) {
  plan::AttentionStage same;
  same.softcap = stage.softcap;
  return attention_rule(same, 0);
}

}  // namespace llmc::emit
