#pragma once

#include "llmc/kernels/token_tiles.h"
#include "llmc/simd/weight_prefetch.h"

/// Exact panels (kernels/product_q4_exact.h) with x86's dot products of bytes. Included by the SIMD
/// headers of targets with these instructions, which define the vector type:
///
///     VnniVector     kPanels adjacent panels of 8 rows, one row per 32-bit lane
///       kTileVectors, kTileTokens             size of a tile in vectors and in tokens
///       Int zero(), load(p), splat4(p)        splat4: 4 bytes into every lane
///       dot_bytes(sum, u8, s8), dot_pairs(sum, i16, i16)    into 32-bit lanes
///       load_rows(p)                          32 bytes each at p[0], p[1], …
///       low(v), high(v)                       nibbles of bytes
///       scaled(nibbles, scales)               products of bytes, all below 256
///       spread(p)                             8 bytes each at p[0], …: each in its row's lane
///       in_halves(v)                          low 16 bits of each lane copied to both halves
///       pairs(p)                              16 bytes each at p[0], …, widened to 16 bits
///       fold(y, scale, min, A, i1, i2)        as Q4Fold (kernels/product_q4.h)
///       load_floats(p)                        the floats of a vector's rows
///       load_y(y, at, first), store_y(y, at, v)    8 floats each at y[0] + at, …; first: zeros
namespace llmc {
inline namespace LLMC_ISA {

/// Activations of a superblock, from a given token on.
struct ExactActivations {
  const int8_t* codes;
  const int16_t* sums[4];  // of pairs of blocks, [token][2]
  const float* scales;
  size_t block_stride;  // bytes from a token's kActivationBlocks adjacent blocks to its next ones;
                        // tokens are kTokenBytes apart
};

/// A superblock of four panels, packed.
struct ExactWeights {
  const uint8_t* supers[4];
  const uint8_t* next[4];  // superblocks to prefetch
  size_t blocks, scale_offset, min_offset;
};

template <class V>
struct VnniPanels {
  static constexpr size_t kPanels = 4;  // unpacked together
  using Activations = ExactActivations;
  using Weights = ExactWeights;
  static constexpr size_t kVectors = kPanels / V::kPanels;
  static constexpr size_t kVectorBytes = V::kPanels * 32;
  static constexpr size_t kBlockBytes = kQ4BlockCodeBytes;
  static constexpr size_t kFetchBytes = 144;  // to prefetch per block: codes, scales, mins
  static_assert(kVectors % V::kTileVectors == 0, "panels are whole tiles");

  /// The mins of a superblock of kPanels panels: i16 [vector][pair of blocks][row][2].
  struct alignas(64) Mins {
    uint8_t pairs[kVectors][4][kVectorBytes];
  };
  /// An unpacked superblock of kPanels panels.
  struct alignas(64) Group {
    uint8_t codes[kVectors][64][kVectorBytes];  // [k / 4][row][4]: code times scale
    Mins mins;
  };

  static LLMC_INLINE void unpack_mins(const ExactWeights& from, Mins& out) {
    for (size_t v = 0; v < kVectors; ++v) {
      for (size_t pair = 0; pair < 4; ++pair) {
        const uint8_t* mins[V::kPanels];
        for (size_t p = 0; p < V::kPanels; ++p) {
          mins[p] = from.supers[v * V::kPanels + p] + from.min_offset + pair * 16;
        }
        // Missing blocks have mins of 0, so their sums have no effect.
        const auto at = 2 * pair + 1 < from.blocks    ? V::pairs(mins)
                        : 2 * pair + 1 == from.blocks ? V::spread(mins)
                                                      : V::zero();
        V::store(out.pairs[v][pair], at);
      }
    }
  }
  static LLMC_INLINE void unpack_codes(const ExactWeights& from, Group& out) {
    for (size_t b = 0; b < from.blocks + from.blocks % 2; ++b) unpack_block(from, b, out);
  }

  /// Computes the products of all superblocks of `source` with `count` tokens in
  /// rows[panel][token][8].
  template <class Source>
  static LLMC_INLINE void run(const Source& source, size_t count, float* const* rows) {
    Group group;
    for (size_t s = 0; s < source.supers(); ++s) {
      const ExactWeights weights = source.weights(s);
      unpack_codes(weights, group);
      unpack_mins(weights, group.mins);
      multiply(group, source, source.activations(s), weights.blocks, count, s == 0, rows);
    }
  }

  /// Does the same for few tokens. Codes are unpacked in registers, again for each tile.
  template <class Source>
  static LLMC_INLINE void run_few(const Source& source, size_t count, float* const* rows) {
    Mins mins;
    for (size_t s = 0; s < source.supers(); ++s) {
      const ExactWeights weights = source.weights(s);
      const ExactActivations x = source.activations(s);
      unpack_mins(weights, mins);
      each_few_tile<kFewTokens>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
        for (size_t v = 0; v < kVectors; v += V::kTileVectors) {
          few_tile<kTokens>(weights, mins, v, source.scale, source.min, x, t, s == 0, rows);
        }
      });
    }
  }

