#pragma once

#include <stddef.h>
#include <stdint.h>

#include "llmc/kernels/weights.h"

/// Random packed weights, written through the layouts' own setters. Freestanding: bits.cpp uses it.
namespace llmc {
inline namespace LLMC_ISA {
namespace packing {

/// One number of a sequence that `seed` and `index` name.
constexpr uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
/// In [-1, 1).
constexpr float mixed_float(uint64_t seed, uint64_t index) {
  return static_cast<float>(static_cast<int32_t>(mixed(seed, index) >> 40) - (1 << 23)) * 0x1p-23f;
}

/// Every code of the format.
template <CodedFormat kFormat>
void fill_coded_code(uint8_t* panel, size_t lane, size_t k, uint64_t word) {
  const bool wide = kFormat.bits == 8;
  const int low = wide && kFormat.zero != CodedZero::kFloat ? -128 : 0;
  coded_set_code(kFormat, panel, lane, k, static_cast<int>(word % (wide ? 256 : 16)) + low);
}
/// Scales of both signs and zero points over their whole range.
template <CodedFormat kFormat, size_t K>
void fill_coded_groups(uint8_t* panel, size_t lane, uint64_t seed, size_t row) {
  const size_t groups = ceil_div(K, kFormat.block);
  for (size_t group = 0; group < groups; ++group) {
    const uint64_t word = mixed(seed + 1, row * groups + group);
    float scale = 0.01f * mixed_float(seed + 2, word), zero = 0;
    if (kFormat.zero == CodedZero::kInteger) {
      zero = static_cast<float>(static_cast<int>(word >> 8 & 255) - (kFormat.bits == 8 ? 128 : 0));
    } else {
      zero = 9 * mixed_float(seed + 3, word);
    }
    if (kFormat.scale == CodedScale::kF16) {
      scale = f16_to_f32(f32_to_f16(scale));
      zero = f16_to_f32(f32_to_f16(zero));
    }
    coded_set_group(kFormat, panel, K, lane, group, scale, zero);
  }
}

/// Fills W::bytes zeroed bytes at `data` with rows [0, rows); rows from there on stay zero.
template <class W>
void fill_weight(unsigned char* data, size_t rows, uint64_t seed) {
  constexpr size_t K = W::kColumns;
  for (size_t row = 0; row < rows; ++row) {
    uint8_t* panel = data + (row / kPanelRows) * W::kPanelBytes;
    const size_t lane = row % kPanelRows;
    for (size_t k = 0; k < K; ++k) {
      const uint64_t word = mixed(seed, row * K + k);
      const float value = mixed_float(seed, row * K + k);
      if constexpr (W::kKind == WeightKind::kF32) {
        f32_set(panel, lane, k, value);
      } else if constexpr (W::kKind == WeightKind::kF16) {
        f16_set(panel, lane, k, f32_to_f16(value));
      } else if constexpr (W::kKind == WeightKind::kQ8) {
        q8_set_code(panel, lane, k, static_cast<int8_t>(static_cast<int>(word % 255) - 127));
      } else if constexpr (is_coded(W::kKind)) {
        fill_coded_code<coded_format(W::kKind)>(panel, lane, k, word);
      } else {
        q4_set_code(panel, lane, k, static_cast<uint8_t>(word % 16));
      }
    }
    if constexpr (is_coded(W::kKind)) {
      fill_coded_groups<coded_format(W::kKind), K>(panel, lane, seed, row);
    }
    for (size_t block = 0; block < block_count(K); ++block) {
      const uint64_t word = mixed(seed + 1, row * block_count(K) + block);
      if constexpr (W::kKind == WeightKind::kQ8) {
        q8_set_scale(panel, K, lane, block,
                     f32_to_f16(0.01f + 0.005f * mixed_float(seed + 2, word)));
      } else if constexpr (W::kKind == WeightKind::kQ4) {
        q4_set_scale(panel, K, lane, block, static_cast<uint8_t>(word % 16));
        q4_set_min(panel, K, lane, block, static_cast<uint8_t>(word >> 8));
      }
    }
    if constexpr (W::kKind == WeightKind::kQ4) {
      q4_set_row(panel, lane, f32_to_bf16(0.008f + 0.004f * mixed_float(seed + 3, row)),
                 f32_to_bf16(-0.004f + 0.001f * mixed_float(seed + 4, row)));
    }
  }
}

}  // namespace packing
}  // namespace LLMC_ISA
}  // namespace llmc
