#pragma once

#include "llmc/kernels/hadamard.h"

/// Quantization of activations for the integer products: per token and 256 elements of K
///
///     A = max |x| / 127,  a[k] = round(x[k] * (127 / max |x|)) to nearest even, in -127..127
///
/// If max |x| < 2^-96, A = 0 and a = 0, because the inverse might be infinite. If an x is infinite
/// or NaN, A = NaN and a = 0, because targets convert such x to different integers. The sum of a
/// over each block of 32 is stored, too, for mins and zero points of weights. For weights in the
/// Hadamard basis (quant/hadamard.h), x are the transformed elements, and A = max |x| / 127 * 2^-e.
namespace llmc {
inline namespace LLMC_ISA {

/// Quantized activations of `tokens` tokens. Layouts: codes [blocks][tokens][32], sums [pairs of
/// blocks][tokens][2], scales [superblocks][tokens]. For each block, the tokens of a tile are thus
/// adjacent in memory.
///
/// A SIMD header may select another layout of codes. With kActivationTokens > 1, tokens form groups
/// of this size (the last group of a strip may be smaller), and a block is divided into steps of
/// kActivationStep elements: [blocks][groups][32 / step][tokens of the group][step]. With
/// kActivationBlocks = 2, two blocks of a token are adjacent: [pairs of blocks][tokens][2][32].
struct Quantized {
  int8_t* codes;
  int16_t* sums;
  float* scales;
  size_t tokens;
};

/// Returns the arrays for `tokens` tokens in `area`, which has quantized_bytes(K, tokens) bytes.
template <size_t K>
LLMC_INLINE Quantized quantized_at(unsigned char* area, size_t tokens) {
  unsigned char* sums = area + activation_code_bytes(K, tokens);
  unsigned char* scales = sums + activation_sum_bytes(K, tokens);
  return {reinterpret_cast<int8_t*>(area), reinterpret_cast<int16_t*>(sums),
          reinterpret_cast<float*>(scales), tokens};
}

/// Returns the address of a block's codes for the group that begins with `token`: 32 codes for each
/// token of the group.
LLMC_INLINE int8_t* activation_codes(const Quantized& x, size_t block, size_t token) {
  const size_t inner = block % kActivationBlocks;
  return x.codes + ((block - inner) * x.tokens + token * kActivationBlocks + inner) * kBlock;
}

static_assert(kActivationTokens == 1 ||
                  (kTokenTile == kActivationTokens && kByteTile == kActivationTokens),
              "a tile is a group");
static_assert(kBlock % kActivationStep == 0 && (kActivationTokens > 1 || kActivationStep == kBlock),
              "a token alone has its 32 k together");
static_assert(kActivationBlocks == 1 || (kActivationBlocks == 2 && kActivationTokens == 1),
              "pairs of blocks are of a token alone");

/// Returns the offset of element k of token t in a block of a group of `width` tokens.
constexpr size_t activation_offset(size_t width, size_t t, size_t k) {
  return (k / kActivationStep * width + t) * kActivationStep * kActivationBlocks +
         k % kActivationStep;
}
/// First token and number of tokens of the group that contains a token.
struct ActivationPlace {
  size_t first, width;
};
constexpr ActivationPlace activation_place(size_t token, size_t tokens) {
  const size_t first = token - token % kTokenStrip % kActivationTokens;
  size_t end = token - token % kTokenStrip + kTokenStrip;
  end = tokens < end ? tokens : end;
  return {first, end - first < kActivationTokens ? end - first : kActivationTokens};
}

inline constexpr float kSmallestMagnitude = 0x1p-96f;

/// Stores the 32 codes of a block for one token.
LLMC_INLINE void store_activation(const Quantized& out, size_t block, size_t token,
                                  const int8_t* codes) {
  const ActivationPlace place = activation_place(token, out.tokens);
  int8_t* group = activation_codes(out, block, place.first);
  for (size_t k = 0; k < kBlock; k += kActivationStep) {
    __builtin_memcpy(group + activation_offset(place.width, token - place.first, k), codes + k,
                     kActivationStep);
  }
}
LLMC_INLINE void store_activation(const Quantized& out, size_t block, size_t token,
                                  const I32x8 (&part)[4]) {
  if constexpr (kActivationTokens == 1) {
    store_i8(activation_codes(out, block, token), part[0], part[1], part[2], part[3]);
  } else {
    int8_t codes[kBlock];
    store_i8(codes, part[0], part[1], part[2], part[3]);
    store_activation(out, block, token, codes);
  }
}

/// Quantizes superblock `super` of row `token`. load(k) returns elements k to k + 7 of the row. The
/// activation scale is multiplied by `scale`.
template <size_t K, class Load>
LLMC_INLINE void quantize_super(const Load& load, size_t super, float scale, const Quantized& out,
                                size_t token) {
  const size_t begin = super * kSuper;
  const size_t blocks = blocks_in_super(K, super);
  // The bits of non-negative floats have the same order as integers, with NaN on top.
  I32x8 largest = zero_i32();
  for (size_t i = begin; i < begin + blocks * kBlock && i < K; i += 8) {
    largest = max_i32(largest, bits(load(i)) & splat_i32(0x7fffffff));
  }
  const float magnitude = bits_float(static_cast<uint32_t>(reduce_max_i32(largest)));
  const bool finite = float_bits(magnitude) < 0x7f800000u;
  const bool empty = magnitude < kSmallestMagnitude;
  out.scales[super * out.tokens + token] = !finite ? bits_float(0x7fc00000u)
                                           : empty ? 0.0f
                                                   : magnitude / 127.0f * scale;
  const F32x8 inverse = splat(empty ? 0.0f : 127.0f / magnitude);
  for (size_t b = 0; b < blocks; ++b) {
    const size_t block = super * kBlocksPerSuper + b;
    I32x8 part[4];
    for (size_t i = 0; i < 4; ++i) {
      const size_t k = block * kBlock + 8 * i;
      part[i] = k < K && finite ? round_to_i32(load(k) * inverse) : zero_i32();
    }
    store_activation(out, block, token, part);
    const int32_t sum = reduce_add_i32((part[0] + part[1]) + (part[2] + part[3]));
    int16_t* pair = out.sums + ((block / 2) * out.tokens + token) * 2;
    pair[block % 2] = static_cast<int16_t>(sum);
    if (block + 1 == block_count(K) && block % 2 == 0) pair[1] = 0;
  }
}

/// Quantizes superblocks [first, end) in the Hadamard basis. Their groups have n elements.
template <size_t K, size_t n>
LLMC_INLINE void quantize_transformed(const float* x, size_t first, size_t end,
                                      const Quantized& out, size_t token) {
  alignas(kAlignment) float transformed[kSuper];
  for (size_t super = first; super < end; ++super) {
    const size_t begin = super * kSuper;
    for (size_t k = begin; k < begin + kSuper && k < K; k += n)
      hadamard<n>(x + k, transformed + (k - begin));
    const auto at = [&](size_t k) LLMC_INLINE_LAMBDA { return load(transformed + (k - begin)); };
    quantize_super<K>(at, super, hadamard_scale(n), out, token);
  }
}

/// Quantizes x f32[K] to row `token`, in the basis of the weights.
template <size_t K, Basis kBasis = Basis::kPlain>
LLMC_INLINE void quantize_row(const float* x, const Quantized& out, size_t token) {
  constexpr size_t kSupers = super_count(K), kLast = hadamard_size(K, kSupers - 1);
  constexpr size_t kFull = kBasis == Basis::kPlain ? 0 : kLast == kSuper ? kSupers : kSupers - 1;
  if constexpr (kFull > 0) quantize_transformed<K, kSuper>(x, 0, kFull, out, token);
  if constexpr (kFull < kSupers && kBasis == Basis::kHadamard && kLast > 1) {
    quantize_transformed<K, kLast>(x, kFull, kSupers, out, token);
  } else {
    const auto at = [&](size_t k) LLMC_INLINE_LAMBDA { return load_row<K>(x, k); };
    for (size_t super = kFull; super < kSupers; ++super)
      quantize_super<K>(at, super, 1.0f, out, token);
  }
}

/// Quantizes x f32[tokens][K] to rows of quantized_bytes(K, 1) bytes. Each row has the layout of a
/// single token, which is the same on every target.
template <size_t K, Basis kBasis = Basis::kPlain>
inline void quantize_rows(const KernelContext& context, const float* x, uint8_t* rows) {
  for_each_token(context, [=](size_t t) {
    quantize_row<K, kBasis>(x + t * K, quantized_at<K>(rows + t * quantized_bytes(K, 1), 1), 0);
  });
}

/// Copies a row that quantize_rows() has written to row `token` of `out`.
template <size_t K>
LLMC_INLINE void copy_quantized_row(const uint8_t* row, const Quantized& out, size_t token) {
  const auto* codes = reinterpret_cast<const int8_t*>(row);
  const uint8_t* sums = row + activation_code_bytes(K, 1);
  const uint8_t* scales = sums + activation_sum_bytes(K, 1);
  for (size_t block = 0; block < block_count(K); ++block)
    store_activation(out, block, token, codes + block * kBlock);
  for (size_t pair = 0; pair < ceil_div(block_count(K), 2); ++pair) {
    __builtin_memcpy(out.sums + (pair * out.tokens + token) * 2, sums + pair * 4, 4);
  }
  for (size_t super = 0; super < super_count(K); ++super) {
    __builtin_memcpy(out.scales + super * out.tokens + token, scales + super * 4, 4);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
