#pragma once

#include "llmc/kernels/product_coded.h"
#include "llmc/kernels/token_tiles.h"

/// Products of 6- and 8-bit codes without zero points with several tokens, in registers of several
/// panels (kVnniCodes). The arithmetic is the same as in product_coded.h. An offset makes the
/// unpacked codes unsigned. Therefore, each sum starts at -offset * S, and its final value is I.
///
/// V is the SIMD header's VnniVector (simd/vnni_exact.h), with these additional members:
///
///     plus<n>(codes)                     bytes + n
///     with_upper<j>(low, upper), with_lower<j>(packed, lower)  as those of simd/vec.h
///     join(F32x8 (&)[kPanels])           the floats of panels as one vector
///     add_products(part, scale, i)       part + scale * float(i), by fma
///     add_part(y, A, part)               y + A * part, by fma
namespace llmc {
inline namespace LLMC_ISA {

struct VnniVector;

/// Whether products of a format use these tiles.
constexpr bool has_vnni_codes(CodedFormat f) {
  return kVnniCodes && f.bits != 4 && f.block >= kBlock && f.zero == CodedZero::kNone;
}

/// Offset that is added to codes to make them unsigned.
template <CodedFormat kFormat>
inline constexpr int kVnniOffset =
    kFormat.bits == 8 ? kZeroPoint8 : CodedShape<kFormat>::kZeroPoint;

/// Initial values of sums: for each block and token, -offset times the sum of the block's
/// activations.
template <size_t kMaxTokens>
struct VnniStarts {
  alignas(64) int32_t blocks[kBlocksPerSuper][kMaxTokens];

  LLMC_INLINE void set(int offset, const Quantized& x, size_t s, size_t block_count, size_t token,
                       size_t count) {
    for (size_t b = 0; b < block_count; b += 2) {
      const int16_t* sums = x.sums + ((s * kBlocksPerSuper + b) / 2 * x.tokens + token) * 2;
      for (size_t t = 0; t < count; ++t) {
        blocks[b][t] = -offset * sums[t * 2];
        blocks[b + 1][t] = -offset * sums[t * 2 + 1];
      }
    }
  }
};

/// Adds the initial values of a block, one for each token, to the sums; with kFirst, sets the sums
/// to them.
template <class V, bool kFirst, size_t kTokens, class Int>
LLMC_INLINE void start_block(Int (&sum)[kTokens][V::kTileVectors], const int32_t* starts) {
#pragma clang loop unroll(full)
  for (size_t t = 0; t < kTokens; ++t) {
    const Int start = V::splat4(starts + t);
#pragma clang loop unroll(full)
    for (size_t v = 0; v < V::kTileVectors; ++v)
      sum[t][v] = kFirst ? start : V::add(sum[t][v], start);
  }
}
/// Adds a superblock's parts, times the activations' scales, to rows[panel][token][8] from token
/// `t` on. If `first` is set, the rows are assumed to be zero.
template <class V, size_t kTokens, class Float>
LLMC_INLINE void add_parts(const Float (&part)[kTokens][V::kTileVectors], float* const* rows,
                           const float* scales, size_t t, bool first) {
#pragma clang loop unroll(full)
  for (size_t v = 0; v < V::kTileVectors; ++v) {
    float* const* y = rows + v * V::kPanels;
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kTokens; ++i) {
      const size_t at = (t + i) * kPanelRows;
      V::store_y(y, at, V::add_part(V::load_y(y, at, first), scales[t + i], part[i][v]));
    }
  }
}

template <class V, CodedFormat kFormat>
struct VnniCodes {
  static constexpr size_t kVectors = kPanelGroup / V::kPanels, kLanes = V::kPanels * kPanelRows;
  static constexpr size_t kStepBytes = kLanes * 4;  // 4 codes of each row
  static constexpr size_t kGroupBlocks = CodedShape<kFormat>::kGroupBlocks;
  static constexpr int kOffset = kVnniOffset<kFormat>;
  static constexpr size_t kTileVectors = V::kTileVectors;
  static_assert(kVectors % kTileVectors == 0, "panels are whole tiles");

  alignas(64) uint8_t codes[kVectors][kSuper / 4][kStepBytes];  // [k / 4][row][4]
  alignas(64) float scales[kVectors][kBlocksPerSuper][kLanes];  // of each group
  VnniStarts<kTokenStrip> starts;

  /// Unpacks a superblock of panel `p`. `lower` are its lower bits in a split format.
  LLMC_INLINE void unpack(size_t p, const uint8_t* super, const uint8_t* lower, size_t blocks) {
    constexpr size_t kBytes = coded_block_bytes(kFormat);
    const size_t v = p / V::kPanels, lane = p % V::kPanels * kPanelRows;
    for (size_t b = 0; b < blocks; ++b) {
      const uint8_t* block = super + b * kBytes;
      const auto put = [&](size_t step, Codes c) LLMC_INLINE_LAMBDA {
        store_codes(codes[v][b * 8 + step] + lane * 4, c);
      };
      unpack_block<kFormat, kFormat.bits == 8 ? -kOffset : 0>(block, lower_after<kFormat>(lower, b),
                                                              put);
    }
    const uint8_t* from = super + coded_scale_offset(kFormat, blocks);
    for (size_t g = 0; g < ceil_div(blocks, kGroupBlocks); ++g) {
      store(scales[v][g] + lane, coded_numbers<kFormat>(from));
      from += kPanelRows * coded_number_bytes(kFormat);
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
    a += t * kTokenBytes;
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
        start_block<V, kGroupBlocks == 1>(sum, group.starts.blocks[b] + t);
#pragma clang loop unroll(full)
        for (size_t q = 0; q < 8; ++q) {
          Int weights[kTileVectors];
#pragma clang loop unroll(full)
          for (size_t v = 0; v < kTileVectors; ++v) {
            weights[v] = V::load(codes + v * sizeof(group.codes[0]) + q * kStepBytes);
          }
          add_dots<V>(sum, weights, a + q * 4);
        }
        a = next_activations(a, b, block_stride);
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
    add_parts<V>(part, rows + first_vector * V::kPanels, scales, t, first);
  }

  /// Adds the products of the superblock with `count` tokens to rows[panel][token][8]. Also
  /// prefetches the superblock of each panel at `next`, a few lines per tile, because prefetches of
  /// all lines at once would have to wait for each other.
  LLMC_INLINE void multiply(const int8_t* a, size_t block_stride, const float* scale, size_t blocks,
                            size_t count, bool first, float* const* rows,
                            const uint8_t* const* next) const {
    constexpr size_t kLines = ceil_div(coded_super_bytes(kFormat, kBlocksPerSuper), kAlignment);
    each_strip_tile<kVnniByteTokens>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
      for (size_t line = kLines * t / count; line < kLines * (t + kTokens) / count; ++line) {
        for (size_t p = 0; p < kPanelGroup; ++p) prefetch(next[p] + line * kAlignment);
      }
      for (size_t v = 0; v < kVectors; v += kTileVectors)
        tile<kTokens>(*this, v, a, block_stride, scale, blocks, t, first, rows);
    });
  }
};

/// Does the same as coded_panels_tokens() for panels of `k` columns. `k` is a function argument, so
/// that all matrices of a model in this format share the code.
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
      group.unpack(p, from + offset, lower_bits<kFormat>(from, k, s), blocks);
    }
    group.starts.set(kVnniOffset<kFormat>, x, s, blocks, token, count);
    group.multiply(activation_codes(x, s * kBlocksPerSuper, token),
                   x.tokens * kBlock * kActivationBlocks, x.scales + s * x.tokens + token, blocks,
                   count, s == 0, rows, next);
  }
}

/// Products of kStreams panels with few tokens (product_few.h).
template <class V, CodedFormat kFormat>
struct VnniFew {
  static constexpr size_t kVectors = kStreams / V::kPanels, kTileVectors = V::kTileVectors;
  static constexpr size_t kGroupBlocks = CodedShape<kFormat>::kGroupBlocks;
  /// Number of bytes of a superblock to prefetch while one block is processed.
  static constexpr size_t kFetchBytes =
      ceil_div(coded_super_bytes(kFormat, kBlocksPerSuper), kBlocksPerSuper);

  const uint8_t *supers[kStreams], *next[kStreams];
  const uint8_t *lower[kStreams], *next_lower[kStreams];  // of a split format
  VnniStarts<kFewRows> starts;

  /// Loads the codes of a block for k = 8i to 8i + 3 and for k = 8i + 4 to 8i + 7.
  template <class Int>
  static LLMC_INLINE void load_codes(const uint8_t* const* blocks, const uint8_t* const* lower,
                                     size_t i, Int& first, Int& second) {
    const auto load_from = [](const uint8_t* const* from, size_t offset) LLMC_INLINE_LAMBDA {
      const uint8_t* rows[V::kPanels];
      for (size_t p = 0; p < V::kPanels; ++p) rows[p] = from[p] + offset;
      return V::load_rows(rows);
    };
    const auto at = [&](size_t offset) LLMC_INLINE_LAMBDA { return load_from(blocks, offset); };
    if constexpr (kFormat.bits == 8) {
      first = V::template plus<kVnniOffset<kFormat>>(at(i * 64));
      second = V::template plus<kVnniOffset<kFormat>>(at(i * 64 + 32));
    } else if constexpr (kFormat.split) {
      const Int packed = at(i * 32), two = load_from(lower, i / 2 * 32);
      first = i % 2 == 0 ? V::template with_lower<0>(packed, two)
                         : V::template with_lower<2>(packed, two);
      second = i % 2 == 0 ? V::template with_lower<1>(packed, two)
                          : V::template with_lower<3>(packed, two);
    } else {
      const Int packed = at(i * 32), upper = at(kSixLowerBytes + i / 2 * 32);
      const Int low = V::low(packed), high = V::high(packed);
      first = i % 2 == 0 ? V::template with_upper<0>(low, upper)
                         : V::template with_upper<2>(low, upper);
      second = i % 2 == 0 ? V::template with_upper<1>(high, upper)
                          : V::template with_upper<3>(high, upper);
    }
  }

  /// Does the same as VnniCodes::tile(), from packed codes.
  template <size_t kTokens>
  static LLMC_NOINLINE void tile(const VnniFew& few, size_t first_vector, const int8_t* a,
                                 size_t block_stride, const float* scales, size_t blocks, size_t t,
                                 bool first, float* const* rows) {
    using Int = decltype(V::zero());
    using Float = decltype(V::load_floats(nullptr));
    constexpr size_t kTilePanels = kTileVectors * V::kPanels;
    Float part[kTokens][kTileVectors];
    for (auto& token : part) {
      for (Float& p : token) p = V::load_y(rows, 0, true);
    }
    a += t * kTokenBytes;
    const uint8_t *codes[kTilePanels], *numbers[kTilePanels], *next[kTilePanels];
    const uint8_t *lower[kTilePanels], *next_lower[kTilePanels];
    for (size_t p = 0; p < kTilePanels; ++p) {
      codes[p] = few.supers[first_vector * V::kPanels + p];
      numbers[p] = codes[p] + coded_scale_offset(kFormat, blocks);
      next[p] = few.next[first_vector * V::kPanels + p];
      lower[p] = few.lower[first_vector * V::kPanels + p];
      next_lower[p] = few.next_lower[first_vector * V::kPanels + p];
    }
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks;) {
      Int sum[kTokens][kTileVectors];
      for (auto& token : sum) {
        for (Int& s : token) s = V::zero();
      }
      const size_t end = blocks - b < kGroupBlocks ? blocks : b + kGroupBlocks;
#pragma clang loop unroll(disable)
      for (; b < end; ++b) {
#pragma clang loop unroll(full)
        for (size_t p = 0; p < kTilePanels; ++p) {
          for (size_t i = 0; i < kFetchBytes; i += kAlignment) prefetch_weights(next[p] + i);
          next[p] += kFetchBytes;
          if constexpr (kFormat.split) {
            prefetch_weights(next_lower[p]);
            next_lower[p] += kSplitLowerBytes;
          }
        }
        start_block<V, kGroupBlocks == 1>(sum, few.starts.blocks[b] + t);
#pragma clang loop unroll(full)
        for (size_t q = 0; q < 4; ++q) {
          Int weights[2][kTileVectors];
#pragma clang loop unroll(full)
          for (size_t v = 0; v < kTileVectors; ++v)
            load_codes(codes + v * V::kPanels, lower + v * V::kPanels, q, weights[0][v],
                       weights[1][v]);
          add_dots<V>(sum, weights[0], a + q * 8);
          add_dots<V>(sum, weights[1], a + q * 8 + 4);
        }
        for (size_t p = 0; p < kTilePanels; ++p) {
          codes[p] += coded_block_bytes(kFormat);
          if constexpr (kFormat.split) lower[p] += kSplitLowerBytes;
        }
        a = next_activations(a, b, block_stride);
      }
#pragma clang loop unroll(full)
      for (size_t v = 0; v < kTileVectors; ++v) {
        F32x8 scale[V::kPanels];
        for (size_t p = 0; p < V::kPanels; ++p) {
          scale[p] = coded_numbers<kFormat>(numbers[v * V::kPanels + p]);
          numbers[v * V::kPanels + p] += kPanelRows * coded_number_bytes(kFormat);
        }
#pragma clang loop unroll(full)
        for (size_t i = 0; i < kTokens; ++i) {
          part[i][v] = V::add_products(part[i][v], V::join(scale), sum[i][v]);
        }
      }
    }
    add_parts<V>(part, rows + first_vector * V::kPanels, scales, t, first);
  }
};

/// Does the same as few_products() (product_few.h) for these formats.
template <class V, CodedFormat kFormat>
LLMC_NOINLINE inline void vnni_codes_few(const PanelStreams streams, size_t k, const Quantized x,
                                         size_t token, size_t count, float* y, size_t y_stride) {
  using Few = VnniFew<V, kFormat>;
  const size_t panel_bytes = coded_panel_bytes(kFormat, k), supers = super_count(k);
  alignas(kAlignment) float spare[kFewRows * kPanelRows];
  float* rows[kStreams];
  for (size_t p = 0; p < kStreams; ++p) rows[p] = p < streams.count ? y + p * y_stride : spare;
  Few few;
  for (size_t s = 0; s < supers; ++s) {
    const size_t offset = coded_super_offset(kFormat, s), blocks = blocks_in_super(k, s);
    const StreamPlace ahead = stream_place(s + kFewSupersAhead, supers);
    for (size_t p = 0; p < kStreams; ++p) {
      // Missing panels are replaced by the last one, whose extra results are ignored.
      const uint8_t* from = streams.panel(p < streams.count ? p : streams.count - 1);
      few.supers[p] = from + offset;
      few.next[p] = from + ahead.panels * panel_bytes + coded_super_offset(kFormat, ahead.super);
      few.lower[p] = lower_bits<kFormat>(from, k, s);
      few.next_lower[p] = lower_bits<kFormat>(from + ahead.panels * panel_bytes, k, ahead.super);
    }
    few.starts.set(kVnniOffset<kFormat>, x, s, blocks, token, count);
    each_few_tile<kVnniByteTokens>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
      for (size_t v = 0; v < Few::kVectors; v += Few::kTileVectors) {
        Few::template tile<kTokens>(few, v, activation_codes(x, s * kBlocksPerSuper, token),
                                    x.tokens * kBlock * kActivationBlocks,
                                    x.scales + s * x.tokens + token, blocks, t, s == 0, rows);
      }
    });
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
