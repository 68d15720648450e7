#pragma once

/// Exact panels (kernels/product_q4_exact.h) on x86's dot products of bytes, included by the SIMD
/// headers that have them, which say what a vector is:
///   VnniVector     kPanels panels of 8 rows side by side, a row for each 32-bit lane
///     kPanels, kTileVectors, kTileTokens    the tile: that many vectors by that many tokens
///     Int zero(), load(p), splat4(p)        splat4: 4 bytes into every lane
///     dot_bytes(sum, u8, s8), dot_pairs(sum, i16, i16)    into 32-bit lanes
///     load_rows(p)                          32 bytes at p[0], p[1], …
///     low(v), high(v)                       nibbles of bytes
///     scaled(nibbles, scales)               products of bytes, all below 256
///     spread(p)                             8 bytes at p[0], …: each into its row's lane
///     in_halves(v)                          16 bits of each lane into both halves
///     pairs(p)                              16 bytes at p[0], …, widened to 16 bits
///     fold(y, scale, min, A, i1, i2), load_floats(p), load_y(p, first), store_y(p, v)
namespace llmc {
inline namespace LLMC_ISA {

/// A superblock's activations, from the first of some tokens on.
struct ExactActivations {
  const int8_t* codes;
  const int16_t* sums[4];  // of pairs of blocks, [token][2]
  const float* scales;
  size_t block_stride;  // bytes; from token to token kTokenBytes
};

inline constexpr size_t kTokenBytes = 32 * kActivationBlocks;

template <class V>
struct VnniPanels {
  static constexpr size_t kPanels = 4;  // that are unpacked together
  using Activations = ExactActivations;
  static constexpr size_t kVectors = kPanels / V::kPanels;
  static constexpr size_t kVectorBytes = V::kPanels * 32;

  /// A superblock of kPanels panels.
  struct alignas(64) Group {
    uint8_t codes[kVectors][64][kVectorBytes];  // [k / 4][row][4]: code times scale
    uint8_t mins[kVectors][4][kVectorBytes];    // [pair of blocks][row] i16 [2]
    float scale[kPanels * 8], min[kPanels * 8];
  };

  /// Vector `v` of a group: `supers`: its panels' superblocks; scales and mins at those offsets.
  static LLMC_INLINE void unpack(const uint8_t* const* supers, size_t blocks, size_t scale_offset,
                                 size_t min_offset, size_t v, Group& out) {
    const uint8_t *codes[V::kPanels], *scales[V::kPanels], *mins[V::kPanels];
    for (size_t p = 0; p < V::kPanels; ++p) {
      codes[p] = supers[p];
      scales[p] = supers[p] + scale_offset;
      mins[p] = supers[p] + min_offset;
    }
    uint8_t* bytes = out.codes[v][0];
    for (size_t b = 0; b < blocks; b += 2) {
      const auto both = V::spread(scales);
      block(codes, V::in_halves(V::low(both)), bytes);
      if (b + 1 < blocks) block(codes, V::in_halves(V::high(both)), bytes);
      for (size_t p = 0; p < V::kPanels; ++p) scales[p] += 8;
    }
    for (size_t pair = 0; pair < 4; ++pair) {
      // Blocks that are not there have mins of 0, whatever sums they meet.
      const auto at = 2 * pair + 1 < blocks    ? V::pairs(mins)
                      : 2 * pair + 1 == blocks ? V::spread(mins)
                                               : V::zero();
      V::store(out.mins[v][pair], at);
      for (size_t p = 0; p < V::kPanels; ++p) mins[p] += 16;
    }
  }

  /// `count` tokens by the superblock, added to rows[panel][token][8]; `first`: there is nothing
  /// there yet.
  static LLMC_INLINE void multiply(const Group& group, const ExactActivations& x, size_t blocks,
                                   size_t count, bool first, float* const* rows) {
    // Tiles of about the same size: small ones have too few sums to keep the multipliers busy.
    const size_t tiles = (count + V::kTileTokens - 1) / V::kTileTokens;
    for (size_t i = 0; i < tiles; ++i) {
      const size_t t = count * i / tiles, end = count * (i + 1) / tiles;
      for (size_t v = 0; v < kVectors; v += V::kTileVectors) {
        sized_tile<V::kTileTokens>(end - t, group, v, x, blocks, t, first, rows);
      }
    }
  }

 private:
  /// One block of packed nibbles [4][8 rows][4] of each panel.
  template <class Int>
  static LLMC_INLINE void block(const uint8_t* (&codes)[V::kPanels], Int scale, uint8_t*& out) {
#pragma clang loop unroll(full)
    for (size_t i = 0; i < 4; ++i) {
      const Int both = V::load_rows(codes);
      V::store(out, V::scaled(V::low(both), scale));
      V::store(out + kVectorBytes, V::scaled(V::high(both), scale));
      out += 2 * kVectorBytes;
      for (size_t p = 0; p < V::kPanels; ++p) codes[p] += 32;
    }
  }

  template <size_t kTokens>
  static LLMC_INLINE void sized_tile(size_t tokens, const Group& group, size_t v,
                                     const ExactActivations& x, size_t blocks, size_t t, bool first,
                                     float* const* rows) {
    if (tokens == kTokens) {
      tile<kTokens>(group, v, x, blocks, t, first, rows);
    } else if constexpr (kTokens > 1) {
      sized_tile<kTokens - 1>(tokens, group, v, x, blocks, t, first, rows);
    }
  }

  /// One function for all matrices of a model.
  template <size_t kTokens>
  static LLMC_NOINLINE void tile(const Group& group, size_t first_vector, const ExactActivations& x,
                                 size_t blocks, size_t t, bool first, float* const* rows) {
    using Int = decltype(V::zero());
    Int sum[kTokens][V::kTileVectors];
    for (auto& token : sum) {
      for (Int& s : token) s = V::zero();
    }
    const uint8_t* codes = group.codes[first_vector][0];
    const int8_t* a = x.codes + t * kTokenBytes;
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks; ++b) {
#pragma clang loop unroll(full)
      for (size_t q = 0; q < 8; ++q) {
        Int weights[V::kTileVectors];
#pragma clang loop unroll(full)
        for (size_t v = 0; v < V::kTileVectors; ++v) {
          weights[v] = V::load(codes + v * sizeof(group.codes[0]) + q * kVectorBytes);
        }
#pragma clang loop unroll(full)
        for (size_t i = 0; i < kTokens; ++i) {
          const Int four = V::splat4(a + i * kTokenBytes + q * 4);
#pragma clang loop unroll(full)
          for (size_t v = 0; v < V::kTileVectors; ++v) {
            sum[i][v] = V::dot_bytes(sum[i][v], weights[v], four);
          }
        }
      }
      codes += 8 * kVectorBytes;
      a += x.block_stride;
    }
#pragma clang loop unroll(full)
    for (size_t v = 0; v < V::kTileVectors; ++v) {
      const size_t vector = first_vector + v;
      const auto scale = V::load_floats(group.scale + vector * V::kPanels * 8);
      const auto min = V::load_floats(group.min + vector * V::kPanels * 8);
#pragma clang loop unroll(full)
      for (size_t i = 0; i < kTokens; ++i) {
        Int mins = V::zero();
#pragma clang loop unroll(full)
        for (size_t pair = 0; pair < 4; ++pair) {
          mins = V::dot_pairs(mins, V::load(group.mins[vector][pair]),
                              V::splat4(x.sums[pair] + (t + i) * 2));
        }
        float* const* y = rows + vector * V::kPanels;
        const size_t at = (t + i) * 8;
        V::store_y(y, at,
                   V::fold(V::load_y(y, at, first), scale, min, x.scales[t + i], sum[i][v], mins));
      }
    }
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc
