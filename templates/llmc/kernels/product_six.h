#pragma once

#include "llmc/kernels/product_q4.h"

/// Reads 6-bit codes, also of split formats (quant/coded.h). Four bits of each code and the other
/// two are stored separately.
namespace llmc {
inline namespace LLMC_ISA {

/// Returns the address of the lower bits of superblock `s` of a panel with `k` columns; nullptr for
/// formats that are not split.
template <CodedFormat kFormat>
LLMC_INLINE const uint8_t* lower_bits(const uint8_t* panel, size_t k, size_t s) {
  if constexpr (!kFormat.split) return nullptr;
  return panel + split_lower_offset(kFormat, k, s * kBlocksPerSuper);
}

/// Returns the address of the lower bits of the block that is `block` blocks after the one at
/// `lower`; nullptr for formats that are not split.
template <CodedFormat kFormat>
LLMC_INLINE const uint8_t* lower_after(const uint8_t* lower, size_t block) {
  if constexpr (!kFormat.split) return nullptr;
  return lower + block * kSplitLowerBytes;
}

/// Combines parts of a block to the stored 6-bit codes of k = 8 kVector + 4 kHigh and the next
/// three k. `four` is vector kVector of the 4-bit parts, which begins with k = 8 kVector. `two` is
/// vector kVector / 2 of the 2-bit parts, which begins with k = 16 (kVector / 2).
template <CodedFormat kFormat, size_t kVector, bool kHigh>
LLMC_INLINE Codes six_bits(Codes four, Codes two) {
  constexpr int kPair = kVector % 2 * 2 + (kHigh ? 1 : 0);
  if constexpr (kFormat.split) return with_lower<kPair>(four, two);
  return with_upper<kPair>(kHigh ? high_nibbles(four) : low_nibbles(four), two);
}

/// Position of the current block's lower bits, and prefetch distances in bytes: `near` for lines
/// that are prefetched into all cache levels, `far` for the second-level cache. In a split format,
/// the distances lead to later superblocks, because the two parts of a panel are not read in the
/// order of their addresses.
struct SplitPlace {
  const uint8_t* lower;  // lower bits of the current block
  ptrdiff_t codes_near = kPrefetchAhead, codes_far = kPrefetchAhead + kPrefetchFarther;
  ptrdiff_t lower_near = codes_near, lower_far = codes_far;

  /// Returns the position of superblock `s` of a panel, with the distances to the superblocks that
  /// are `near` and `far` superblocks later in the stream.
  template <CodedFormat kFormat, size_t K>
  static LLMC_INLINE SplitPlace of(const uint8_t* panel, size_t s, size_t near, size_t far) {
    const auto codes_at = [](size_t super) LLMC_INLINE_LAMBDA {
      const StreamPlace at = stream_place(super, super_count(K));
      return static_cast<ptrdiff_t>(at.panels * coded_panel_bytes(kFormat, K) +
                                    coded_super_offset(kFormat, at.super));
    };
    const auto lower_at = [](size_t super) LLMC_INLINE_LAMBDA {
      const StreamPlace at = stream_place(super, super_count(K));
      return static_cast<ptrdiff_t>(at.panels * coded_panel_bytes(kFormat, K) +
                                    split_lower_offset(kFormat, K, at.super * kBlocksPerSuper));
    };
    return {panel + lower_at(s), codes_at(s + near) - codes_at(s), codes_at(s + far) - codes_at(s),
            lower_at(s + near) - lower_at(s), lower_at(s + far) - lower_at(s)};
  }
};
/// Prefetch distances of split formats in superblocks, into all cache levels and into the
/// second-level cache. They are about kPrefetchAhead and kPrefetchAhead + kPrefetchFarther bytes.
inline constexpr size_t kSplitSupersAhead = 2, kSplitSupersFarther = 5;

/// Prefetches the line `near` bytes after `p` and, with kFar, the line `far` bytes after `p`.
template <bool kFar>
LLMC_INLINE void prefetch_places(const uint8_t* p, ptrdiff_t near, ptrdiff_t far) {
  prefetch_stream(p + near);
  if constexpr (kFar) prefetch_tile(p + far);
}

/// Adds sum_k c a of one 6-bit block of each stream, where c are the stored codes.
template <CodedFormat kFormat, bool kFar, size_t kPanels>
LLMC_INLINE void six_block_gemv(const uint8_t* block, const SplitPlace& place, size_t stride,
                                const int8_t* a, I32x8 (&sum)[kPanels]) {
  const uint8_t* const rest = kFormat.split ? place.lower : block + kSixLowerBytes;
#pragma clang loop unroll(full)
  for (size_t u = 0; u < 2; ++u) {
    Activation4 four[4];
#pragma clang loop unroll(full)
    for (size_t i = 0; i < 4; ++i) four[i] = load_activation(a, u * 16 + i * 4);
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) {
      const uint8_t* at = block + p * stride + u * 64;
      prefetch_places<kFar>(at, place.codes_near, place.codes_far);
      const uint8_t* twos = rest + p * stride + u * 32;
      if (u == 0) prefetch_places<kFar>(twos, place.lower_near, place.lower_far);
      const Codes first = load_codes(at), second = load_codes(at + 32), two = load_codes(twos);
      sum[p] = dot_u6(sum[p], six_bits<kFormat, 0, false>(first, two), four[0],
                      six_bits<kFormat, 0, true>(first, two), four[1]);
      sum[p] = dot_u6(sum[p], six_bits<kFormat, 1, false>(second, two), four[2],
                      six_bits<kFormat, 1, true>(second, two), four[3]);
    }
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
