#pragma once

#include "llmc/kernels/quantize.h"
#include "llmc/kernels/token_tiles.h"

/// Products of panels (8 rows) of q4 weights with quantized activations:
///
///     y[t][r] = sum over superblocks of A[t] * (S[r] * I1 + M[r] * I2)
///     I1 = sum_b s[r][b] * sum_k c[r][k] a[t][k],   I2 = sum_b m[r][b] * sum_k a[t][k]
///
/// I1 and I2 are exact, also as floats (|I1| <= 256 * 225 * 127 < 2^23, |I2| <= 8 * 255 * 4064 <
/// 2^23). Rounding occurs only when a superblock is accumulated: acc = fma(A, fma(S, float(I1), M *
/// float(I2)), acc).
namespace llmc {
inline namespace LLMC_ISA {

struct Q4Fold {
  F32x8 scale, min;
  LLMC_INLINE F32x8 operator()(F32x8 sum, float activation_scale, I32x8 i1, I32x8 i2) const {
    return fma(splat(activation_scale), fma(scale, to_f32(i1), min * to_f32(i2)), sum);
  }
};
LLMC_INLINE Q4Fold q4_fold(const uint8_t* panel) {
  return {load_bf16(panel), load_bf16(panel + kPanelRows * sizeof(uint16_t))};
}

/// Panels that are read concurrently: `count`, at most kStreams, at a distance of `stride` bytes.
struct PanelStreams {
  const uint8_t* first;
  size_t stride, count;
  LLMC_INLINE const uint8_t* panel(size_t i) const { return first + i * stride; }
};

/// Position of a superblock in a stream: superblock `super` of the panel that comes `panels` panels
/// after the current one.
struct StreamPlace {
  size_t panels, super;
};
/// Returns the position of superblock `super`, counted from the first one of the current panel. A
/// panel has `supers` superblocks.
LLMC_INLINE StreamPlace stream_place(size_t super, size_t supers) {
  return {super / supers, super % supers};
}

/// Returns the mins of blocks 2*pair and 2*pair + 1 of a superblock. The second block may be
/// absent.
LLMC_INLINE PairMin q4_min_pair(const uint8_t* mins, size_t blocks, size_t pair) {
  const uint8_t* at = mins + pair * 2 * kPanelRows;
  return 2 * pair + 1 < blocks ? load_min_pair(at) : load_min_single(at);
}

/// Computes sum_k c a of one block of each stream from packed nibbles. `a` are the block's 32
/// activations. With kVectors = 2, processes half a block.
template <size_t kPanels, bool kFar, size_t kVectors = 4>
LLMC_INLINE void q4_block_gemv(const uint8_t* block, size_t stride, const int8_t* a,
                               BlockSum (&sum)[kPanels]) {
#pragma clang loop unroll(full)
  for (size_t v = 0; v < kVectors; ++v) {
    const Activation4 low = load_activation(a, v * 8), high = load_activation(a, v * 8 + 4);
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) {
      const uint8_t* at = block + p * stride + v * 32;
      if (v % 2 == 0) prefetch_weights<kFar>(at + kPrefetchAhead);
      const Codes both = load_codes(at);
      sum[p] = v == 0 ? mul_u4(low_nibbles(both), low) : mac_u4(sum[p], low_nibbles(both), low);
      sum[p] = mac_u4(sum[p], high_nibbles(both), high);
    }
  }
}

/// Adds the products of one token with superblock `s` of kPanels panels, `stride` bytes apart, to
/// sum[panels].
template <size_t K, size_t kBlocks, size_t kPanels>
LLMC_INLINE void q4_super_gemv(const uint8_t* panel, size_t stride, size_t s, const Quantized& x,
                               F32x8 (&sum)[kPanels]) {
  const uint8_t* super = panel + q4_super_offset(s);
  const uint8_t* scales = super + q4_scale_offset(kBlocks);
  const uint8_t* mins = super + q4_min_offset(kBlocks);
  const int8_t* a = x.codes + s * kSuper;
  const int16_t* sums = x.sums + s * kBlocksPerSuper;
  I32x8 i1[kPanels];
  for (size_t p = 0; p < kPanels; ++p) i1[p] = zero_i32();
  BlockSum block_sum[kPanels];
#pragma clang loop unroll(disable)
  for (size_t pair = 0; pair < ceil_div(kBlocks, 2); ++pair) {
    const uint8_t* block = super + pair * 2 * kQ4BlockCodeBytes;
    const uint8_t* scale = scales + pair * kPanelRows;
    q4_block_gemv<kPanels, prefetches_far(K)>(block, stride, a, block_sum);
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) {
      i1[p] = add_scaled(i1[p], block_sum[p], even_scale(load_scale_pair(scale + p * stride)));
    }
    if (kBlocks % 2 == 0 || pair < kBlocks / 2) {
      q4_block_gemv<kPanels, prefetches_far(K)>(block + kQ4BlockCodeBytes, stride, a + kBlock,
                                                block_sum);
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPanels; ++p) {
        i1[p] = add_scaled(i1[p], block_sum[p], odd_scale(load_scale_pair(scale + p * stride)));
      }
    }
    a += 2 * kBlock;
  }
