#include "compiler/quant/feedback_block.h"

#include <cstring>
#include <limits>

#include "compiler/quant/q4.h"

// Functions with vectors as parameters are always inlined, so the ABI for these does not matter.
#pragma clang diagnostic ignored "-Wpsabi"

namespace llmc::quant {
namespace {

using RowLanes = float __attribute__((vector_size(sizeof(float) * kLanes)));
using RowIntegers = int __attribute__((vector_size(sizeof(int) * kLanes)));

/// q4: offsets of the tried s from the s of the range, initial offsets of the range in steps
/// between codes, and the number of rounds, after each of which the min is refitted by least
/// squares.
constexpr std::array<float, 6> kScaleSteps{-3, -2, -1, 0, 1, 2};
constexpr std::array<float, 3> kRangeOffsets{0, -0.5f, 0.5f};
constexpr int kMinRefits = 3;
/// Symmetric codes: codes that are tried for the weight with the maximum magnitude, relative to the
/// lowest code, and the number of rounds, after each of which the scale is refitted by least
/// squares.
constexpr std::array<float, 9> kExtremes{0, 0.25f, 0.5f, 1, 1.5f, 2, 3, -0.5f, -1};
constexpr int kScaleRefits = 2;

[[gnu::always_inline]] inline RowLanes load(const float* from) {
  RowLanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
[[gnu::always_inline]] inline void store(float* to, RowLanes x) {
  std::memcpy(to, &x, sizeof x);
}
[[gnu::always_inline]] inline RowLanes clamped(RowLanes x, float low, float high) {
  const RowLanes zero{}, least = zero + low, most = zero + high;
  x = x < most ? x : most;
  return x > least ? x : least;
}
/// Returns floor(x + 0.5), clamped; `low` is not negative.
[[gnu::always_inline]] inline RowLanes rounded(RowLanes x, float low, float high) {
  x = clamped(x, low, high) + 0.5f;
  return __builtin_convertvector(__builtin_convertvector(x, RowIntegers), RowLanes);
}

/// Returns the f16 nearest to x; the smallest f16 of the same sign if that would be 0 and x is not.
[[gnu::always_inline]] inline RowLanes nearest_half(RowLanes x) {
  x = clamped(x, -65504, 65504);
  // Rounds to 11 significant bits, then to multiples of 2^-24: the sum with 0.75 is less than 1, or
  // the addition is exact.
  const RowLanes zero{}, wide = x * 0x2001p0f;
  const RowLanes half = (wide - (wide - x) + 0.75f) - 0.75f;
  const RowLanes least = x > zero ? zero + 0x1p-24f : x < zero ? zero - 0x1p-24f : zero;
  return half != zero ? half : least;
}

/// Sum of D (v - step c).
struct MinSum {
  RowLanes rest{};
  [[gnu::always_inline]] void add(RowLanes v, RowLanes, RowLanes scaled, float weight) {
    rest = rest + (v - scaled) * weight;
  }
};
/// Sums of D v c and D c^2 for codes c that begin at `lowest`.
struct ScaleSums {
  float lowest = 0;
  RowLanes products{}, squares{};
  [[gnu::always_inline]] void add(RowLanes v, RowLanes c, RowLanes, float weight) {
    const RowLanes code = c + lowest, weighted = code * weight;
    products = products + v * weighted;
    squares = squares + code * weighted;
  }
};
struct NoSums {
  [[gnu::always_inline]] void add(RowLanes, RowLanes, RowLanes, float) {}
};

/// Rounds the block with q = step * c + low, c in 0..`largest`. Returns the sum of D (v - q)^2.
/// With `kStore`, stores codes and errors.
template <bool kStore, class Sums>
[[gnu::always_inline]] inline RowLanes round_block(BlockSearch& search, RowLanes step, RowLanes low,
                                                   float largest, Sums& sums) {
  const RowLanes zero{}, inverse = step != zero ? 1.0f / step : zero;
  RowLanes v[kFitWidth], error{};
  for (std::size_t j = 0; j < kFitWidth; ++j) v[j] = load(search.wanted.data() + j * kLanes);
  for (std::size_t j = 0; j < kFitWidth; ++j) {
    const RowLanes c = rounded((v[j] - low) * inverse, 0, largest);
    const RowLanes scaled = step * c, q = scaled + low;
    const RowLanes miss = v[j] - q, e = load(search.given.data() + j * kLanes) - q;
    error = error + miss * miss * search.weight[j];
    sums.add(v[j], c, scaled, search.weight[j]);
    const float* const unit = search.unit.data() + j * kFitWidth;
    for (std::size_t i = j + 1; i < kFitWidth; ++i) v[i] = v[i] + e * unit[i];
    if constexpr (kStore) {
      store(search.code.data() + j * kLanes, c);
      store(search.error.data() + j * kLanes, e);
    }
  }
  return error;
}

[[gnu::always_inline]] inline void search_q4(BlockSearch& search) {
  const RowLanes zero{}, scale = load(search.scale.data()), min = load(search.min.data());
  const RowLanes inverse_scale = scale > zero ? 1.0f / scale : zero;
  const RowLanes inverse_min = min != zero ? 1.0f / min : zero;
  float total = 0;
  for (const float weight : search.weight) total += weight;
  const float inverse_total = total > 0 ? 1.0f / total : 0.0f;
  RowLanes lowest = load(search.wanted.data()), highest = lowest;
  for (std::size_t j = 1; j < kFitWidth; ++j) {
    if (!(search.weight[j] > 0)) continue;
    const RowLanes v = load(search.wanted.data() + j * kLanes);
    lowest = v < lowest ? v : lowest;
    highest = v > highest ? v : highest;
  }
  // The min has the sign of M or is 0.
  const RowIntegers through_zero = (min < zero) & (lowest > zero);
  lowest = through_zero ? zero : lowest;
  highest = highest > lowest ? highest : lowest;
  const RowLanes range = highest - lowest;
  const RowLanes nearest =
      rounded(range * inverse_scale * (1.0f / kLargestCode), 1, kLargestQ4Scale);
  RowLanes best_s = zero + 1.0f, best_m = zero;
  RowLanes least = zero + std::numeric_limits<float>::infinity();
  for (const float offset : kScaleSteps) {
    const RowLanes s = clamped(nearest + offset, 1, kLargestQ4Scale), step = scale * s;
    const RowLanes centered = lowest + (range - step * kLargestCode) * 0.5f;
    for (const float start : kRangeOffsets) {
      RowLanes m = rounded((centered + step * start) * inverse_min, 0, kLargestQ4Min);
      for (int round = 0; round < kMinRefits; ++round) {
        MinSum sum;
        const RowLanes error = round_block<false>(search, step, min * m, kLargestCode, sum);
        const RowIntegers better = error < least;
        best_s = better ? s : best_s;
        best_m = better ? m : best_m;
        least = better ? error : least;
        m = rounded(sum.rest * inverse_total * inverse_min, 0, kLargestQ4Min);
      }
    }
  }
  NoSums none;
  round_block<true>(search, scale * best_s, min * best_m, kLargestCode, none);
  store(search.s.data(), best_s);
  store(search.m.data(), best_m);
}

[[gnu::always_inline]] inline void search_symmetric(BlockSearch& search, float lowest,
                                                    float highest) {
  const RowLanes zero{};
  const float largest = highest - lowest;
  RowLanes extreme{}, magnitude{};
  for (std::size_t j = 0; j < kFitWidth; ++j) {
    if (!(search.weight[j] > 0)) continue;
    const RowLanes v = load(search.wanted.data() + j * kLanes), size = v < zero ? -v : v;
    extreme = size > magnitude ? v : extreme;
    magnitude = size > magnitude ? size : magnitude;
  }
  // With equally many codes on both sides of 0, the sign of the scale does not matter.
  if (lowest == -highest) extreme = -magnitude;
  RowLanes best{}, least = zero + std::numeric_limits<float>::infinity();
  // If there are more negative codes than positive ones, also tries the highest code.
  const std::size_t starts = kExtremes.size() + (lowest == -highest ? 0 : 1);
  for (std::size_t i = 0; i < starts; ++i) {
    const float code = i < kExtremes.size() ? lowest + kExtremes[i] : highest;
    RowLanes scale = nearest_half(extreme * (1.0f / code));
    for (int round = 0; round < kScaleRefits; ++round) {
      ScaleSums sums{.lowest = lowest};
      const RowLanes error = round_block<false>(search, scale, scale * lowest, largest, sums);
      const RowIntegers better = error < least;
      best = better ? scale : best;
      least = better ? error : least;
      const RowLanes fitted = nearest_half(sums.products / sums.squares);
      scale = sums.squares > zero ? fitted : scale;
    }
  }
  NoSums none;
  round_block<true>(search, best, best * lowest, largest, none);
  store(search.s.data(), best);
}

/// The searches compiled for one instruction set.
struct SearchKernels {
  void (*q4)(BlockSearch&);
  void (*symmetric)(BlockSearch&, float, float);
};
void q4_anywhere(BlockSearch& search) {
  search_q4(search);
}
void symmetric_anywhere(BlockSearch& search, float lowest, float highest) {
  search_symmetric(search, lowest, highest);
}
constexpr SearchKernels kSearchAnywhere{q4_anywhere, symmetric_anywhere};
#if defined(__x86_64__)
[[gnu::target("avx2")]] void q4_avx2(BlockSearch& search) {
  search_q4(search);
}
[[gnu::target("avx2")]] void symmetric_avx2(BlockSearch& search, float lowest, float highest) {
  search_symmetric(search, lowest, highest);
}
[[gnu::target("avx512f,avx512dq")]] void q4_avx512(BlockSearch& search) {
  search_q4(search);
}
[[gnu::target("avx512f,avx512dq")]] void symmetric_avx512(BlockSearch& search, float lowest,
                                                          float highest) {
  search_symmetric(search, lowest, highest);
}
constexpr SearchKernels kSearchAvx2{q4_avx2, symmetric_avx2},
    kSearchAvx512{q4_avx512, symmetric_avx512};
#endif

const SearchKernels& search_kernels() {
#if defined(__x86_64__)
  static const SearchKernels& best = __builtin_cpu_supports("avx512dq") ? kSearchAvx512
                                     : __builtin_cpu_supports("avx2")   ? kSearchAvx2
                                                                        : kSearchAnywhere;
  return best;
#else
  return kSearchAnywhere;
#endif
}

}  // namespace

void BlockSearch::run_q4() {
  search_kernels().q4(*this);
}
void BlockSearch::run_symmetric(float lowest, float highest) {
  search_kernels().symmetric(*this, lowest, highest);
}

}  // namespace llmc::quant
