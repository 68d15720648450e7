#pragma once

#include "llmc/kernels/product_q4.h"
#include "llmc/kernels/product_six.h"

/// Products of panels of coded weights (quant/coded.h; q8 is one of the formats) with quantized
/// activations:
///
///     y[t][r] = sum over superblocks of A[t] * part,   part = sum over groups of s * ( I - z * S )
///     I = sum_k c[r][k] a[t][k],   S = sum_k a[t][k]   over the group's k
///
/// I and S are exact, also as floats (256 * 255 * 127 < 2^23). In a superblock, part starts at 0,
/// and for each group in order, part = fma(s, fma(-z, float(S), float(I)), part). Then y = fma(A,
/// part, y). If z is an integer or absent, I - z * S is exact and may be computed in integers.
namespace llmc {
inline namespace LLMC_ISA {

struct ExactPanels;

/// Properties of a format: the relation of its groups to blocks of 32, and the offsets of its
/// codes.
template <CodedFormat kFormat>
struct CodedShape {
  static constexpr bool kNibbles = kFormat.bits == 4;
  static constexpr bool kSix = kFormat.bits == 6;
  static constexpr bool kSplit = kFormat.split;
  static constexpr bool kHalves = kFormat.block < kBlock;  // two groups per block
  static constexpr size_t kGroupBlocks = kHalves ? 1 : kFormat.block / kBlock;
  /// Whether sums of activations are needed: z is not 0, or stored codes have an offset.
  static constexpr bool kSums = kNibbles || kSix || kFormat.zero != CodedZero::kNone;
  /// Offset of stored codes in formats without zero points.
  static constexpr int kZeroPoint = kNibbles ? kZeroPoint4 : kSix ? kZeroPoint6 : 0;
  /// Whether unpacking subtracts that offset, so that no sums are needed.
  static constexpr bool kCentred =
      kSix ? kSquareTiles || kSignedCodes
           : kNibbles && kFormat.zero == CodedZero::kNone && kSignedCodes;
  /// Whether tiles of tokens add kZeroPoint8 to codes of 8 bits, so that these are unsigned
  /// factors.
  static constexpr bool kOffset = kFormat.bits == 8 && !kHalves && kByteCodes && !kSquareTiles;
  static_assert(kNibbles || kSix || kFormat.bits == 8);
  static_assert(!kSix || (!kHalves && kFormat.zero == CodedZero::kNone));
  static_assert(!kSplit || kSix);
};

/// Loads eight scales or float zero points.
template <CodedFormat kFormat>
LLMC_INLINE F32x8 coded_numbers(const uint8_t* p) {
  if constexpr (kFormat.scale == CodedScale::kF16) return load_f16(p);
  return load(reinterpret_cast<const float*>(p));
}

/// Returns float(I - z S). `sum` is the sum over the stored codes; with kCentred, over the codes
/// without their offset; with kOffset, over the stored codes plus kZeroPoint8. `s` is S, and
/// `zeros` are the zero points of the group.
template <CodedFormat kFormat, bool kCentred = false, bool kOffset = false>
LLMC_INLINE F32x8 coded_difference(I32x8 sum, F32x8 s, const uint8_t* zeros) {
  F32x8 i = to_f32(sum);
  if constexpr (kFormat.zero == CodedZero::kNone) {
    constexpr int kZeroPoint = kOffset ? kZeroPoint8 : CodedShape<kFormat>::kZeroPoint;
    if constexpr (kZeroPoint == 0 || kCentred) return i;
    return fma(splat(-static_cast<float>(kZeroPoint)), s, i);
  } else if constexpr (kFormat.zero == CodedZero::kInteger) {
    F32x8 z = to_f32(load_u8(zeros));
    if constexpr (kFormat.bits == 8 && !kOffset) z = z - splat(static_cast<float>(kZeroPoint8));
    return fma(zero_f32() - z, s, i);
  } else {
    if constexpr (kFormat.bits == 8 && !kOffset)
      i = fma(splat(static_cast<float>(kZeroPoint8)), s, i);
    return fma(zero_f32() - coded_numbers<kFormat>(zeros), s, i);
  }
}

/// Returns S of a group for token `token`: over `blocks` blocks from block `block` on, or over half
/// `half` (0 or 1) of block `block`.
template <CodedFormat kFormat>
LLMC_INLINE int32_t coded_activations(const Quantized& x, size_t token, size_t block, size_t blocks,
                                      size_t half) {
  int32_t sum = 0;
  if constexpr (CodedShape<kFormat>::kHalves) {
    const ActivationPlace place = activation_place(token, x.tokens);
    const int8_t* a = activation_codes(x, block, place.first);
    for (size_t i = 0; i < kFormat.block; ++i) {
      sum += a[activation_offset(place.width, token - place.first, half * kFormat.block + i)];
    }
  } else {
    for (size_t b = block; b < block + blocks; ++b) {
      sum += x.sums[((b / 2) * x.tokens + token) * 2 + b % 2];
    }
  }
  return sum;
}

/// Returns S of a group as floats for a tile of kTokens tokens, one per lane.
template <CodedFormat kFormat, size_t kTokens>
LLMC_INLINE F32x8 coded_tile_activations(const Quantized& x, size_t token, size_t block,
                                         size_t blocks, size_t half) {
  static_assert(kTokens <= kPanelRows, "a lane for each token");
  if constexpr (CodedShape<kFormat>::kHalves) {
    int32_t lane[kPanelRows] = {};
    for (size_t t = 0; t < kTokens; ++t) {
      lane[t] = coded_activations<kFormat>(x, token + t, block, blocks, half);
    }
    return to_f32(load_i32(lane));
  } else {
    // The sums are stored as pairs of i16, one for each of two blocks. Lanes after the tile's
    // tokens read unrelated data of `x`, which may be sums or scales.
    I32x8 sum = zero_i32();
    for (size_t b = block; b < block + blocks; ++b) {
      const int16_t* sums = x.sums + ((b / 2) * x.tokens + token) * 2;
      I32x8 pair = load_i32(reinterpret_cast<const int32_t*>(sums));
      if (b % 2 == 0) pair = shift_left<16>(pair);
      sum = sum + (pair & splat_i32(-65536));
    }
    return upper_to_f32(sum);  // |S| <= 8 * 4064
  }
}

/// Calls put(k / 4, codes) with the stored codes of a block, minus kSubtrahend, for k = 0, 4,
/// …, 28. `lower` are its lower bits in a split format.
template <CodedFormat kFormat, int kSubtrahend, class Put>
LLMC_INLINE void unpack_block(const uint8_t* block, [[maybe_unused]] const uint8_t* lower,
                              Put put) {
  const auto put_centred = [&](size_t step, Codes c) LLMC_INLINE_LAMBDA {
    if constexpr (kSubtrahend != 0) c = centred<kSubtrahend>(c);
    put(step, c);
  };
  if constexpr (kFormat.bits == 8) {
    for (size_t i = 0; i < 8; ++i) put_centred(i, load_codes(block + i * 32));
  } else {
    const auto put_two = [&]<size_t kVector>() LLMC_INLINE_LAMBDA {
      const Codes packed = load_codes(block + kVector * 32);
      if constexpr (CodedShape<kFormat>::kSix) {
        const uint8_t* rest = CodedShape<kFormat>::kSplit ? lower : block + kSixLowerBytes;
        const Codes two = load_codes(rest + kVector / 2 * 32);
        put_centred(kVector * 2, six_bits<kFormat, kVector, false>(packed, two));
        put_centred(kVector * 2 + 1, six_bits<kFormat, kVector, true>(packed, two));
      } else {
        put_centred(kVector * 2, low_nibbles(packed));
        put_centred(kVector * 2 + 1, high_nibbles(packed));
      }
    };
    put_two.template operator()<0>();
    put_two.template operator()<1>();
    put_two.template operator()<2>();
    put_two.template operator()<3>();
  }
}

/// Adds sum_k c a of one block (or half a block) of each stream for one token, whose activations
/// are `a`.
template <CodedFormat kFormat, bool kFar, size_t kPanels>
LLMC_INLINE void coded_block_gemv(const uint8_t* block, [[maybe_unused]] const SplitPlace& place,
                                  size_t stride, const int8_t* a, I32x8 (&sum)[kPanels]) {
  constexpr size_t kSteps = CodedShape<kFormat>::kHalves ? 4 : 8;
  if constexpr (CodedShape<kFormat>::kNibbles) {
    BlockSum part[kPanels];
    q4_block_gemv<kPanels, kFar, kSteps / 2>(block, stride, a, part);
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) sum[p] = sum[p] + row_sums(part[p]);
  } else if constexpr (CodedShape<kFormat>::kSix) {
    six_block_gemv<kFormat, kFar>(block, place, stride, a, sum);
  } else {
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kSteps; ++v) {
      const Activation4 activation = load_activation(a, v * 4);
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPanels; ++p) {
        const uint8_t* at = block + p * stride + v * 32;
        if (v % 2 == 0) prefetch_weights<kFar>(at + kPrefetchAhead);
        sum[p] = dot_i8(sum[p], load_codes(at), activation);
      }
    }
  }
}

