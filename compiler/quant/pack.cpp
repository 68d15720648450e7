#include "compiler/quant/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/quant/q4.h"
#include "compiler/quant/q8.h"
#include "compiler/quant/symmetric.h"
#include "compiler/support/check.h"

namespace llmc::quant {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();
constexpr float kLargestF16 = 65504.0f;
/// The largest finite bf16; larger values round to infinity.
constexpr float kLargestBF16 = 0x1.fep127f;

std::uint8_t* bytes_of(std::span<std::byte> out) {
  return reinterpret_cast<std::uint8_t*>(out.data());
}
const std::uint8_t* bytes_of(std::span<const std::byte> in) {
  return reinterpret_cast<const std::uint8_t*>(in.data());
}

/// Returns the number of rows in `values` values of `columns` columns.
std::size_t rows_of(std::size_t values, std::size_t columns) {
  LLMC_CHECK(columns > 0 && values % columns == 0);
  return values / columns;
}

/// Returns whether the magnitude is at most `largest`; false for NaN.
bool fits(float value, float largest) {
  return value <= largest && value >= -largest;
}

Status check_values(std::span<const float> values, float largest, std::size_t columns,
                    std::uint64_t first_row) {
  bool good = true;  // check without branches first, because invalid weights are rare
  for (const float value : values) good &= fits(value, largest);
  if (good) return ok_status();
  const auto bad = std::ranges::find_if(values, [&](float v) { return !fits(v, largest); });
  const auto index = static_cast<std::size_t>(bad - values.begin());
  const bool finite = fits(*bad, kLargestFloat);
  return failure(ErrorKind::kBadInput,
                 fmt::format("the weight in row {}, column {} is {}{}", first_row + index / columns,
                             index % columns, *bad, finite ? ", too large for the format" : ""),
                 finite ? "try --quant=f32" : "the model's file is damaged");
}

void write_q4_row(const Q4Row& row, std::uint8_t* panel, std::size_t lane) {
  q4_set_row(panel, lane, row.scale, row.min);
  for (std::size_t k = 0; k < row.codes.size(); ++k) q4_set_code(panel, lane, k, row.codes[k]);
  for (std::size_t b = 0; b < row.scales.size(); ++b) {
    q4_set_scale(panel, row.codes.size(), lane, b, row.scales[b]);
    q4_set_min(panel, row.codes.size(), lane, b, row.minimums[b]);
  }
}

/// Copies row `row` of a panel to row `to_row` of another, which must be zeroed.
void copy_row(WeightKind kind, std::size_t columns, const std::uint8_t* panel, std::size_t row,
              std::uint8_t* to, std::size_t to_row) {
  const std::size_t blocks = block_count(columns);
  if (kind == WeightKind::kQ4) {
    q4_set_row(to, to_row, f32_to_bf16(q4_row_scale(panel, row)),
               f32_to_bf16(q4_row_min(panel, row)));
    for (std::size_t k = 0; k < columns; ++k) q4_set_code(to, to_row, k, q4_code(panel, row, k));
    for (std::size_t b = 0; b < blocks; ++b) {
      q4_set_scale(to, columns, to_row, b, q4_scale(panel, columns, row, b));
      q4_set_min(to, columns, to_row, b, q4_min(panel, columns, row, b));
    }
    return;
  }
  const CodedFormat format = coded_format(kind);
  for (std::size_t k = 0; k < columns; ++k)
    coded_set_code(format, to, columns, to_row, k, coded_code(format, panel, columns, row, k));
  for (std::size_t g = 0; g < coded_groups(format, blocks); ++g)
    coded_set_group(format, to, columns, to_row, g, coded_scale(format, panel, columns, row, g),
                    coded_zero(format, panel, columns, row, g));
}

/// Encodes rows one at a time and reuses the encoders' memory.
class PanelWriter {
 public:
  PanelWriter(WeightKind kind, std::span<const float> importance)
      : kind_(kind), importance_(importance) {}

