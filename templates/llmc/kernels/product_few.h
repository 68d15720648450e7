#pragma once

#include "llmc/kernels/product_coded_vnni.h"
#include "llmc/kernels/product_q4_exact.h"
#include "llmc/kernels/token_tiles.h"

/// Products of quantized weights with few tokens, 2 to kFewLimit: decode steps of a batch, and
/// drafts of speculative decoding. Weights are read as with one token: as a few long streams, with
/// software prefetch. Codes are unpacked in registers for a tile of up to kFewTokens tokens
/// (kVnniByteTokens with kVnniCodes), because storing unpacked codes costs as much as two tokens.
/// The arithmetic is the same as in product_q4.h and product_coded.h.
namespace llmc {
inline namespace LLMC_ISA {

static_assert((kFewTokens == 0) == (kFewLimit == 0), "a target has both or neither");
static_assert(kFewTokens == 0 || (kFewTokens > 2 && kActivationTokens == 1),
              "tiles of two leave one of three tokens; activations are those of tokens alone");
static_assert(kFewLimit <= kFewRows, "buffers of results are too small");

/// Computes sum_k c a of one block for kTokens tokens from packed nibbles; with kVectors = 2, of
/// half a block from k = `at` on.
template <size_t kTokens, size_t kVectors = 4>
LLMC_INLINE void q4_block_few(const uint8_t* block, const int8_t* a, size_t at,
                              BlockSum (&sum)[kTokens]) {
#pragma clang loop unroll(full)
  for (size_t v = 0; v < kVectors; ++v) {
    if (v % 2 == 0) prefetch_weights(block + v * 32 + kFewAhead);
    const Codes both = load_codes(block + v * 32), low = low_nibbles(both);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      const Activation4 four = load_activation(a, activation_offset(1, t, at + v * 8));
      sum[t] = v == 0 ? mul_u4(low, four) : mac_u4(sum[t], low, four);
    }
    const Codes high = high_nibbles(both);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      const Activation4 four = load_activation(a, activation_offset(1, t, at + v * 8 + 4));
      sum[t] = mac_u4(sum[t], high, four);
    }
  }
}

/// Products of q4 superblocks, for few_products().
struct Q4Few {
  /// Adds the products of superblock `s` of one panel with kTokens tokens from `token` on to
  /// y[token][8].
  template <size_t kTokens>
  static LLMC_INLINE void multiply(const uint8_t* panel, size_t k, size_t s, const Quantized& x,
                                   size_t token, float* y) {
    const size_t blocks = blocks_in_super(k, s);
    const uint8_t* super = panel + q4_super_offset(s);
    const uint8_t* scales = super + q4_scale_offset(blocks);
    const uint8_t* mins = super + q4_min_offset(blocks);
    I32x8 i1[kTokens], i2[kTokens];
    for (size_t t = 0; t < kTokens; ++t) i1[t] = zero_i32();
    const auto add_block = [&](size_t b, BlockScale scale) LLMC_INLINE_LAMBDA {
      BlockSum sum[kTokens];
      q4_block_few(super + b * kQ4BlockCodeBytes,
                   activation_codes(x, s * kBlocksPerSuper + b, token), 0, sum);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) i1[t] = add_scaled(i1[t], sum[t], scale);
    };
    const auto scales_at = [&](size_t b) LLMC_INLINE_LAMBDA {
      return load_scale_pair(scales + b / 2 * kPanelRows);
    };
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks; b += 2) {
      add_block(b, even_scale(scales_at(b)));
      if (b + 1 < blocks) add_block(b + 1, odd_scale(scales_at(b)));
    }

    for (size_t t = 0; t < kTokens; ++t) i2[t] = zero_i32();
    const int16_t* sums = x.sums + (s * (kBlocksPerSuper / 2) * x.tokens + token) * 2;
#pragma clang loop unroll(disable)
    for (size_t pair = 0; pair < ceil_div(blocks, 2); ++pair, sums += x.tokens * 2) {
      const PairMin min = q4_min_pair(mins, blocks, pair);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) i2[t] = add_mins(i2[t], min, sums + t * 2);
    }
    const Q4Fold fold = q4_fold(panel);
    const float* activation_scales = x.scales + s * x.tokens + token;
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      float* out = y + t * kPanelRows;
      store(out, fold(load(out), activation_scales[t], i1[t], i2[t]));
    }
  }
};

