#pragma once

#include "llmc/kernels/stage.h"

namespace llmc {
inline namespace LLMC_ISA {

/// Returns the index of the first maximum of x f32[N], ignoring NaN; 0 if all are NaN or -infinity.
template <size_t N>
LLMC_NOINLINE inline uint32_t argmax(const float* x) {
  static_assert(N < size_t{1} << 31, "an index has 32 bits");
  // Two dependency chains, for alternate groups of eight, because comparing and selecting take
  // longer than loading.
  F32x8 best[2] = {splat(-__builtin_inff()), splat(-__builtin_inff())};
  I32x8 where[2] = {zero_i32(), zero_i32()};
  constexpr int32_t kLanes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  I32x8 index = load_i32(kLanes);
  const I32x8 step = splat_i32(8);
  const auto take = [&](size_t chain, F32x8 v) LLMC_INLINE_LAMBDA {
    const Mask8 larger = less(best[chain], v);
    best[chain] = select(larger, v, best[chain]);
    where[chain] = bits(select(larger, from_bits(index), from_bits(where[chain])));
    index = index + step;
  };
  size_t i = 0;
  for (; i + 16 <= N; i += 16) {
    take(0, load(x + i));
    take(1, load(x + i + 8));
  }
  if (i + 8 <= N) {
    take(0, load(x + i));
    i += 8;
  }
  float value[16];
  int32_t at[16];
  for (size_t chain = 0; chain < 2; ++chain) {
    store(value + 8 * chain, best[chain]);
    store_i32(at + 8 * chain, where[chain]);
  }
  float largest = value[0];
  uint32_t result = static_cast<uint32_t>(at[0]);
  for (size_t lane = 1; lane < 16; ++lane) {
    const uint32_t candidate = static_cast<uint32_t>(at[lane]);
    if (value[lane] > largest || (value[lane] == largest && candidate < result)) {
      largest = value[lane];
      result = candidate;
    }
  }
  for (; i < N; ++i) {
    if (x[i] > largest) {
      largest = x[i];
      result = static_cast<uint32_t>(i);
    }
  }
  return result;
}

}  // namespace LLMC_ISA
}  // namespace llmc
