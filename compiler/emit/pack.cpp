#include "compiler/emit/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

using plan::PackedWeight;
using plan::WeightUse;

std::uint8_t* bytes_at(std::vector<std::byte>& out, std::size_t offset) {
  return reinterpret_cast<std::uint8_t*>(out.data()) + offset;
}

/// Largest magnitude of 32 values (fewer at the end of a row).
float largest(std::span<const float> values) {
  float result = 0;
  for (const float v : values) result = std::max(result, std::fabs(v));
  return result;
}
std::int8_t q8_round(float value, float scale) {
  const float code = scale > 0 ? std::nearbyint(value / scale) : 0;
  return static_cast<std::int8_t>(std::clamp(code, -127.0f, 127.0f));
}

void encode_q8_row(std::uint8_t* panel, std::size_t lane, std::span<const float> row) {
  const std::size_t k = row.size();
  for (std::size_t block = 0; block < block_count(k); ++block) {
    const std::size_t begin = block * kBlock;
    const auto part = row.subspan(begin, std::min(kBlock, k - begin));
    const std::uint16_t scale = f32_to_f16(largest(part) / 127.0f);
    q8_set_scale(panel, k, lane, block, scale);
    for (std::size_t i = 0; i < part.size(); ++i) {
      q8_set_code(panel, lane, begin + i, q8_round(part[i], f16_to_f32(scale)));
    }
  }
}

void encode_q4_row(std::uint8_t* panel, std::size_t lane, std::span<const float> row) {
  const std::size_t k = row.size();
  const std::size_t blocks = block_count(k);
  std::vector<float> low(blocks), step(blocks);
  float max_step = 0, max_low = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto part = row.subspan(b * kBlock, std::min(kBlock, k - b * kBlock));
    const auto [min, max] = std::ranges::minmax(part);
    low[b] = std::min(min, 0.0f);
    step[b] = (std::max(max, 0.0f) - low[b]) / 15.0f;
    max_step = std::max(max_step, step[b]);
    max_low = std::max(max_low, -low[b]);
  }
  const std::uint16_t scale_bits = f32_to_bf16(max_step / 15.0f);
  const std::uint16_t min_bits = f32_to_bf16(-max_low / 255.0f);
  q4_set_row(panel, lane, scale_bits, min_bits);
  const float scale = bf16_to_f32(scale_bits), min = bf16_to_f32(min_bits);
  for (std::size_t b = 0; b < blocks; ++b) {
    const float s = scale > 0 ? std::clamp(std::nearbyint(step[b] / scale), 1.0f, 15.0f) : 0;
    const float m = min < 0 ? std::clamp(std::nearbyint(low[b] / min), 0.0f, 255.0f) : 0;
    q4_set_scale(panel, k, lane, b, static_cast<std::uint8_t>(s));
    q4_set_min(panel, k, lane, b, static_cast<std::uint8_t>(m));
    for (std::size_t i = b * kBlock; i < std::min(k, (b + 1) * kBlock); ++i) {
      const float code = s > 0 ? std::nearbyint((row[i] - min * m) / (scale * s)) : 0;
      q4_set_code(panel, lane, i, static_cast<std::uint8_t>(std::clamp(code, 0.0f, 15.0f)));
    }
  }
}

void encode_matrix_row(WeightKind kind, std::uint8_t* panel, std::size_t lane,
                       std::span<const float> row) {
  switch (kind) {
    case WeightKind::kF32:
      for (std::size_t k = 0; k < row.size(); ++k) f32_set(panel, lane, k, row[k]);
      return;
    case WeightKind::kF16:
      for (std::size_t k = 0; k < row.size(); ++k) f16_set(panel, lane, k, f32_to_f16(row[k]));
      return;
    case WeightKind::kQ8:
      return encode_q8_row(panel, lane, row);
    case WeightKind::kQ4:
      return encode_q4_row(panel, lane, row);
  }
}

void encode_table_row(TableKind kind, std::uint8_t* out, std::span<const float> row) {
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
  }
  std::uint8_t* scales = out + block_count(row.size()) * kBlock;
  for (std::size_t b = 0; b < block_count(row.size()); ++b) {
    const auto part = row.subspan(b * kBlock, std::min(kBlock, row.size() - b * kBlock));
    const std::uint16_t scale = f32_to_f16(largest(part) / 127.0f);
    store_u16(scales + b * 2, scale);
    for (std::size_t i = 0; i < part.size(); ++i) {
      out[b * kBlock + i] = static_cast<std::uint8_t>(q8_round(part[i], f16_to_f32(scale)));
    }
  }
}

}  // namespace

float largest_value(const PackedWeight& weight) {
  const bool f16 = weight.use == WeightUse::kMatrix ? weight.matrix == WeightKind::kF16
                                                    : weight.table == TableKind::kF16;
  constexpr float kLargestF16 = 65504.0f;
  return f16 && weight.use != WeightUse::kVector ? kLargestF16
                                                 : std::numeric_limits<float>::infinity();
}

void pack_rows(const PackedWeight& weight, std::span<const float> values, std::size_t rows,
               std::vector<std::byte>& out) {
  const std::size_t k = weight.columns;
  LLMC_CHECK(values.size() == rows * k);
  if (weight.use == WeightUse::kTable) {
    const std::size_t row_bytes = table_row_bytes(weight.table, k);
    out.assign(rows * row_bytes, std::byte{0});
    for (std::size_t r = 0; r < rows; ++r) {
      encode_table_row(weight.table, bytes_at(out, r * row_bytes), values.subspan(r * k, k));
    }
    return;
  }
  LLMC_CHECK(rows % kPanelRows == 0);
  const std::size_t panel_bytes = weight_panel_bytes(weight.matrix, k);
  out.assign(rows / kPanelRows * panel_bytes, std::byte{0});
  for (std::size_t r = 0; r < rows; ++r) {
    encode_matrix_row(weight.matrix, bytes_at(out, r / kPanelRows * panel_bytes), r % kPanelRows,
                      values.subspan(r * k, k));
  }
}

}  // namespace llmc::emit