/// Sums over a group, with the interface of CodedSums (product_coded.h), from packed codes.
template <CodedFormat kFormat, size_t kTokens>
struct PackedSums {
  static constexpr size_t kBlockBytes = coded_block_bytes(kFormat);
  static constexpr bool kCentred = false;
  I32x8 sum[kTokens];

  LLMC_INLINE void begin() {
    for (size_t t = 0; t < kTokens; ++t) sum[t] = zero_i32();
  }
  LLMC_INLINE void add(const uint8_t* codes, const uint8_t* lower, const int8_t* a, size_t at) {
    if constexpr (CodedShape<kFormat>::kNibbles) {
      BlockSum part[kTokens];
      q4_block_few<kTokens, CodedShape<kFormat>::kHalves ? 2 : 4>(codes, a, at, part);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) sum[t] = sum[t] + row_sums(part[t]);
    } else if constexpr (CodedShape<kFormat>::kSix) {
      add_six(codes, CodedShape<kFormat>::kSplit ? lower : codes + kSixLowerBytes, a);
    } else {
      constexpr size_t kHere = CodedShape<kFormat>::kHalves ? kBlockBytes / 2 : kBlockBytes;
      for (size_t i = 0; i < kHere; i += 64) prefetch_weights(codes + i + kFewAhead);
      coded_block_sums<kFormat>(codes, a, at, sum);
    }
  }
  LLMC_INLINE I32x8 rows(size_t t) const { return sum[t]; }

 private:
  /// Adds a 6-bit block. `two` are the two bits of each code that are stored apart from the other
  /// four.
  LLMC_INLINE void add_six(const uint8_t* block, const uint8_t* two, const int8_t* a) {
    prefetch_weights(two + kFewAhead);
    const auto add_vector = [&]<size_t kVector>() LLMC_INLINE_LAMBDA {
      if (kVector % 2 == 0) prefetch_weights(block + kVector * 32 + kFewAhead);
      const Codes packed = load_codes(block + kVector * 32);
      const Codes rest = load_codes(two + kVector / 2 * 32);
      const Codes c = six_bits<kFormat, kVector, false>(packed, rest);
      const Codes d = six_bits<kFormat, kVector, true>(packed, rest);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) {
        sum[t] = dot_u6(sum[t], c, load_activation(a, activation_offset(1, t, kVector * 8)), d,
                        load_activation(a, activation_offset(1, t, kVector * 8 + 4)));
      }
    };
    add_vector.template operator()<0>();
    add_vector.template operator()<1>();
    add_vector.template operator()<2>();
    add_vector.template operator()<3>();
  }
};

/// Products of superblocks of coded weights, for few_products().
template <CodedFormat kFormat>
struct CodedFew {
  template <size_t kTokens>
  static LLMC_INLINE void multiply(const uint8_t* panel, size_t k, size_t s, const Quantized& x,
                                   size_t token, float* y) {
    const uint8_t* super = panel + coded_super_offset(kFormat, s);
    coded_super_tile<kFormat, kTokens, PackedSums<kFormat, kTokens>>(
        super, lower_bits<kFormat>(panel, k, s), super, blocks_in_super(k, s), x, s, token, y);
  }
};

/// Computes the products of at most kStreams panels of `k` columns with `count` tokens from `token`
/// on: y[stream][count][8], where streams are y_stride floats apart. `k` is a function argument, so
/// that all matrices of a format share the code.
template <class Few>
LLMC_NOINLINE inline void few_products(const PanelStreams streams, size_t k, const Quantized x,
                                       size_t token, size_t count, float* y, size_t y_stride) {
  for (size_t p = 0; p < streams.count; ++p) {
    for (size_t i = 0; i < count * kPanelRows; i += kPanelRows)
      store(y + p * y_stride + i, zero_f32());
  }
  for (size_t s = 0; s < super_count(k); ++s) {
    for (size_t p = 0; p < streams.count; ++p) {
      each_few_tile<kFewTokens>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
        Few::template multiply<kTokens>(streams.panel(p), k, s, x, token + t,
                                        y + p * y_stride + t * kPanelRows);
      });
    }
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
