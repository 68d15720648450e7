#pragma once

/// The SIMD operations that the shared kernels use. LLMC_TARGET is the name of the header that
/// defines them in `namespace llmc { inline namespace LLMC_ISA {` (docs/adding-a-target.md).
/// Vectors have 8 lanes of 32 bits on every target: the rows of a weight panel, the tokens of a
/// group of keys, or the dims of a group of values. The arithmetic of a lane is therefore the same
/// sequence of operations on every target. simd/wide.h defines pairs of vectors; a header for wider
/// registers defines them itself (LLMC_F32X16).
///
/// F32x8     eight floats           operators + - * /, each correctly rounded
///   splat(x), zero_f32()
///   splat_at(p)                    splat(*p)
///   splat_lane(v, lane)            lane is a constant after inlining
///   load(p), store(p, v)           unaligned float*
///   load_partial(p, n)             first n (0..8) lanes, the others 0; reads nothing past p[n-1]
///   store_partial(p, v, n)
///   load_f16(p), load_bf16(p)      eight from an unaligned byte address, exact
///   store_f16(p, v)                eight, rounded to nearest even
///   load_e4m3(p)                   eight bytes as E4M3 (no NaN), divided by 2^8; exact
///   fma(a, b, c)                   a*b + c with one rounding
///   sqrt(a)                        correctly rounded
///   max(a, b), min(a, b)           a > b ? a : b, a < b ? a : b
///   less(a, b) -> Mask8            a < b, false for NaN
///   lanes_below(n) -> Mask8        lane < n
///   select(mask, a, b)             mask ? a : b
///   butterfly<d>(v)                d = 1, 2, 4: lanes i and i + d, for all i with (i & d) == 0,
///                                  become their sum and their difference
/// I32x8     eight 32-bit integers  operators + - (wrap), & |
///   splat_i32(x), zero_i32(), load_i32(p), store_i32(p, v)
///   shift_left<n>(v), shift_right_arithmetic<n>(v)
///   max_i32(a, b), reduce_add_i32(v)
///   to_f32(v)                      rounds to nearest even
///   upper_to_f32(v)                the upper 16 bits as a signed number
///   bits(F32x8) -> I32x8, from_bits(I32x8) -> F32x8
///   load_u8(p), load_i8(p)         eight unsigned or signed bytes, widened
/// Int8 products. A Codes is one vector of a weight block: 8 rows x 4 consecutive elements along K.
///   load_codes(p) -> Codes, store_codes(p, c)         32 bytes
///   low_nibbles(c), high_nibbles(c) -> Codes          codes 0..15
///   centred<m>(c) -> Codes                            each minus m
///   with_upper<j>(low, upper) -> Codes                low + 16 * bits 2j, 2j + 1 of upper
///   with_lower<j>(packed, lower) -> Codes             4 * nibble + bits 2j, 2j + 1 of lower; the
///                                                     nibble is the high one if j is odd
///   load_activation(p) -> Activation4                 4 consecutive i8, repeated for every row
///   load_activation(p, offset)                        at p + offset, where offset is a constant
///                                                     multiple of 4; may read all 16 bytes from
///                                                     p + offset / 16 * 16 on
///   BlockSum: sums of one block of 32 for each row, in a target-specific format
///     mul_u4(codes, a), mac_u4(sum, codes, a)         codes * a, sum + codes * a; a sum has at
///                                                     most 8 such products of codes 0..15, or
///                                                     2 of codes 0..63
///     optimization_barrier(sum)                       returns sum; prevents the compiler from
///                                                     reordering the sums of a tile
///   ScalePair load_scale_pair(p)                      8 bytes: two blocks' 4-bit scales
///   even_scale(pair), odd_scale(pair) -> BlockScale   low nibbles, high nibbles
///   add_scaled(total, sum, scale) -> I32x8            total + scale * sum, exact
///   row_sums(sum) -> I32x8                            the sums as 32-bit integers
///   PairMin load_min_pair(p)                          2 x 8 u8 mins, [row][2]
///   PairMin load_min_single(p)                        8 u8 mins, the second of each pair is 0
///   add_mins(total, mins, p) -> I32x8                 total + m0 * sum0 + m1 * sum1, p: i16[2]
///   dot_i8(total, codes, a) -> I32x8                  total + codes * a, codes -128..127
///   dot_u6(total, c, a, d, b) -> I32x8                total + c * a + d * b, codes 0..63; with
///                                                     kSignedCodes also -32..31
///   store_i8(p, a, b, c, d)                           32 values in -128..127 (saturated) as bytes
/// prefetch(p)                                         hint: load into all cache levels
/// prefetch_stream(p)                                  hint for a stream of weights that is read
///                                                     once; does nothing if the hardware
///                                                     prefetches streams
/// prefetch_tile(p)                                    hint for data that is read after several KB
///                                                     of other data: into the second-level cache
///                                                     on targets where that is faster
/// Constants. The tile sizes that `llmc tune` optimizes are in llmc/tiles/TARGET.h, which it
/// rewrites. The others are in the header of the target.
/// kTokenTile      tokens whose integer sums stay in registers together (at most 8)
/// kByteTile       the same for codes of 6 or 8 bits and, if kPanelTile is not 1, for coded 4-bit
///                 weights
/// kPanelTile      panels of a tile of kTokenTile tokens, which share each loaded activation
///                 (divides kPanelGroup)
/// kFloatTokens, kFloatPanels   the tile of f16 and f32 weights
/// kVnniTokens, kVnniVectors    the tile of q4 with simd/vnni_exact.h
/// kVnniByteTokens              tokens of its tile for 6- and 8-bit codes; 0 without kVnniCodes
/// kFewTokens      tokens of the tiles of kernels/product_few.h, at least 3; 0: that header is not
///                 used. With kVnniCodes, 6- and 8-bit codes use kVnniByteTokens instead
/// kFewLimit       maximum number of tokens for which product_few.h is used, at most kFewRows
///                 (sizes.h)
/// kAttentionSums  F32x8 sums that attention keeps in registers in addition to its operands
/// kAttentionRowTile    maximum query rows that share a load of keys or values: 6 or 12
/// kPrefetches     whether attention prefetches the next tile of keys and values (prefetch_tile())
/// kWeightStreams  panels that one token's product reads concurrently (at most kStreams, sizes.h)
/// kActivationTokens, kActivationStep   layout of quantized activations (kernels/quantize.h):
///                 groups of kActivationTokens tokens, in which kActivationStep (4, 8 or 32)
///                 elements of a token are contiguous. If kActivationTokens is greater than 1,
///                 kTokenTile and kByteTile have the same value
/// kActivationBlocks    number of blocks of 32 elements of a token that are adjacent: 1 or 2
/// kSignedCodes    whether mul_u4 and mac_u4 also accept signed codes
/// kByteCodes      whether dot_u6 also accepts codes 0..255 and is faster than dot_i8
/// kVnniCodes      whether 6- and 8-bit codes use kernels/product_coded_vnni.h if it supports their
///                 format
/// kExactPanels    whether products of q4 with several tokens use kernels/product_q4_exact.h with
///                 ExactPanels
/// kSquareTiles    whether products of coded weights also use ExactPanels' tiles, which are then
///                 matrix products

