#pragma once

#include "llmc/kernels/product_coded.h"

/// Products of 6- and 8-bit codes without zero points with several tokens, on registers of several
/// panels (kVnniCodes). The arithmetic is that of product_coded.h; codes are stored with an offset
/// that makes them unsigned, and a sum starts with -offset * S, so that it ends as I.
///
/// V is the SIMD header's VnniVector (simd/vnni_exact.h), with
///
///     add_products(part, scale, i)       part + scale * float(i), by fma
///     add_part(y, A, part)               y + A * part, by fma
namespace llmc {
inline namespace LLMC_ISA {

struct VnniVector;

/// Whether products of a format use these tiles.
constexpr bool has_vnni_codes(CodedFormat f) {
  return kVnniCodes && f.bits != 4 && f.block >= kBlock && f.zero == CodedZero::kNone;
}

template <class V, CodedFormat kFormat>
struct VnniCodes {
  static constexpr size_t kVectors = kPanelGroup / V::kPanels, kLanes = V::kPanels * kPanelRows;
  static constexpr size_t kStepBytes = kLanes * 4;  // 4 codes of each row
  static constexpr size_t kGroupBlocks = CodedShape<kFormat>::kGroupBlocks;
  static constexpr int kOffset = kFormat.bits == 8 ? kZeroPoint8 : CodedShape<kFormat>::kZeroPoint;
  static constexpr size_t kTileVectors = V::kTileVectors;
  static constexpr size_t kTokenStride = kBlock * kActivationBlocks;  // bytes of activations
  static_assert(kVectors % kTileVectors == 0, "panels are whole tiles");

  alignas(64) uint8_t codes[kVectors][kSuper / 4][kStepBytes];  // [k / 4][row][4]
  alignas(64) float scales[kVectors][kBlocksPerSuper][kLanes];  // of each group
  /// Of each token: -kOffset times the sum of each block's activations.
  alignas(64) int32_t starts[kBlocksPerSuper][kTokenStrip];

  /// Unpacks a superblock of panel `p`.
  LLMC_INLINE void unpack(size_t p, const uint8_t* super, size_t blocks) {
    constexpr size_t kBytes = coded_block_bytes(kFormat);
    const size_t v = p / V::kPanels, lane = p % V::kPanels * kPanelRows;
    for (size_t b = 0; b < blocks; ++b) {
      const uint8_t* block = super + b * kBytes;
      const auto put = [&](size_t step, Codes c) LLMC_INLINE_LAMBDA {
        store_codes(codes[v][b * 8 + step] + lane * 4, c);
      };
      unpack_block<kFormat, kFormat.bits == 8 ? -kOffset : 0>(block, put);
    }
    const uint8_t* from = super + coded_scale_offset(kFormat, blocks);
    for (size_t g = 0; g < ceil_div(blocks, kGroupBlocks); ++g) {
      store(scales[v][g] + lane, coded_numbers<kFormat>(from));
      from += kPanelRows * coded_number_bytes(kFormat);
    }
  }

  LLMC_INLINE void start(const Quantized& x, size_t s, size_t blocks, size_t token, size_t count) {
    for (size_t b = 0; b < blocks; b += 2) {
      const int16_t* sums = x.sums + ((s * kBlocksPerSuper + b) / 2 * x.tokens + token) * 2;
      for (size_t t = 0; t < count; ++t) {
        starts[b][t] = -kOffset * sums[t * 2];
        starts[b + 1][t] = -kOffset * sums[t * 2 + 1];
      }
    }
  }

  /// Adds the products of the superblock with kTokens tokens, from token `t` of the strip on.
  /// Not inlined, so that all matrices of a model share the function.
  template <size_t kTokens>
  static LLMC_NOINLINE void tile(const VnniCodes& group, size_t first_vector, const int8_t* a,
                                 size_t block_stride, const float* scales, size_t blocks, size_t t,
                                 bool first, float* const* rows) {
    using Int = decltype(V::zero());
    using Float = decltype(V::load_floats(nullptr));
    Float part[kTokens][kTileVectors];
    for (auto& token : part) {
      for (Float& p : token) p = V::load_y(rows, 0, true);
    }
    a += t * kTokenStride;
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks;) {
      Int sum[kTokens][kTileVectors];
      for (auto& token : sum) {
        for (Int& s : token) s = V::zero();
      }
      const size_t g = b / kGroupBlocks;
      const size_t end = blocks - b < kGroupBlocks ? blocks : b + kGroupBlocks;
#pragma clang loop unroll(disable)
      for (; b < end; ++b) {
        const uint8_t* codes = group.codes[first_vector][b * 8];
#pragma clang loop unroll(full)
        for (size_t i = 0; i < kTokens; ++i) {
          const Int begin = V::splat4(group.starts[b] + t + i);
#pragma clang loop unroll(full)
          for (size_t v = 0; v < kTileVectors; ++v) {
            sum[i][v] = kGroupBlocks == 1 ? begin : V::add(sum[i][v], begin);
          }
        }
#pragma clang loop unroll(full)
        for (size_t q = 0; q < 8; ++q) {
          Int weights[kTileVectors];
#pragma clang loop unroll(full)
          for (size_t v = 0; v < kTileVectors; ++v) {
            weights[v] = V::load(codes + v * sizeof(group.codes[0]) + q * kStepBytes);
          }
#pragma clang loop unroll(full)
          for (size_t i = 0; i < kTokens; ++i) {
            const Int four = V::splat4(a + i * kTokenStride + q * 4);
#pragma clang loop unroll(full)
            for (size_t v = 0; v < kTileVectors; ++v) {
              sum[i][v] = V::dot_bytes(sum[i][v], weights[v], four);
            }
          }
        }
        a +=
            kActivationBlocks == 2 && b % 2 == 0 ? 32 : block_stride - (kActivationBlocks - 1) * 32;
      }
#pragma clang loop unroll(full)
      for (size_t v = 0; v < kTileVectors; ++v) {
        const Float scale = V::load_floats(group.scales[first_vector + v][g]);
#pragma clang loop unroll(full)
        for (size_t i = 0; i < kTokens; ++i) {
          part[i][v] = V::add_products(part[i][v], scale, sum[i][v]);
        }
      }
    }
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kTileVectors; ++v) {
      float* const* y = rows + (first_vector + v) * V::kPanels;
#pragma clang loop unroll(full)
      for (size_t i = 0; i < kTokens; ++i) {
        const size_t at = (t + i) * kPanelRows;
        V::store_y(y, at, V::add_part(V::load_y(y, at, first), scales[t + i], part[i][v]));
      }
    }
  }

  template <size_t kTokens, class... Args>
  static LLMC_INLINE void sized_tile(size_t tokens, const Args&... args) {
    if (tokens == kTokens) {
      tile<kTokens>(args...);
    } else if constexpr (kTokens > 1) {
      sized_tile<kTokens - 1>(tokens, args...);
    }
  }

  /// Adds the products of the superblock with `count` tokens to rows[panel][token][8]. Meanwhile
  /// prefetches the superblock of each panel at `next`: at once, all these lines would have to wait
  /// for each other.
  LLMC_INLINE void multiply(const int8_t* a, size_t block_stride, const float* scale, size_t blocks,
                            size_t count, bool first, float* const* rows,
                            const uint8_t* const* next) const {
    constexpr size_t kLines = ceil_div(coded_super_bytes(kFormat, kBlocksPerSuper), kAlignment);
    // Tiles have about the same size, because small ones have too few independent sums.
    const size_t tiles = ceil_div(count, kVnniByteTokens);
    for (size_t i = 0; i < tiles; ++i) {
      const size_t t = count * i / tiles, end = count * (i + 1) / tiles;
      for (size_t line = kLines * i / tiles; line < kLines * (i + 1) / tiles; ++line) {
        for (size_t p = 0; p < kPanelGroup; ++p) prefetch(next[p] + line * kAlignment);
      }
      for (size_t v = 0; v < kVectors; v += kTileVectors) {
        sized_tile<kVnniByteTokens>(end - t, *this, v, a, block_stride, scale, blocks, t, first,
                                    rows);
      }
    }
  }
};

/// Does the same as coded_panels_tokens(), for `k` columns: one function for all matrices of a
/// model with the format.
template <class V, CodedFormat kFormat>
LLMC_NOINLINE inline void vnni_codes_group(const uint8_t* panel, size_t k, size_t panels,
                                           const Quantized x, size_t token, size_t count,
                                           float* y) {
  const size_t panel_bytes = coded_panel_bytes(kFormat, k), supers = super_count(k);
  alignas(kAlignment) float spare[kTokenStrip * kPanelRows];
  float* rows[kPanelGroup];
  for (size_t p = 0; p < kPanelGroup; ++p) {
    rows[p] = p < panels ? y + p * count * kPanelRows : spare;
  }
  const uint8_t* next[kPanelGroup];
  VnniCodes<V, kFormat> group;
  for (size_t s = 0; s < supers; ++s) {
    const size_t offset = coded_super_offset(kFormat, s), blocks = blocks_in_super(k, s);
    for (size_t p = 0; p < kPanelGroup; ++p) {
      // Missing panels are replaced by the last one, whose extra results are ignored.
      const uint8_t* from = panel + (p < panels ? p : panels - 1) * panel_bytes;
      next[p] = s + 1 < supers ? from + coded_super_offset(kFormat, s + 1)
                               : panel + (kPanelGroup + p) * panel_bytes;
      group.unpack(p, from + offset, blocks);
    }
    group.start(x, s, blocks, token, count);
    group.multiply(activation_codes(x, s * kBlocksPerSuper, token),
                   x.tokens * kBlock * kActivationBlocks, x.scales + s * x.tokens + token, blocks,
                   count, s == 0, rows, next);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
