#include "compiler/quant/coded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/check.h"

namespace llmc::quant {
namespace {

bool is_half(float x) {
  return float_bits(f16_to_f32(f32_to_f16(x))) == float_bits(x);
}

/// Returns the offset added to codes and zero points before they are stored.
int shift_of(CodedFormat format, int low) {
  if (format.zero == CodedZero::kFloat) return 0;
  return format.bits == 4 ? -low : -low - kZeroPoint8;
}

Status check_parameters(const CodedRows& rows, std::size_t groups, std::size_t block,
                        std::uint64_t first_row) {
  // A code differs by at most 512 from a zero point that is stored as an integer, so scales up to
  // this limit cannot overflow.
  constexpr float kLargest = std::numeric_limits<float>::max() / 512;
  for (std::size_t i = 0; i < rows.scales.size(); ++i) {
    const float scale = rows.scales[i], zero = rows.zeros[i];
    if (std::abs(scale) <= kLargest && std::isfinite(zero) &&
        std::isfinite((std::abs(zero) + 256) * scale)) {
      continue;
    }
    return failure(ErrorKind::kBadInput,
                   fmt::format("the weights in row {}, columns from {} on have scale {} and zero "
                               "point {}",
                               first_row + i / groups, i % groups * block, scale, zero),
                   "the model's file is damaged");
  }
  return ok_status();
}

/// Calls set_code(row, k, code) and set_group(row, group, scale, zero) for all of `rows`.
template <class SetCode, class SetGroup>
Status for_each(CodedFormat format, const CodedRows& rows, std::size_t columns,
                std::uint64_t first_row, SetCode set_code, SetGroup set_group) {
  const std::size_t count = rows.codes.size() / columns;
  const std::size_t groups = (columns + format.block - 1) / format.block;
  LLMC_CHECK(rows.codes.size() == count * columns && rows.scales.size() == count * groups &&
             rows.zeros.size() == count * groups);
  LLMC_RETURN_IF_ERROR(check_parameters(rows, groups, format.block, first_row));
  const int shift = shift_of(format, rows.low);
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t k = 0; k < columns; ++k)
      set_code(r, k, static_cast<int>(rows.codes[r * columns + k]) + shift);
    for (std::size_t g = 0; g < groups; ++g) {
      const float zero = rows.zeros[r * groups + g];
      set_group(r, g, rows.scales[r * groups + g], zero + static_cast<float>(shift));
    }
  }
  return ok_status();
}

}  // namespace

std::optional<CodedChoice> CodedChoice::start(int low, int high, std::int64_t block) {
  CodedFormat format;
  if (high - low > 255 || block < 0) return std::nullopt;
  format.bits = high - low <= 15 ? 4 : 8;
  format.block = 256;
  while (format.block >= 16 && block % format.block != 0) format.block /= 2;
  if (format.block < 16) return std::nullopt;
  return CodedChoice(low, format);
}

bool CodedChoice::add(std::span<const float> scales, std::span<const float> zeros) {
  LLMC_CHECK(scales.size() == zeros.size());
  const float shift = static_cast<float>(shift_of(format_, low_));
  const float zero_point = format_.bits == 4 ? kZeroPoint4 : 0;
  const float smallest = format_.bits == 4 ? 0 : -kZeroPoint8;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    half_scales_ = half_scales_ && is_half(scales[i]);
    half_zeros_ = half_zeros_ && is_half(zeros[i]);
    const float zero = zeros[i] + shift;
    default_zeros_ = default_zeros_ && zero == zero_point;
    integer_zeros_ = integer_zeros_ && zero == std::floor(zero) && zero >= smallest &&
                     zero <= smallest + 255 && zero - shift == zeros[i];
  }
  return integer_zeros_ || low_ == 0;
}

CodedFormat CodedChoice::format() const {
  CodedFormat format = format_;
  format.zero = default_zeros_   ? CodedZero::kNone
                : integer_zeros_ ? CodedZero::kInteger
                                 : CodedZero::kFloat;
  const bool half = half_scales_ && (half_zeros_ || format.zero != CodedZero::kFloat);
  format.scale = half ? CodedScale::kF16 : CodedScale::kF32;
  return format;
}

Status pack_coded_panels(CodedFormat format, const CodedRows& rows, std::size_t columns,
                         std::uint64_t first_row, std::span<std::byte> out) {
  LLMC_CHECK(columns > 0 && first_row % kPanelRows == 0);
  const std::size_t count = rows.codes.size() / columns;
  LLMC_CHECK(out.size() == weight_bytes(coded_weight(format), count, columns));
  std::ranges::fill(out, std::byte{0});
  const std::size_t panel_bytes = coded_panel_bytes(format, columns);
  const auto panel = [&](std::size_t row) {
    return reinterpret_cast<std::uint8_t*>(out.data()) + row / kPanelRows * panel_bytes;
  };
  return for_each(
      format, rows, columns, first_row,
      [&](std::size_t r, std::size_t k, int code) {
        coded_set_code(format, panel(r), columns, r % kPanelRows, k, code);
      },
      [&](std::size_t r, std::size_t g, float scale, float zero) {
        coded_set_group(format, panel(r), columns, r % kPanelRows, g, scale, zero);
      });
}

Status pack_coded_table(CodedFormat format, const CodedRows& rows, std::size_t columns,
                        std::uint64_t first_row, std::span<std::byte> out) {
  LLMC_CHECK(columns > 0);
  const std::size_t row_bytes = coded_row_bytes(format, columns);
  LLMC_CHECK(out.size() == rows.codes.size() / columns * row_bytes);
  std::ranges::fill(out, std::byte{0});
  const auto row = [&](std::size_t r) {
    return reinterpret_cast<std::uint8_t*>(out.data()) + r * row_bytes;
  };
  return for_each(
      format, rows, columns, first_row,
      [&](std::size_t r, std::size_t i, int code) { coded_row_set_code(format, row(r), i, code); },
      [&](std::size_t r, std::size_t g, float scale, float zero) {
        coded_row_set_group(format, row(r), columns, g, scale, zero);
      });
}

}  // namespace llmc::quant