#include "llmc/target.h"

#if LLMC_OPT_LEVEL == 1
#include "llmc/simd/generic.h"
#else
#define LLMC_QUOTED(name) #name
#define LLMC_SIMD_HEADER(target) LLMC_QUOTED(target.h)
#include LLMC_SIMD_HEADER(LLMC_TARGET)
#endif

#include "llmc/simd/weight_prefetch.h"
#include "llmc/simd/wide.h"

namespace llmc {
inline namespace LLMC_ISA {

/// Whether kernels use tiles, which levels 1 and 2 do not.
inline constexpr bool kTiled = LLMC_OPT_LEVEL == 3;

/// Returns the sum of the lanes, in the same order on every target: adds the two halves of 8 lanes,
/// then those of 4, then of 2.
LLMC_INLINE float reduce_add(F32x8 v) {
  float lane[8];
  store(lane, v);
  const float a = lane[0] + lane[4], b = lane[1] + lane[5];
  const float c = lane[2] + lane[6], d = lane[3] + lane[7];
  return (a + c) + (b + d);
}
LLMC_INLINE float reduce_max(F32x8 v) {
  float lane[8];
  store(lane, v);
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  const float a = larger(lane[0], lane[4]), b = larger(lane[1], lane[5]);
  const float c = larger(lane[2], lane[6]), d = larger(lane[3], lane[7]);
  return larger(larger(a, c), larger(b, d));
}
LLMC_INLINE int32_t reduce_max_i32(I32x8 v) {
  int32_t lane[8];
  store_i32(lane, v);
  int32_t result = lane[0];
  for (int i = 1; i < 8; ++i) result = lane[i] > result ? lane[i] : result;
  return result;
}

}  // namespace LLMC_ISA
}  // namespace llmc