/// Computes the products of one token with kPanels panels at a distance of `stride` bytes. The
/// results of panels are `y_stride` floats apart. The panels are read concurrently, as in
/// product_q4.h.
template <CodedFormat kFormat, size_t K, size_t kPanels>
LLMC_NOINLINE inline void coded_panels_gemv(const uint8_t* panel, size_t stride, const Quantized x,
                                            float* y, size_t y_stride) {
  using Shape = CodedShape<kFormat>;
  constexpr size_t kNumbers = kPanelRows * coded_number_bytes(kFormat);
  constexpr size_t kZeros = kPanelRows * coded_zero_bytes(kFormat);
  constexpr size_t kNumberBytes =
      coded_super_bytes(kFormat, kBlocksPerSuper) - coded_scale_offset(kFormat, kBlocksPerSuper);
  F32x8 total[kPanels];
  for (size_t p = 0; p < kPanels; ++p) total[p] = zero_f32();
  for (size_t s = 0; s < super_count(K); ++s) {
    const size_t blocks = blocks_in_super(K, s);
    const uint8_t* codes = panel + coded_super_offset(kFormat, s);
    const uint8_t* scales = codes + coded_scale_offset(kFormat, blocks);
    const uint8_t* zeros = codes + coded_zero_offset(kFormat, blocks);
    SplitPlace place{nullptr};
    if constexpr (Shape::kSplit)
      place = SplitPlace::of<kFormat, K>(panel, s, kSplitSupersAhead, kSplitSupersFarther);
    F32x8 part[kPanels];
    for (size_t p = 0; p < kPanels; ++p) part[p] = zero_f32();
    const auto group = [&](size_t first, size_t count, size_t half) LLMC_INLINE_LAMBDA {
      I32x8 sum[kPanels];
      for (size_t p = 0; p < kPanels; ++p) sum[p] = zero_i32();
#pragma clang loop unroll(disable)
      for (size_t b = first; b < first + count; ++b) {
        coded_block_gemv<kFormat, prefetches_far(K)>(
            codes + b * coded_block_bytes(kFormat) + half * (coded_block_bytes(kFormat) / 2), place,
            stride, x.codes + (s * kBlocksPerSuper + b) * kBlock + half * (kBlock / 2), sum);
        if constexpr (Shape::kSplit) place.lower += kSplitLowerBytes;
      }
      const F32x8 activations = splat(static_cast<float>(
          Shape::kSums ? coded_activations<kFormat>(x, 0, s * kBlocksPerSuper + first, count, half)
                       : 0));
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPanels; ++p) {
        part[p] = fma(coded_numbers<kFormat>(scales + p * stride),
                      coded_difference<kFormat>(sum[p], activations, zeros + p * stride), part[p]);
      }
      scales += kNumbers;
      zeros += kZeros;
    };
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks; b += Shape::kGroupBlocks) {
      group(b, blocks - b < Shape::kGroupBlocks ? blocks - b : Shape::kGroupBlocks, 0);
      if constexpr (Shape::kHalves) group(b, 1, 1);
    }
    for (size_t p = 0; p < kPanels; ++p) {
      const uint8_t* numbers = codes + coded_scale_offset(kFormat, blocks) + p * stride;
      if constexpr (Shape::kSplit) {
        for (size_t i = 0; i < kNumberBytes; i += kAlignment)
          prefetch_places<prefetches_far(K)>(numbers + i, place.codes_near, place.codes_far);
      } else {
        prefetch_numbers<kNumberBytes, prefetches_far(K)>(numbers);
      }
      total[p] = fma(splat(x.scales[s]), part[p], total[p]);
    }
  }
  for (size_t p = 0; p < kPanels; ++p) store(y + p * y_stride, total[p]);
}

