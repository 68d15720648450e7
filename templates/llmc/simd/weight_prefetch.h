#pragma once

#include "llmc/sizes.h"

/// Software prefetch of weights, which products read as a few long streams. Included after the
/// prefetch functions of a SIMD header.
namespace llmc {
inline namespace LLMC_ISA {

/// Prefetch distance of a weight stream in bytes: about the amount of data that arrives during one
/// access to main memory.
inline constexpr size_t kPrefetchAhead = 3072;
/// The same for few tokens: in bytes (product_few.h), or in superblocks where panels are unpacked
/// together (product_q4_exact.h, product_coded_vnni.h). Superblocks of the streams are read in
/// turn, so the distance is larger.
inline constexpr size_t kFewAhead = 4096, kFewSupersAhead = 2;

/// Distance in bytes from the line of a stream that is prefetched into all cache levels to the line
/// that is prefetched into the second-level cache, which can wait for more lines of main memory at
/// a time.
inline constexpr size_t kPrefetchFarther = 5120;

/// Returns whether streams of rows of `k` weights are prefetched in two steps. Models with shorter
/// rows usually fit a cache, where the second one only takes time.
constexpr bool prefetches_far(size_t k) {
  return k >= 512;
}
/// Prefetches a line of a stream of weights, and with kFar the one at kPrefetchFarther.
template <bool kFar = true>
LLMC_INLINE void prefetch_weights(const uint8_t* p) {
  prefetch_stream(p);
  if constexpr (kFar) prefetch_tile(p + kPrefetchFarther);
}
/// Prefetches at most kBytes from `numbers` + kPrefetchAhead on. `numbers` are a superblock's
/// scales, zero points or mins; the loop over the codes prefetches for codes only.
template <size_t kBytes, bool kFar>
LLMC_INLINE void prefetch_numbers(const uint8_t* numbers) {
  if constexpr (kFar) {
    for (size_t i = 0; i < kBytes; i += kAlignment) prefetch_weights(numbers + i + kPrefetchAhead);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