  /// Writes a row to lane `lane` (0..7) of `panel`, which must be zeroed.
  void write(std::span<const float> row, std::uint8_t* panel, std::size_t lane) {
    switch (kind_) {
      case WeightKind::kF32:
        for (std::size_t k = 0; k < row.size(); ++k) f32_set(panel, lane, k, row[k]);
        return;
      case WeightKind::kF16:
        for (std::size_t k = 0; k < row.size(); ++k) f16_set(panel, lane, k, f32_to_f16(row[k]));
        return;
      case WeightKind::kQ8:
        return write_q8(row, panel, lane);
      case WeightKind::kQ4:
        return write_q4(row, panel, lane);
    }
    write_coded(coded_format(kind_), row, panel, lane);
  }

 private:
  void write_q8(std::span<const float> row, std::uint8_t* panel, std::size_t lane) {
    encode_q8_row(row, scaled_);
    for (std::size_t k = 0; k < row.size(); ++k) q8_set_code(panel, lane, k, scaled_.codes[k]);
    for (std::size_t b = 0; b < scaled_.scales.size(); ++b)
      q8_set_scale(panel, row.size(), lane, b, scaled_.scales[b]);
  }
  void write_coded(CodedFormat format, std::span<const float> row, std::uint8_t* panel,
                   std::size_t lane) {
    encode_symmetric_row(format, row, scaled_);
    for (std::size_t k = 0; k < row.size(); ++k)
      coded_set_code(format, panel, row.size(), lane, k, scaled_.codes[k]);
    for (std::size_t b = 0; b < scaled_.scales.size(); ++b)
      coded_set_group(format, panel, row.size(), lane, b, f16_to_f32(scaled_.scales[b]), 0);
  }
  void write_q4(std::span<const float> row, std::uint8_t* panel, std::size_t lane) {
    encode_q4_row(row, importance_, q4_);
    write_q4_row(q4_, panel, lane);
  }

  WeightKind kind_;
  std::span<const float> importance_;
  Q4Row q4_;
  ScaledRow scaled_;
};

void write_table_row(TableKind kind, std::span<const float> row, std::uint8_t* out, ScaledRow& q8) {
  switch (kind) {
    case TableKind::kF32:
      for (std::size_t i = 0; i < row.size(); ++i) store_u32(out + 4 * i, float_bits(row[i]));
      return;
    case TableKind::kF16:
      for (std::size_t i = 0; i < row.size(); ++i) store_u16(out + 2 * i, f32_to_f16(row[i]));
      return;
    case TableKind::kBF16:
      for (std::size_t i = 0; i < row.size(); ++i) store_u16(out + 2 * i, f32_to_bf16(row[i]));
      return;
    case TableKind::kQ8:
      break;
    case TableKind::kCoded:
      LLMC_CHECK(false);  // pack_coded_table() packs these
  }
  encode_q8_row(row, q8);
  for (std::size_t i = 0; i < row.size(); ++i) out[i] = static_cast<std::uint8_t>(q8.codes[i]);
  std::uint8_t* scales = out + block_count(row.size()) * kBlock;
  for (std::size_t b = 0; b < q8.scales.size(); ++b) store_u16(scales + 2 * b, q8.scales[b]);
}

}  // namespace

float largest_weight(WeightKind kind) {
  switch (kind) {
    case WeightKind::kF32:
      break;
    case WeightKind::kF16:
      return kLargestF16;
    case WeightKind::kQ8:
      return kLargestQ8Weight;
    case WeightKind::kQ4:
      return kLargestQ4Weight;
  }
  if (is_coded(kind) && is_symmetric(coded_format(kind)))
    return largest_symmetric_weight(coded_format(kind));
  return std::numeric_limits<float>::infinity();
}

float largest_value(TableKind kind) {
  switch (kind) {
    case TableKind::kF32:
      break;
    case TableKind::kF16:
      return kLargestF16;
    case TableKind::kBF16:
      return kLargestBF16;
    case TableKind::kQ8:
      return kLargestQ8Weight;
    case TableKind::kCoded:
      break;
  }
  return std::numeric_limits<float>::infinity();
}

Status pack_panels(WeightKind kind, std::span<const float> values, std::size_t columns,
                   std::uint64_t first_row, std::span<std::byte> out,
                   std::span<const float> importance) {
  const std::size_t rows = rows_of(values.size(), columns);
  LLMC_CHECK(first_row % kPanelRows == 0);
  LLMC_CHECK(importance.empty() || importance.size() == columns);
  LLMC_CHECK(out.size() == weight_bytes(kind, rows, columns));
  LLMC_CHECK(!is_coded(kind) || is_symmetric(coded_format(kind)));  // others: see coded.h
  LLMC_RETURN_IF_ERROR(
      check_values(values, std::min(largest_weight(kind), kLargestFloat), columns, first_row));
  std::ranges::fill(out, std::byte{0});
  const std::size_t panel_bytes = weight_panel_bytes(kind, columns);
  PanelWriter writer(kind, importance);
  for (std::size_t r = 0; r < rows; ++r) {
    writer.write(values.subspan(r * columns, columns), bytes_of(out) + r / kPanelRows * panel_bytes,
                 r % kPanelRows);
  }
  return ok_status();
}

void pack_encoded_panels(const EncodedMatrix& matrix, std::span<const std::int64_t> order,
                         std::span<std::byte> out) {
  const WeightKind kind = matrix.kind();
  const std::size_t columns = matrix.columns();
  LLMC_CHECK(out.size() == weight_bytes(kind, order.size(), columns));
  std::ranges::fill(out, std::byte{0});
  const std::size_t panel_bytes = weight_panel_bytes(kind, columns);
  const std::vector<float> zeros(columns);
  PanelWriter writer(kind, {});
  for (std::size_t r = 0; r < order.size(); ++r) {
    std::uint8_t* const panel = bytes_of(out) + r / kPanelRows * panel_bytes;
    const std::size_t lane = r % kPanelRows;
    if (order[r] < 0) {
      writer.write(zeros, panel, lane);
      continue;
    }
    const auto row = static_cast<std::size_t>(order[r]), other = row % kPanelRows;
    copy_row(kind, columns, bytes_of(matrix.panels(row - other, 1)), other, panel, lane);
  }
}

void split_panels(std::span<const std::byte> panels, std::size_t columns,
                  std::span<std::byte> out) {
  const std::size_t from_bytes = coded_panel_bytes(kSixBits, columns);
  const std::size_t to_bytes = coded_panel_bytes(kSplitSixBits, columns);
  LLMC_CHECK(panels.size() % from_bytes == 0 &&
             out.size() == panels.size() / from_bytes * to_bytes);
  std::ranges::fill(out, std::byte{0});
  for (std::size_t panel = 0; panel < panels.size() / from_bytes; ++panel) {
    const std::uint8_t* const from = bytes_of(panels) + panel * from_bytes;
    std::uint8_t* const to = bytes_of(out) + panel * to_bytes;
    for (std::size_t row = 0; row < kPanelRows; ++row) {
      for (std::size_t k = 0; k < columns; ++k)
        coded_set_code(kSplitSixBits, to, columns, row, k,
                       coded_code(kSixBits, from, columns, row, k));
      for (std::size_t g = 0; g < block_count(columns); ++g)
        coded_set_group(kSplitSixBits, to, columns, row, g,
                        coded_scale(kSixBits, from, columns, row, g), 0);
    }
    split_set_bounds(kSplitSixBits, to, columns);
  }
}

void unpack_panels(WeightKind kind, std::span<const std::byte> panels, std::size_t columns,
                   std::span<float> values) {
  const std::size_t rows = rows_of(values.size(), columns);
  LLMC_CHECK(panels.size() == weight_bytes(kind, rows, columns));
  const std::size_t panel_bytes = weight_panel_bytes(kind, columns);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / columns;
    values[i] = weight_decode(kind, bytes_of(panels) + row / kPanelRows * panel_bytes, columns,
                              row % kPanelRows, i % columns);
  }
}

Status pack_table_rows(TableKind kind, std::span<const float> values, std::size_t columns,
                       std::uint64_t first_row, std::span<std::byte> out) {
  const std::size_t rows = rows_of(values.size(), columns);
  LLMC_CHECK(out.size() == table_bytes(kind, rows, columns));
  LLMC_RETURN_IF_ERROR(
      check_values(values, std::min(largest_value(kind), kLargestFloat), columns, first_row));
  std::ranges::fill(out, std::byte{0});
  ScaledRow q8;
  for (std::size_t r = 0; r < rows; ++r) {
    write_table_row(kind, values.subspan(r * columns, columns),
                    bytes_of(out) + r * table_row_bytes(kind, columns), q8);
  }
  return ok_status();
}

}  // namespace llmc::quant
