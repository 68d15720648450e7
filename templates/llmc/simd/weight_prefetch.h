#pragma once

#include "llmc/sizes.h"

/// Software prefetch of weights, which products read as a few long streams. Must be included after
/// the prefetch functions of the SIMD header.
namespace llmc {
inline namespace LLMC_ISA {

/// Prefetch distance of a weight stream in bytes: about the amount of data that arrives during the
/// latency of one access to main memory.
inline constexpr size_t kPrefetchAhead = 3072;
/// The same for few tokens: in bytes (product_few.h), or in superblocks where panels are unpacked
/// together (product_q4_exact.h, product_coded_vnni.h). The distance is larger, because these
/// products alternate between the superblocks of different streams.
inline constexpr size_t kFewAhead = 4096, kFewSupersAhead = 2;

/// Distance in bytes from the line of a stream that is prefetched into all cache levels to the line
/// that is prefetched into the second-level cache, which supports more outstanding cache misses.
inline constexpr size_t kPrefetchFarther = 5120;

/// Returns whether streams of rows of `k` weights are also prefetched at kPrefetchFarther. Models
/// with shorter rows usually fit in a cache, so that this only takes time.
constexpr bool prefetches_far(size_t k) {
  return k >= 512;
}
/// Prefetches the line of a weight stream at `p` and, with kFar, the one kPrefetchFarther bytes
/// later.
template <bool kFar = true>
LLMC_INLINE void prefetch_weights(const uint8_t* p) {
  prefetch_stream(p);
  if constexpr (kFar) prefetch_tile(p + kPrefetchFarther);
}
/// With kFar, prefetches kBytes from `numbers` + kPrefetchAhead on, and the lines kPrefetchFarther
/// bytes later; otherwise nothing. `numbers` are a superblock's scales, zero points or mins, which
/// the loop over the codes does not prefetch.
template <size_t kBytes, bool kFar>
LLMC_INLINE void prefetch_numbers(const uint8_t* numbers) {
  if constexpr (kFar) {
    for (size_t i = 0; i < kBytes; i += kAlignment) prefetch_weights(numbers + i + kPrefetchAhead);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
