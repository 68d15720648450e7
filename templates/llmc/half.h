#pragma once

#include <stdint.h>

#include "llmc/target.h"

/// Scalar 16-bit floats. Conversion to f32 is exact; conversion from f32 rounds to nearest, ties to
/// even. Subnormals, infinities and NaN (payload truncated; made quiet, except by bf16_to_f32(),
/// which keeps all bits) follow IEEE 754 and the F16C instructions.
namespace llmc {
inline namespace LLMC_ISA {

constexpr uint32_t float_bits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
constexpr float bits_float(uint32_t x) {
  return __builtin_bit_cast(float, x);
}

constexpr float f16_to_f32(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
    return bits_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | quiet);
  }
  if (magnitude >= 0x0400u) return bits_float(sign | ((magnitude << 13) + 0x38000000u));
  // Subnormal: an integer multiple of 2^-24, so both factors and the product are exact.
  const float value = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  return bits_float(sign | float_bits(value));
}

constexpr uint16_t f32_to_f16(float x) {
  const uint32_t bits = float_bits(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14, the unit in the last place of an f16 is 2^-24, like that of a float in [0.5, 1),
    // so the addition rounds correctly.
    const float shifted = bits_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (float_bits(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

constexpr float bf16_to_f32(uint16_t h) {
  return bits_float(static_cast<uint32_t>(h) << 16);
}

constexpr uint16_t f32_to_bf16(float x) {
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace LLMC_ISA
}  // namespace llmc
