#pragma once

#include "llmc/kernels/stage.h"

/// The state of a query row between tiles and splits of the cache, and how states are merged.
namespace llmc {
inline namespace LLMC_ISA {

/// State of one query row after a part of the cache: output f32[padded dim], not yet divided by the
/// sum; maximum score; sum of exp(score - maximum), which is accumulated as 8 partial sums.
template <class Shape>
struct RowState {
  static constexpr size_t kOutput = round_up(Shape::kPadded, 16);
  static_assert((kOutput + 16) * sizeof(float) == attention_state_bytes(Shape::kHeadDim));
  float* at;

  LLMC_INLINE float* output() const { return at; }
  LLMC_INLINE float& largest() const { return at[kOutput]; }
  LLMC_INLINE float& sum() const { return at[kOutput + 1]; }
  LLMC_INLINE float* sum_lanes() const { return at + kOutput + 8; }

  LLMC_INLINE void begin() const {
    for (size_t i = 0; i < Shape::kPadded; i += 8) store(output() + i, zero_f32());
    store(sum_lanes(), zero_f32());
    largest() = -__builtin_inff();
  }
  LLMC_INLINE void end() const { sum() = reduce_add(load(sum_lanes())); }
};

/// Merges `next` into `state`:  m = max(m1, m2), sums and outputs weighted by exp(mi - m).
template <class Shape>
LLMC_INLINE void merge_states(RowState<Shape> state, RowState<Shape> next) {
  const float now = next.largest() > state.largest() ? next.largest() : state.largest();
  const float before = exp_nonpositive(state.largest() - now);
  const float after = exp_nonpositive(next.largest() - now);
  state.largest() = now;
  state.sum() = state.sum() * before + next.sum() * after;
  for (size_t i = 0; i < Shape::kPadded; i += 8) {
    const F32x8 added = load(next.output() + i) * splat(after);
    store(state.output() + i, load(state.output() + i) * splat(before) + added);
  }
}

/// Adds the score of a sink to a row:  m = max(m1, sink), sum and output weighted by exp(m1 - m),
/// then sum += exp(sink - m).
template <class Shape>
LLMC_INLINE void add_sink(RowState<Shape> state, float sink) {
  const float now = sink > state.largest() ? sink : state.largest();
  const float before = exp_nonpositive(state.largest() - now);
  state.largest() = now;
  state.sum() = state.sum() * before + exp_nonpositive(sink - now);
  for (size_t i = 0; i < Shape::kPadded; i += 8)
    store(state.output() + i, load(state.output() + i) * splat(before));
}

/// Computes out[head_dim] = output * (1 / sum).
template <class Shape>
LLMC_INLINE void write_output(RowState<Shape> state, float* out) {
  const F32x8 inverse = splat(1.0f / state.sum());
  for (size_t i = 0; i < Shape::kHeadDim; i += 8) {
    store_row<Shape::kHeadDim>(out, i, load(state.output() + i) * inverse);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