#pragma clang loop unroll(full)
  for (size_t p = 0; p < kPanels; ++p) {
    I32x8 i2 = zero_i32();
#pragma clang loop unroll(full)
    for (size_t pair = 0; pair < ceil_div(kBlocks, 2); ++pair) {
      i2 = add_mins(i2, q4_min_pair(mins + p * stride, kBlocks, pair), sums + 2 * pair);
    }
    prefetch_numbers<q4_super_bytes(kBlocks) - q4_scale_offset(kBlocks), prefetches_far(K)>(
        scales + p * stride);
    sum[p] = q4_fold(panel + p * stride)(sum[p], x.scales[s], i1[p], i2);
  }
}

/// Computes the products of one token with kPanels panels at a distance of `stride` bytes. The
/// results of panels are `y_stride` floats apart. The panels are read concurrently, because several
/// streams have a higher memory bandwidth than one, and they share the activations.
template <size_t K, size_t kPanels>
LLMC_NOINLINE inline void q4_panels_gemv(const uint8_t* panel, size_t stride, const Quantized x,
                                         float* y, size_t y_stride) {
  constexpr size_t kFull = block_count(K) / kBlocksPerSuper;
  constexpr size_t kRest = block_count(K) % kBlocksPerSuper;
  F32x8 sum[kPanels];
  for (size_t p = 0; p < kPanels; ++p) sum[p] = zero_f32();
  for (size_t s = 0; s < kFull; ++s) {
    q4_super_gemv<K, kBlocksPerSuper, kPanels>(panel, stride, s, x, sum);
  }
  if constexpr (kRest != 0) q4_super_gemv<K, kRest, kPanels>(panel, stride, kFull, x, sum);
  for (size_t p = 0; p < kPanels; ++p) store(y + p * y_stride, sum[p]);
}

/// A superblock's codes, one byte each: [block][8][8 rows][4 k].
struct alignas(64) UnpackedCodes {
  uint8_t codes[kBlocksPerSuper * kPanelRows * kBlock];
};
/// Unpacks a superblock, and prefetches the superblock at `next`. With kCentred, subtracts 8 from
/// the codes.
template <bool kCentred = false>
LLMC_INLINE void q4_unpack(const uint8_t* super, size_t blocks, const uint8_t* next,
                           UnpackedCodes& out) {
  for (size_t v = 0; v < blocks * 4; ++v) {
    const Codes both = load_codes(super + v * 32);
    if (v % 2 == 0) prefetch(next + v * 32);
    Codes low = low_nibbles(both), high = high_nibbles(both);
    if constexpr (kCentred) {
      low = centred<kZeroPoint4>(low);
      high = centred<kZeroPoint4>(high);
    }
    store_codes(out.codes + v * 64, low);
    store_codes(out.codes + v * 64 + 32, high);
  }
  prefetch(next + q4_scale_offset(kBlocksPerSuper));
  prefetch(next + q4_scale_offset(kBlocksPerSuper) + 64);
}

/// Computes sum_k c a of one block for a tile of kTokens tokens and kPanels panels, whose codes are
/// `stride` bytes apart.
template <size_t kPanels, size_t kTokens>
LLMC_INLINE void q4_block_sums(const uint8_t* codes, size_t stride, const int8_t* a,
                               BlockSum (&sum)[kPanels][kTokens]) {
#pragma clang loop unroll(full)
  for (size_t v = 0; v < kBlock / 4; ++v) {
    Codes c[kPanels];
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) c[p] = load_codes(codes + p * stride + v * 32);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      const Activation4 four = load_activation(a, activation_offset(kTokens, t, v * 4));
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPanels; ++p) {
        sum[p][t] = v == 0 ? mul_u4(c[p], four) : mac_u4(sum[p][t], c[p], four);
      }
    }
  }
}
template <size_t kPanels, size_t kTokens>
LLMC_INLINE void q4_add_scaled(I32x8 (&total)[kPanels][kTokens],
                               const BlockSum (&sum)[kPanels][kTokens],
                               const BlockScale (&scale)[kPanels]) {
#pragma clang loop unroll(full)
  for (size_t p = 0; p < kPanels; ++p) {
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) total[p][t] = add_scaled(total[p][t], sum[p][t], scale[p]);
  }
}