 private:
  /// Unpacks block `b` of the superblock's codes in all panels. A missing block becomes zeros.
  static LLMC_INLINE void unpack_block(const ExactWeights& from, size_t b, Group& out) {
    for (size_t v = 0; v < kVectors; ++v) {
      const uint8_t *codes[V::kPanels], *scales[V::kPanels];
      for (size_t p = 0; p < V::kPanels; ++p) {
        const uint8_t* super = from.supers[v * V::kPanels + p];
        const uint8_t* next = from.next[v * V::kPanels + p];
        codes[p] = super + b * kBlockBytes;
        scales[p] = super + from.scale_offset + b / 2 * 8;
        prefetch(next + b * kFetchBytes);
        prefetch(next + b * kFetchBytes + 64);
      }
      uint8_t* bytes = out.codes[v][b * 8];
      if (b >= from.blocks) {
        for (size_t i = 0; i < 8; ++i) V::store(bytes + i * kVectorBytes, V::zero());
      } else {
        const auto both = V::spread(scales);
        block(codes, V::in_halves(b % 2 == 0 ? V::low(both) : V::high(both)), bytes);
      }
    }
  }

  /// Adds the products of a superblock with kTokens tokens, for one vector of rows, to the results
  /// of its panels at y[0], y[1], …. If `first` is set, these are assumed to be zero. sum(i) is the
  /// integer sum for token + i.
  template <size_t kTokens, class Sum>
  static LLMC_INLINE void fold(float* const* y, size_t token,
                               const uint8_t (*min_pairs)[kVectorBytes], const float* scales,
                               const float* minima, const ExactActivations& x, bool first,
                               Sum sum) {
    using Int = decltype(V::zero());
    const auto scale = V::load_floats(scales), min = V::load_floats(minima);
    decltype(V::load_floats(scales)) result[kTokens];
    // Read everything before storing: the compiler must assume that the stores alias the loads.
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kTokens; ++i) {
      Int mins = V::zero();
#pragma clang loop unroll(full)
      for (size_t pair = 0; pair < 4; ++pair) {
        mins =
            V::dot_pairs(mins, V::load(min_pairs[pair]), V::splat4(x.sums[pair] + (token + i) * 2));
      }
      result[i] = V::fold(V::load_y(y, (token + i) * 8, first), scale, min, x.scales[token + i],
                          sum(i), mins);
    }
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kTokens; ++i) V::store_y(y, (token + i) * 8, result[i]);
  }

  /// Adds the products of `count` tokens with the superblock to rows[panel][token][8].
  template <class Source>
  static LLMC_INLINE void multiply(const Group& group, const Source& source,
                                   const ExactActivations& x, size_t blocks, size_t count,
                                   bool first, float* const* rows) {
    each_strip_tile<V::kTileTokens>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
      for (size_t v = 0; v < kVectors; v += V::kTileVectors) {
        tile<kTokens>(group, v, source.scale, source.min, x, blocks, t, first, rows);
      }
    });
  }

  /// Unpacks one block of packed nibbles [4][8 rows][4] of each panel, times their scales.
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

  /// Adds the products of a superblock, of the vectors of rows from `first_vector` on, with kTokens
  /// tokens from `t` on. Not inlined, so that all matrices of a model share the function.
  template <size_t kTokens>
  static LLMC_NOINLINE void few_tile(const ExactWeights& from, const Mins& mins,
                                     size_t first_vector, const float* scales, const float* minima,
                                     const ExactActivations& x, size_t t, bool first,
                                     float* const* rows) {
    using Int = decltype(V::zero());
    constexpr size_t kTilePanels = V::kTileVectors * V::kPanels;
    Int sum[kTokens][V::kTileVectors];
    for (auto& token : sum) {
      for (Int& s : token) s = V::zero();
    }
    const uint8_t *codes[kTilePanels], *block_scales[kTilePanels], *next[kTilePanels];
    for (size_t p = 0; p < kTilePanels; ++p) {
      codes[p] = from.supers[first_vector * V::kPanels + p];
      block_scales[p] = codes[p] + from.scale_offset;
      next[p] = from.next[first_vector * V::kPanels + p];
    }
    const int8_t* a = x.codes + t * kTokenBytes;
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < from.blocks; ++b) {
      Int scale[V::kTileVectors];
#pragma clang loop unroll(full)
      for (size_t v = 0; v < V::kTileVectors; ++v) {
        const Int both = V::spread(block_scales + v * V::kPanels);
        scale[v] = V::in_halves(b % 2 == 0 ? V::low(both) : V::high(both));
      }
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kTilePanels; ++p) {
        prefetch_weights(next[p]);
        prefetch_weights(next[p] + 64);
        next[p] += kFetchBytes;
        block_scales[p] += b % 2 * 8;
      }
