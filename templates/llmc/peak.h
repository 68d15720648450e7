#pragma once

#include "llmc/kernels.h"

/// Loops for `llmc bench` that measure an upper bound of prompt speed. They execute only the
/// multiply-adds in the tiles of products. Operands stay in registers and the L1 cache. Nothing is
/// unpacked, scaled per superblock or stored.
namespace llmc {
inline namespace LLMC_ISA {

/// Operands of one block: codes for every panel of a tile, and activations of every token.
struct alignas(64) PeakOperands {
  uint8_t codes[16 * kPanelRows * kBlock];
  int8_t activations[64 * kBlock];
};

/// Makes the compiler assume that the operands have changed, so that it repeats the products.
LLMC_INLINE void clobber(PeakOperands& operands) {
  __asm__ volatile("" : "+m"(operands) : : "memory");
}

/// Products of 4-bit codes. Each call of block() processes a block of 32 elements along K, with
/// kMacs multiply-adds. result() combines all sums.
struct NibblePeak {
  static constexpr uint64_t kMacs = kPanelTile * kTokenTile * kPanelRows * kBlock;
  I32x8 total[kPanelTile][kTokenTile];
  BlockScale scale[kPanelTile];

  LLMC_INLINE void begin(PeakOperands& operands) {
    for (size_t p = 0; p < kPanelTile; ++p) {
      for (I32x8& t : total[p]) t = zero_i32();
      scale[p] = even_scale(load_scale_pair(operands.codes + p * kPanelRows));
    }
  }
  LLMC_INLINE void block(PeakOperands& operands) {
    BlockSum sum[kPanelTile][kTokenTile];
    q4_block_sums(operands.codes, kPanelRows * kBlock, operands.activations, sum);
    q4_add_scaled(total, sum, scale);
  }
  LLMC_INLINE int32_t result() const {
    I32x8 all = zero_i32();
    for (const auto& panel : total) {
      for (const I32x8& t : panel) all = all + t;
    }
    return reduce_add_i32(all);
  }
};

/// Products with exact panels whose tiles have one panel (kernels/product_q4_exact.h).
template <class Exact>
struct ExactPeak {
  static constexpr uint64_t kMacs = kTokenTile * kPanelRows * kBlock;
  typename Exact::template Tile<kTokenTile> tile;

  LLMC_INLINE void begin(PeakOperands&) { tile.begin(typename Exact::Sums{}); }
  LLMC_INLINE void block(PeakOperands& operands) {
    tile.add_block(operands.codes, operands.activations);
  }
  LLMC_INLINE int32_t result() const {
    I32x8 all = zero_i32();
    for (size_t t = 0; t < kTokenTile; ++t) all = all + tile.rows(t);
    return reduce_add_i32(all);
  }
};

/// Vectors of x86 dot products (simd/vnni_exact.h); declared but not defined on other targets.
struct VnniVector;
template <class V, size_t kTokens = V::kTileTokens>
struct VnniPeak {
  static constexpr uint64_t kMacs = kTokens * V::kTileVectors * V::kPanels * kPanelRows * kBlock;
  decltype(V::zero()) sum[kTokens][V::kTileVectors];

  LLMC_INLINE void begin(PeakOperands&) {
    for (auto& token : sum) {
      for (auto& s : token) s = V::zero();
    }
  }
  LLMC_INLINE void block(PeakOperands& operands) {
    constexpr size_t kVectorBytes = V::kPanels * 32;
#pragma clang loop unroll(full)
    for (size_t q = 0; q < 8; ++q) {
      decltype(V::zero()) weights[V::kTileVectors];
#pragma clang loop unroll(full)
      for (size_t v = 0; v < V::kTileVectors; ++v) {
        weights[v] = V::load(operands.codes + (v * 8 + q) * kVectorBytes);
      }
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) {
        const auto four = V::splat4(operands.activations + t * kBlock + q * 4);
#pragma clang loop unroll(full)
        for (size_t v = 0; v < V::kTileVectors; ++v) {
          sum[t][v] = V::dot_bytes(sum[t][v], weights[v], four);
        }
      }
    }
  }
  LLMC_INLINE int32_t result() const {
    alignas(64) uint8_t bytes[64];
    auto all = V::zero();
    for (const auto& token : sum) {
      for (const auto& s : token) all = V::dot_pairs(all, s, s);
    }
    V::store(bytes, all);
    return bytes[0];
  }
};

#if defined(__AMX_INT8__)
/// Products with AMX tiles. Each call of block() multiplies 32 rows by 32 tokens over 64 elements
/// along K. The sums are 4 tiles of 16 rows by 16 tokens.
struct MatrixPeak {
  static constexpr uint64_t kMacs = 32 * 32 * 64;

  LLMC_INLINE void begin(PeakOperands& operands) {
    struct alignas(64) {
      uint8_t palette, start, zero[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } config = {};
    config.palette = 1;
    for (size_t i = 0; i < 8; ++i) {
      config.row_bytes[i] = 64;
      config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, operands.activations, 64);
    _tile_loadd(5, operands.activations + 1024, 64);
    _tile_loadd(6, operands.codes, 64);
    _tile_loadd(7, operands.codes + 1024, 64);
  }
  LLMC_INLINE void block(PeakOperands&) {
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  }
  LLMC_INLINE int32_t result() const {
    int32_t sums[16][16];
    _tile_stored(0, sums, 64);
    _tile_release();
    return sums[0][0];
  }
};
#endif

/// Products of 8-bit codes with tiles of one panel.
struct CodedPeak {
  static constexpr uint64_t kMacs = kByteTile * kPanelRows * kBlock;
  CodedSums<ExactPanels, CodedFormat{.bits = 8, .block = 32}, kByteTile, kSquareTiles> sums;

  LLMC_INLINE void begin(PeakOperands&) { sums.begin(); }
  LLMC_INLINE void block(PeakOperands& operands) {
    sums.add(operands.codes, nullptr, operands.activations, 0);
  }
  LLMC_INLINE int32_t result() const {
    I32x8 all = zero_i32();
    for (size_t t = 0; t < kByteTile; ++t) all = all + sums.rows(t);
    return reduce_add_i32(all);
  }
};

/// Products of f32 weights and activations.
struct FloatPeak {
  static constexpr uint64_t kMacs = kFloatPanels * kFloatTokens * kPanelRows;
  static constexpr size_t kWide = kFloatPanels % 2 == 0 ? 2 : 1, kVectors = kFloatPanels / kWide;
  using V = Lanes<kWide>;
  typename V::Vector sum[kVectors][kFloatTokens];

  LLMC_INLINE void begin(PeakOperands& operands) {
    for (auto& vector : sum) {
      for (auto& s : vector) s = V::zero();
    }
    for (size_t i = 0; i < sizeof(operands.codes); i += 32) {
      store(reinterpret_cast<float*>(operands.codes + i), splat(0.5f));
    }
    for (size_t i = 0; i < sizeof(operands.activations); i += 32) {
      store(reinterpret_cast<float*>(operands.activations + i), splat(0.25f));
    }
  }
  LLMC_INLINE void block(PeakOperands& operands) {
    const auto* codes = reinterpret_cast<const float*>(operands.codes);
    const auto* activations = reinterpret_cast<const float*>(operands.activations);
    typename V::Vector w[kVectors];
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kVectors; ++v) w[v] = V::load(codes + v * kWide * kPanelRows);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kFloatTokens; ++t) {
      const auto a = V::splat_at(activations + t);
#pragma clang loop unroll(full)
      for (size_t v = 0; v < kVectors; ++v) sum[v][t] = fma(w[v], a, sum[v][t]);
    }
  }
  LLMC_INLINE int32_t result() const {
    auto all = V::zero();
    for (const auto& vector : sum) {
      for (const auto& s : vector) all = all + s;
    }
    float lanes[kWide * kPanelRows];
    V::store(lanes, all);
    return static_cast<int32_t>(lanes[0] > 0);
  }
};

/// Returns the loop that measures q4 prompts on this target.
template <class Exact, class Vector>
constexpr auto nibble_peak() {
  if constexpr (!kExactPanels) {
    return NibblePeak{};
  } else if constexpr (requires { sizeof(Vector); }) {
#if defined(__AMX_INT8__)
    return MatrixPeak{};
#else
    return VnniPeak<Vector>{};
#endif
  } else {
    return ExactPeak<Exact>{};
  }
}
using Q4Peak = decltype(nibble_peak<ExactPanels, VnniVector>());

/// Returns the loop that measures q8 prompts on this target.
template <class Vector>
constexpr auto byte_peak() {
  if constexpr (kVnniCodes) {
    return VnniPeak<Vector, kVnniByteTokens>{};
  } else {
    return CodedPeak{};
  }
}
using BytePeak = decltype(byte_peak<VnniVector>());

/// Calls block() `blocks` times. Returns the number of multiply-adds. Sets *result to a value that
/// depends on them, so that the compiler cannot remove them.
template <class Loop>
LLMC_NOINLINE inline uint64_t peak(uint64_t blocks, int32_t* result) {
  PeakOperands operands;
  for (size_t i = 0; i < sizeof(operands.codes); ++i) operands.codes[i] = i % 16;
  for (size_t i = 0; i < sizeof(operands.activations); ++i) {
    operands.activations[i] = static_cast<int8_t>(i % 255) - 127;
  }
  Loop loop;
  loop.begin(operands);
#pragma clang loop unroll(disable)
  for (uint64_t i = 0; i < blocks; ++i) {
    clobber(operands);
    loop.block(operands);
  }
  *result = loop.result();
  return blocks * Loop::kMacs;
}

}  // namespace LLMC_ISA
}  // namespace llmc