/// Adds sum_k c a of a block (or of half a block, from k = `at` on) for a tile of kTokens tokens.
/// Codes have one byte each.
template <CodedFormat kFormat, size_t kTokens>
LLMC_INLINE void coded_block_sums(const uint8_t* codes, const int8_t* a, size_t at,
                                  I32x8 (&sum)[kTokens]) {
  constexpr size_t kSteps = CodedShape<kFormat>::kHalves ? 4 : 8;
  if constexpr (CodedShape<kFormat>::kNibbles) {
    // Like q4_block_sums(), but with an optimization barrier for every sum. Otherwise, the compiler
    // would load activations early, which do not fit in registers together with the float parts.
    BlockSum part[kTokens];
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kSteps; ++v) {
      const Codes c = load_codes(codes + v * 32);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) {
        const Activation4 four = load_activation(a, activation_offset(kTokens, t, at + v * 4));
        part[t] = v == 0 ? mul_u4(c, four) : optimization_barrier(mac_u4(part[t], c, four));
      }
    }
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) sum[t] = sum[t] + row_sums(part[t]);
  } else if constexpr (CodedShape<kFormat>::kSix || CodedShape<kFormat>::kOffset) {
    const auto load_at = [&](size_t v) LLMC_INLINE_LAMBDA {
      const Codes c = load_codes(codes + v * 32);
      if constexpr (CodedShape<kFormat>::kOffset) return centred<-kZeroPoint8>(c);
      return c;
    };
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kSteps; v += 2) {
      const Codes c = load_at(v), d = load_at(v + 1);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) {
        sum[t] = dot_u6(sum[t], c, load_activation(a, activation_offset(kTokens, t, at + v * 4)), d,
                        load_activation(a, activation_offset(kTokens, t, at + v * 4 + 4)));
      }
    }
  } else {
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kSteps; ++v) {
      const Codes c = load_codes(codes + v * 32);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) {
        sum[t] = dot_i8(sum[t], c, load_activation(a, activation_offset(kTokens, t, at + v * 4)));
      }
    }
  }
}

/// Sums over a group for a tile of kTokens tokens. Codes have one byte each.
template <class Exact, CodedFormat kFormat, size_t kTokens, bool kSquares>
struct CodedSums {
  static constexpr size_t kBlockBytes = kPanelRows * kBlock;
  static constexpr bool kCentred = CodedShape<kFormat>::kCentred;
  I32x8 sum[kTokens];

  LLMC_INLINE void begin() {
    for (size_t t = 0; t < kTokens; ++t) sum[t] = zero_i32();
  }
  /// Adds a block's codes, or those of half a block from k = `at` on. `a` are the block's
  /// activations.
  LLMC_INLINE void add(const uint8_t* codes, const uint8_t*, const int8_t* a, size_t at) {
    coded_block_sums<kFormat>(codes, a, at, sum);
  }
  LLMC_INLINE I32x8 rows(size_t t) const { return sum[t]; }
};
template <class Exact, CodedFormat kFormat, size_t kTokens>
struct CodedSums<Exact, kFormat, kTokens, true> {
  static constexpr size_t kBlockBytes = kPanelRows * kBlock;
  static constexpr bool kCentred = CodedShape<kFormat>::kCentred;
  static constexpr bool kSigned = !CodedShape<kFormat>::kNibbles || CodedShape<kFormat>::kCentred;
  typename Exact::template Tile<kTokens, kSigned> tile;

