#pragma once

#include "llmc/sizes.h"

/// Pseudorandom packed weights and floats for tests and benchmarks of kernels, the same on every
/// machine. The weights are written with the setters of their layout.
namespace llmc {
inline namespace LLMC_ISA {
namespace packing {

/// Returns pseudorandom number `index` of the sequence that `seed` selects.
constexpr uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
/// Returns number `index` of the sequence as a float in [-1, 1).
constexpr float random_float(uint64_t seed, uint64_t index) {
  return static_cast<float>(static_cast<int32_t>(mixed(seed, index) >> 40) - (1 << 23)) * 0x1p-23f;
}
/// Returns the FNV-1a hash of the bytes of `count` floats.
inline uint64_t hash_of(const float* values, size_t count) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(values);
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < count * sizeof(float); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

/// Sets a code, chosen by `word` from all codes of the format.
constexpr void fill_coded_code(CodedFormat format, uint8_t* panel, size_t k_total, size_t lane,
                               size_t k, uint64_t word) {
  const int code = static_cast<int>(word % (1u << format.bits)) + coded_lowest(format);
  coded_set_code(format, panel, k_total, lane, k, code);
}
/// Sets the scales of a row, of both signs, and its zero points: integers from their whole range,
/// floats in [-9, 9].
constexpr void fill_coded_groups(CodedFormat format, uint8_t* panel, size_t k_total, size_t lane,
                                 uint64_t seed, size_t row) {
  const size_t groups = ceil_div(k_total, format.block);
  for (size_t group = 0; group < groups; ++group) {
    const uint64_t word = mixed(seed + 1, row * groups + group);
    float scale = 0.01f * random_float(seed + 2, word), zero = 0;
    if (format.zero == CodedZero::kInteger) {
      zero = static_cast<float>(static_cast<int>(word >> 8 & 255) - (format.bits == 8 ? 128 : 0));
    } else {
      zero = 9 * random_float(seed + 3, word);
    }
    if (format.scale == CodedScale::kF16) {
      scale = f16_to_f32(f32_to_f16(scale));
      zero = f16_to_f32(f32_to_f16(zero));
    }
    coded_set_group(format, panel, k_total, lane, group, scale, zero);
  }
}

constexpr void fill_code(WeightKind kind, uint8_t* panel, size_t k_total, size_t lane, size_t k,
                         uint64_t word) {
  const float value = static_cast<float>(static_cast<int32_t>(word >> 40) - (1 << 23)) * 0x1p-23f;
  switch (kind) {
    case WeightKind::kF32:
      return f32_set(panel, lane, k, value);
    case WeightKind::kF16:
      return f16_set(panel, lane, k, f32_to_f16(value));
    case WeightKind::kQ8:
      return q8_set_code(panel, lane, k, static_cast<int8_t>(static_cast<int>(word % 255) - 127));
    case WeightKind::kQ4:
      return q4_set_code(panel, lane, k, static_cast<uint8_t>(word % 16));
  }
  fill_coded_code(coded_format(kind), panel, k_total, lane, k, word);
}

/// Sets all data of a row except its codes: scales, mins, zero points.
constexpr void fill_row(WeightKind kind, uint8_t* panel, size_t k_total, size_t row,
                        uint64_t seed) {
  const size_t lane = row % kPanelRows;
  if (is_coded(kind)) return fill_coded_groups(coded_format(kind), panel, k_total, lane, seed, row);
  if (!is_quantized(kind)) return;
  const size_t blocks = block_count(k_total);
  for (size_t block = 0; block < blocks; ++block) {
    const uint64_t word = mixed(seed + 1, row * blocks + block);
    if (kind == WeightKind::kQ8) {
      q8_set_scale(panel, k_total, lane, block,
                   f32_to_f16(0.01f + 0.005f * random_float(seed + 2, word)));
    } else {
      q4_set_scale(panel, k_total, lane, block, static_cast<uint8_t>(word % 16));
      q4_set_min(panel, k_total, lane, block, static_cast<uint8_t>(word >> 8));
    }
  }
  if (kind == WeightKind::kQ4) {
    q4_set_row(panel, lane, f32_to_bf16(0.008f + 0.004f * random_float(seed + 3, row)),
               f32_to_bf16(-0.004f + 0.001f * random_float(seed + 4, row)));
  }
}

/// Sets rows [begin, end) of the packed matrix with `k_total` columns at `data`, which must be
/// zeroed.
constexpr void fill_weight(WeightKind kind, uint8_t* data, size_t k_total, size_t begin, size_t end,
                           uint64_t seed) {
  for (size_t row = begin; row < end; ++row) {
    uint8_t* panel = data + row / kPanelRows * weight_panel_bytes(kind, k_total);
    for (size_t k = 0; k < k_total; ++k)
      fill_code(kind, panel, k_total, row % kPanelRows, k, mixed(seed, row * k_total + k));
    fill_row(kind, panel, k_total, row, seed);
  }
}
/// Sets rows [0, rows) of the packed matrix at `data`, W::bytes zeroed bytes. The remaining rows
/// stay zero.
template <class W>
void fill_weight(unsigned char* data, size_t rows, uint64_t seed) {
  fill_weight(W::kKind, data, W::kColumns, 0, rows, seed);
}

}  // namespace packing
}  // namespace LLMC_ISA
}  // namespace llmc
