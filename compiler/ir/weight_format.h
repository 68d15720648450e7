#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace llmc::ir {

/// How a weight matrix is stored in the emitted library (plan/weight_formats.h).
enum class WeightFormat : std::uint8_t { kUnset, kF32, kF16, kQ8, kQ4, kQ6 };
inline constexpr std::array<std::string_view, 6> kWeightFormatNames{"unset", "f32", "f16",
                                                                    "q8",    "q4",  "q6"};
constexpr bool is_quantized(WeightFormat format) {
  return format >= WeightFormat::kQ8;
}
/// All formats but kUnset, by descending rounding error: the order of help texts and searches.
inline constexpr std::array kFormatsByError{WeightFormat::kQ4, WeightFormat::kQ6, WeightFormat::kQ8,
                                            WeightFormat::kF16, WeightFormat::kF32};
static_assert(kFormatsByError.size() + 1 == kWeightFormatNames.size());

}  // namespace llmc::ir