#pragma clang loop unroll(full)
      for (size_t i = 0; i < 4; ++i) {
        Int weights[2][V::kTileVectors];  // the low nibbles, the high ones
#pragma clang loop unroll(full)
        for (size_t v = 0; v < V::kTileVectors; ++v) {
          const Int both = V::load_rows(codes + v * V::kPanels);
          weights[0][v] = V::scaled(V::low(both), scale[v]);
          weights[1][v] = V::scaled(V::high(both), scale[v]);
        }
        for (size_t p = 0; p < kTilePanels; ++p) codes[p] += 32;
        add_dots<V>(sum, weights[0], a + i * 8);
        add_dots<V>(sum, weights[1], a + i * 8 + 4);
      }
      a = next_activations(a, b, x.block_stride);
    }
    fold_all<kTokens>(sum, mins, first_vector, scales, minima, x, t, first, rows);
  }

  /// Adds the integer sums of a tile to the results with fold().
  template <size_t kTokens, class Int>
  static LLMC_INLINE void fold_all(const Int (&sum)[kTokens][V::kTileVectors], const Mins& mins,
                                   size_t first_vector, const float* scales, const float* minima,
                                   const ExactActivations& x, size_t t, bool first,
                                   float* const* rows) {
#pragma clang loop unroll(full)
    for (size_t v = 0; v < V::kTileVectors; ++v) {
      const size_t vector = first_vector + v;
      fold<kTokens>(rows + vector * V::kPanels, t, mins.pairs[vector],
                    scales + vector * V::kPanels * 8, minima + vector * V::kPanels * 8, x, first,
                    [&](size_t i) LLMC_INLINE_LAMBDA { return sum[i][v]; });
    }
  }

  /// Does the same as few_tile(), from unpacked codes.
  template <size_t kTokens>
  static LLMC_NOINLINE void tile(const Group& group, size_t first_vector, const float* scales,
                                 const float* minima, const ExactActivations& x, size_t blocks,
                                 size_t t, bool first, float* const* rows) {
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
        add_dots<V>(sum, weights, a + q * 4);
      }
      codes += 8 * kVectorBytes;
      a = next_activations(a, b, x.block_stride);
    }
    fold_all<kTokens>(sum, group.mins, first_vector, scales, minima, x, t, first, rows);
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc
