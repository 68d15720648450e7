#include "compiler/plan/weights.h"

#include <fmt/format.h>

#include "compiler/plan/source_quantization.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace llmc::plan {
namespace {

constexpr std::uint64_t kMaxSide = std::uint64_t{1} << 31;
constexpr std::uint64_t kColumnsOfPanel = 16;  // kPanelColumns of templates/llmc/function/matmul.h

std::uint64_t padded(std::uint64_t rows) {
  return round_up(rows, kPanelRows);
}

/// Returns the stored size in bytes; nullopt on overflow.
std::optional<std::uint64_t> stored_bytes(const PackedWeight& w) {
  switch (w.use) {
    case WeightUse::kMatrix:
      return checked_mul<std::uint64_t>(panel_count(w.packed_rows),
                                        weight_panel_bytes(w.matrix, w.columns));
    case WeightUse::kTable:
      return checked_mul<std::uint64_t>(w.packed_rows, table_row_bytes(w.table, w.columns));
    case WeightUse::kData:
      return w.rows * ir::element_bytes(w.data->element());
    case WeightUse::kColumnPanels:
    case WeightUse::kTransposedPanels:
      return checked_mul<std::uint64_t>(round_up(w.columns, kColumnsOfPanel),
                                        w.rows * ir::element_bytes(w.data->element()));
    case WeightUse::kVector:
      break;
  }
  const auto count = checked_mul<std::uint64_t>(w.packed_rows, w.columns);
  return count ? checked_mul<std::uint64_t>(*count, sizeof(float)) : std::nullopt;
}

void append_run(std::vector<std::int64_t>& order, std::int64_t begin, std::int64_t count,
                std::int64_t padded_count) {
  for (std::int64_t i = 0; i < padded_count; ++i) order.push_back(i < count ? begin + i : -1);
}

}  // namespace

std::string to_string(WeightKind kind) {
  if (const WeightFormatInfo* const info = find_weight_format(kind))
    return std::string(weight_format_name(info->format));
  return is_coded(kind) ? to_string(coded_format(kind)) : "?";
}

std::string to_string(TableKind kind) {
  if (is_coded(kind)) return to_string(coded_format(kind));
  switch (kind) {
    case TableKind::kF32:
      return "f32";
    case TableKind::kF16:
      return "f16";
    case TableKind::kBF16:
      return "bf16";
    case TableKind::kQ8:
      return "q8";
    case TableKind::kCoded:
      break;
  }
  return "?";
}

double PackedWeight::bits_per_weight() const {
  const double count = static_cast<double>(rows) * static_cast<double>(columns);
  return count > 0 ? static_cast<double>(bytes) * 8 / count : 0;
}

std::string PackedWeight::format_name() const {
  switch (use) {
    case WeightUse::kMatrix:
      return to_string(matrix);
    case WeightUse::kTable:
      return "table " + to_string(table);
    case WeightUse::kData:
    case WeightUse::kColumnPanels:
    case WeightUse::kTransposedPanels:
      return std::string(ir::to_string(data->element()));
    case WeightUse::kVector:
      break;
  }
  return "f32";
}

std::string PackedWeight::conversion_text() const {
  const bool narrow = use == WeightUse::kTable ? table == TableKind::kQ8
                                               : use == WeightUse::kMatrix && is_quantized(matrix);
  switch (conversion) {
    case WeightConversion::kPreserved:
      return fmt::format("re-encoded without loss ({})", source_quantization);
    case WeightConversion::kRequantized:
      return fmt::format("requantized ({}; {})", source_quantization, requantize_reason);
    case WeightConversion::kDequantized:
      return fmt::format("dequantized ({})", source_quantization);
    case WeightConversion::kFloat:
      break;
  }
  if (basis == Basis::kHadamard) return "quantized from float, Hadamard basis";
  return narrow ? "quantized from float" : "";
}

std::uint64_t packed_row_count(const PackedWeight& weight) {
  switch (weight.order) {
    case RowOrder::kPlain:
      // Tables and vectors that are not read in panels need no padding.
      return weight.use == WeightUse::kMatrix || weight.pad_rows ? padded(weight.rows)
                                                                 : weight.rows;
    case RowOrder::kGated:
      return packed_gated_rows(weight.rows / 2);
    case RowOrder::kQkv:
      return packed_qkv_rows(weight.heads, weight.kv_heads, weight.head_dim);
  }
  return 0;
}

std::vector<std::int64_t> packed_row_order(const PackedWeight& weight) {
  const auto rows = static_cast<std::int64_t>(weight.rows);
  constexpr auto kPanel = static_cast<std::int64_t>(kPanelRows);
  std::vector<std::int64_t> order;
  order.reserve(weight.packed_rows);
  switch (weight.order) {
    case RowOrder::kPlain:
      append_run(order, 0, rows, static_cast<std::int64_t>(packed_row_count(weight)));
      break;
    case RowOrder::kGated: {
      const std::int64_t half = rows / 2;
      for (std::int64_t i = 0; i < half; i += kPanel) {
        const std::int64_t count = std::min(kPanel, half - i);
        append_run(order, i, count, kPanel);
        append_run(order, half + i, count, kPanel);
      }
      break;
    }
    case RowOrder::kQkv: {
      const auto dim = static_cast<std::int64_t>(weight.head_dim);
      const auto padded_head = static_cast<std::int64_t>(padded(weight.head_dim));
      for (std::int64_t head = 0; head * dim < rows; ++head) {
        append_run(order, head * dim, dim, padded_head);
      }
      break;
    }
  }
  LLMC_CHECK(order.size() == packed_row_count(weight));
  return order;
}

Result<std::uint64_t> lay_out(std::vector<PackedWeight>& weights) {
  std::uint64_t end = 0;
  for (PackedWeight& w : weights) {
    // kData has as many elements as the constant, whose size the importer has checked.
    const bool sane = w.use >= WeightUse::kData ||
                      (w.rows > 0 && w.columns > 0 && w.rows < kMaxSide && w.columns < kMaxSide);
    std::optional<std::uint64_t> bytes;
    if (sane) {
      w.packed_rows = packed_row_count(w);
      bytes = stored_bytes(w);
    }
    const auto next = bytes ? checked_add(end, *bytes) : std::nullopt;
    const auto rounded = next ? checked_round_up<std::uint64_t>(*next, kAlignment) : std::nullopt;
    if (!rounded || *rounded > static_cast<std::uint64_t>(INT64_MAX)) {
      return Diagnostic{.kind = ErrorKind::kBadInput,
                        .node = w.name,
                        .message = "weight of " + std::to_string(w.rows) + " x " +
                                   std::to_string(w.columns) + " elements cannot be stored",
                        .hint = "sides must be positive and below 2^31"};
    }
    w.offset = end;
    w.bytes = *bytes;
    end = *rounded;
  }
  return end;
}

}  // namespace llmc::plan