  LLMC_INLINE void begin() { tile.begin(); }
  LLMC_INLINE void add(const uint8_t* codes, const uint8_t*, const int8_t* a, size_t at) {
    tile.template add_block<CodedShape<kFormat>::kHalves ? 2 : 4>(codes, a, at / 8);
  }
  LLMC_INLINE I32x8 rows(size_t t) const { return tile.rows(t); }
};

/// Adds the products of one superblock with kTokens tokens from `token` on to y[token][8]. `codes`
/// are the packed or unpacked codes that Sums reads. `lower` are the lower bits of packed codes of
/// a split format.
template <CodedFormat kFormat, size_t kTokens,
          class Sums = CodedSums<ExactPanels, kFormat, kTokens, kSquareTiles>>
LLMC_INLINE void coded_super_tile(const uint8_t* codes, const uint8_t* lower, const uint8_t* super,
                                  size_t blocks, const Quantized& x, size_t s, size_t token,
                                  float* y) {
  using Shape = CodedShape<kFormat>;
  const uint8_t* scales = super + coded_scale_offset(kFormat, blocks);
  const uint8_t* zeros = super + coded_zero_offset(kFormat, blocks);
  F32x8 part[kTokens];
  for (size_t t = 0; t < kTokens; ++t) part[t] = zero_f32();
  const auto group = [&](size_t first, size_t count, size_t half) LLMC_INLINE_LAMBDA {
    Sums sum;
    sum.begin();
#pragma clang loop unroll(disable)
    for (size_t b = first; b < first + count; ++b) {
      sum.add(codes + b * Sums::kBlockBytes + half * (Sums::kBlockBytes / 2),
              lower_after<kFormat>(lower, b), activation_codes(x, s * kBlocksPerSuper + b, token),
              half * (kBlock / 2));
    }
    const F32x8 scale = coded_numbers<kFormat>(scales);
    F32x8 activations = zero_f32();
    if constexpr ((Shape::kSums && !Sums::kCentred) || Shape::kOffset) {
      activations = coded_tile_activations<kFormat, kTokens>(x, token, s * kBlocksPerSuper + first,
                                                             count, half);
    }
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      const F32x8 difference = coded_difference<kFormat, Sums::kCentred, Shape::kOffset>(
          sum.rows(t), splat_lane(activations, t), zeros);
      part[t] = fma(scale, difference, part[t]);
    }
    scales += kPanelRows * coded_number_bytes(kFormat);
    zeros += kPanelRows * coded_zero_bytes(kFormat);
  };
  for (size_t b = 0; b < blocks; b += Shape::kGroupBlocks) {
    group(b, blocks - b < Shape::kGroupBlocks ? blocks - b : Shape::kGroupBlocks, 0);
    if constexpr (Shape::kHalves) group(b, 1, 1);
  }
#pragma clang loop unroll(full)
  for (size_t t = 0; t < kTokens; ++t) {
    float* out = y + t * kPanelRows;
    store(out, fma(splat(x.scales[s * x.tokens + token + t]), part[t], load(out)));
  }
}