/// Adds the products of one superblock of kPanels panels with kTokens tokens from `token` on to
/// y[panels][token][8], where panels are y_stride floats apart. `panel` is the first panel, and
/// `unpacked` contains the codes of the superblocks.
template <size_t K, size_t kPanels, size_t kTokens>
LLMC_INLINE void q4_super_tile(const UnpackedCodes* unpacked, const uint8_t* panel, size_t blocks,
                               const Quantized& x, size_t s, size_t token, float* y,
                               size_t y_stride) {
  constexpr size_t kPanelBytes = q4_panel_bytes(K);
  const uint8_t* super = panel + q4_super_offset(s);
  const uint8_t* scales = super + q4_scale_offset(blocks);
  const uint8_t* mins = super + q4_min_offset(blocks);
  const uint8_t* codes = unpacked[0].codes;
  const size_t stride = x.tokens * kBlock;
  const int8_t* a = x.codes + (s * kBlocksPerSuper * x.tokens + token) * kBlock;
  I32x8 i1[kPanels][kTokens];
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t t = 0; t < kTokens; ++t) i1[p][t] = zero_i32();
  }
  BlockSum sum[kPanels][kTokens];
  BlockScale scale[kPanels];
  for (size_t pair = 0; pair < blocks / 2; ++pair) {
    const uint8_t* two = scales + pair * kPanelRows;
    q4_block_sums(codes, sizeof(UnpackedCodes), a, sum);
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) {
      scale[p] = even_scale(load_scale_pair(two + p * kPanelBytes));
    }
    q4_add_scaled(i1, sum, scale);
    q4_block_sums(codes + kPanelRows * kBlock, sizeof(UnpackedCodes), a + stride, sum);
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) {
      scale[p] = odd_scale(load_scale_pair(two + p * kPanelBytes));
    }
    q4_add_scaled(i1, sum, scale);
    codes += 2 * kPanelRows * kBlock;
    a += 2 * stride;
  }
  if (blocks % 2 != 0) {
    q4_block_sums(codes, sizeof(UnpackedCodes), a, sum);
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) {
      scale[p] = even_scale(load_scale_pair(scales + blocks / 2 * kPanelRows + p * kPanelBytes));
    }
    q4_add_scaled(i1, sum, scale);
  }

  const float* activation_scales = x.scales + s * x.tokens + token;
#pragma clang loop unroll(full)
  for (size_t p = 0; p < kPanels; ++p) {
    I32x8 i2[kTokens];
    for (size_t t = 0; t < kTokens; ++t) i2[t] = zero_i32();
    const int16_t* sums = x.sums + (s * (kBlocksPerSuper / 2) * x.tokens + token) * 2;
    for (size_t pair = 0; pair < ceil_div(blocks, 2); ++pair, sums += x.tokens * 2) {
      const PairMin min = q4_min_pair(mins + p * kPanelBytes, blocks, pair);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) i2[t] = add_mins(i2[t], min, sums + t * 2);
    }
    const Q4Fold fold = q4_fold(panel + p * kPanelBytes);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      float* out = y + p * y_stride + t * kPanelRows;
      store(out, fold(load(out), activation_scales[t], i1[p][t], i2[t]));
    }
  }
}

/// Computes y[panels][count][8] for up to kPanelGroup consecutive panels and the tokens [token,
/// token + count). A tile of activations is used for the same superblock of all panels while it is
/// in the L1 cache.
template <size_t K>
LLMC_NOINLINE inline void q4_panels_tokens(const uint8_t* panel, size_t panels, const Quantized x,
                                           size_t token, size_t count, float* y) {
  constexpr size_t kPanelBytes = q4_panel_bytes(K);
  const size_t y_stride = count * kPanelRows;
  for (size_t i = 0; i < panels * y_stride; i += kPanelRows) store(y + i, zero_f32());
  UnpackedCodes unpacked[kPanelGroup];
  for (size_t s = 0; s < super_count(K); ++s) {
    const uint8_t* super = panel + q4_super_offset(s);
    const size_t blocks = blocks_in_super(K, s);
    const uint8_t* next =
        s + 1 < super_count(K) ? panel + q4_super_offset(s + 1) : panel + kPanelGroup * kPanelBytes;
    for (size_t p = 0; p < panels; ++p) {
      q4_unpack(super + p * kPanelBytes, blocks, next + p * kPanelBytes, unpacked[p]);
    }
    each_strip_tile<kTokenTile>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
      float* const out = y + t * kPanelRows;
      size_t p = 0;
      for (; p + kPanelTile <= panels; p += kPanelTile) {
        q4_super_tile<K, kPanelTile, kTokens>(unpacked + p, panel + p * kPanelBytes, blocks, x, s,
                                              token + t, out + p * y_stride, y_stride);
      }
      for (; kPanelTile > 1 && p < panels; ++p) {
        q4_super_tile<K, 1, kTokens>(unpacked + p, panel + p * kPanelBytes, blocks, x, s, token + t,
                                     out + p * y_stride, y_stride);
      }
    });
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
