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

/// Scales that are tried, as steps from that of the range; initial offsets of the range in steps
/// between codes; rounds with the min of least squares after each.
constexpr std::array<float, 6> kScaleSteps{-3, -2, -1, 0, 1, 2};
constexpr std::array<float, 3> kRangeOffsets{0, -0.5f, 0.5f};
constexpr int kMinRefits = 3;

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

struct Outcome {
  RowLanes error{}, rest{};  // sum of D (v - q)^2; sum of D (v - step c)
};

/// Rounds the block with q = step * c + low. With `kStore`, stores codes and errors.
template <bool kStore>
[[gnu::always_inline]] inline Outcome round_block(BlockSearch& search, RowLanes step,
                                                  RowLanes low) {
  const RowLanes zero{}, inverse = step > zero ? 1.0f / step : zero;
  RowLanes v[kFitWidth];
  for (std::size_t j = 0; j < kFitWidth; ++j) v[j] = load(search.wanted.data() + j * kLanes);
  Outcome out;
  for (std::size_t j = 0; j < kFitWidth; ++j) {
    const RowLanes c = rounded((v[j] - low) * inverse, 0, kLargestCode);
    const RowLanes scaled = step * c, q = scaled + low;
    const RowLanes miss = v[j] - q, e = load(search.given.data() + j * kLanes) - q;
    out.error = out.error + miss * miss * search.weight[j];
    out.rest = out.rest + (v[j] - scaled) * search.weight[j];
    const float* const unit = search.unit.data() + j * kFitWidth;
    for (std::size_t i = j + 1; i < kFitWidth; ++i) v[i] = v[i] + e * unit[i];
    if constexpr (kStore) {
      store(search.code.data() + j * kLanes, c);
      store(search.error.data() + j * kLanes, e);
    }
  }
  return out;
}

[[gnu::always_inline]] inline void run_block(BlockSearch& search) {
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
        const Outcome out = round_block<false>(search, step, min * m);
        const RowIntegers better = out.error < least;
        best_s = better ? s : best_s;
        best_m = better ? m : best_m;
        least = better ? out.error : least;
        m = rounded(out.rest * inverse_total * inverse_min, 0, kLargestQ4Min);
      }
    }
  }
  round_block<true>(search, scale * best_s, min * best_m);
  store(search.s.data(), best_s);
  store(search.m.data(), best_m);
}

void run_anywhere(BlockSearch& search) {
  run_block(search);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] void run_avx2(BlockSearch& search) {
  run_block(search);
}
[[gnu::target("avx512f,avx512dq")]] void run_avx512(BlockSearch& search) {
  run_block(search);
}
#endif

}  // namespace

void BlockSearch::run() {
#if defined(__x86_64__)
  static const auto best = __builtin_cpu_supports("avx512dq") ? run_avx512
                           : __builtin_cpu_supports("avx2")   ? run_avx2
                                                              : run_anywhere;
  best(*this);
#else
  run_anywhere(*this);
#endif
}

}  // namespace llmc::quant