/// Unpacks a superblock's codes; subtracts their offset if the format's kCentred is set. `lower`
/// are their lower bits in a split format. Prefetches the superblock at `next`. With kSquares, the
/// unpacked codes have the layout of ExactPanels' tiles.
template <class Exact, CodedFormat kFormat, bool kSquares>
LLMC_INLINE void coded_unpack(const uint8_t* super, const uint8_t* lower, size_t blocks,
                              const uint8_t* next, UnpackedCodes& out) {
  constexpr size_t kBytes = coded_block_bytes(kFormat);
  constexpr int kSubtrahend = CodedShape<kFormat>::kCentred ? CodedShape<kFormat>::kZeroPoint : 0;
  for (size_t b = 0; b < blocks; ++b) {
    for (size_t i = 0; i < kBytes; i += 64) prefetch(next + b * kBytes + i);
    uint8_t* to = out.codes + b * kPanelRows * kBlock;
    Codes even;
    const auto put = [&](size_t step, Codes c) LLMC_INLINE_LAMBDA {
      if constexpr (!kSquares) {
        store_codes(to + step * 32, c);
      } else if (step % 2 == 0) {
        even = c;
      } else {
        Exact::store_steps(to + (step - 1) * 32, even, c);
      }
    };
    unpack_block<kFormat, kSubtrahend>(super + b * kBytes, lower_after<kFormat>(lower, b), put);
  }
}

/// Computes y[panels][count][8] for up to kPanelGroup consecutive panels and the tokens [token,
/// token + count). A tile of activations is used for the same superblock of all panels while it is
/// in the L1 cache.
template <CodedFormat kFormat, size_t K>
LLMC_NOINLINE inline void coded_panels_tokens(const uint8_t* panel, size_t panels,
                                              const Quantized x, size_t token, size_t count,
                                              float* y) {
  constexpr bool kNibbles = CodedShape<kFormat>::kNibbles;
  constexpr size_t kPanelBytes = coded_panel_bytes(kFormat, K);
  // With one panel, the only independent dependency chains are those of different tokens.
  constexpr size_t kTile = kNibbles && kPanelTile == 1 ? kTokenTile : kByteTile;
  const size_t y_stride = count * kPanelRows;
  for (size_t i = 0; i < panels * y_stride; i += kPanelRows) store(y + i, zero_f32());
  constexpr bool kSix = CodedShape<kFormat>::kSix;
  constexpr bool kUnpacked = kNibbles || kSix || kSquareTiles;
  UnpackedCodes unpacked[kUnpacked ? kPanelGroup : 1];
  for (size_t s = 0; s < super_count(K); ++s) {
    const uint8_t* super = panel + coded_super_offset(kFormat, s);
    const size_t blocks = blocks_in_super(K, s);
    if constexpr (kUnpacked) {
      const uint8_t* next = s + 1 < super_count(K) ? panel + coded_super_offset(kFormat, s + 1)
                                                   : panel + kPanelGroup * kPanelBytes;
      for (size_t p = 0; p < panels; ++p) {
        const uint8_t* codes = super + p * kPanelBytes;
        if constexpr (kSquareTiles || kSix) {
          coded_unpack<ExactPanels, kFormat, kSquareTiles>(
              codes, lower_bits<kFormat>(panel + p * kPanelBytes, K, s), blocks,
              next + p * kPanelBytes, unpacked[p]);
        } else {
          q4_unpack<CodedShape<kFormat>::kCentred>(codes, blocks, next + p * kPanelBytes,
                                                   unpacked[p]);
        }
      }
    }
    const auto codes_of = [&](size_t p) LLMC_INLINE_LAMBDA {
      return kUnpacked ? unpacked[kUnpacked ? p : 0].codes : super + p * kPanelBytes;
    };
    each_strip_tile<kTile>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
      for (size_t p = 0; p < panels; ++p) {
        coded_super_tile<kFormat, kTokens>(
            codes_of(p), lower_bits<kFormat>(panel + p * kPanelBytes, K, s),
            super + p * kPanelBytes, blocks, x, s, token + t, y + p * y_stride + t * kPanelRows);
      }
    });
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
