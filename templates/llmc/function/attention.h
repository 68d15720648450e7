#pragma once

#include "llmc/function/matmul.h"
#include "llmc/function/reduce.h"
#include "llmc/math.h"

/// y = softmax(scale * q k + bias) v for a batch: q[S][D], k[D][T] with any strides, v[T][W],
/// y[S][W]. With a softcap c, scores are replaced by c tanh(score / c) before the bias is added.
/// Where `hidden` is not 0, it replaces the score, so that a hidden score has no effect even if it
/// is huge or NaN. Each worker has at most 32 rows of scores in memory at a time. Scores are
/// accumulated over D and outputs over T in order, as in matmul.h. Exponentials are computed with
/// exp_nonpositive() (math.h).
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

inline constexpr int64_t kAttentionRows = 32;

/// Rules of attention without and with a softcap.
struct Uncapped {
  static constexpr bool kCapped = false;
};
struct Capped {
  static constexpr bool kCapped = true;
};

/// Sizes and strides, in elements. `cap` is the softcap, used if scores are capped. `nan_is_zero`:
/// NaN probabilities, which always fill a whole row, are replaced by 0.
struct AttentionShape {
  int64_t queries = 0, keys = 0, depth = 0, width = 0;
  float scale = 0;
  bool biased = false, masked = false, nan_is_zero = false;
  int64_t q_row = 0, k_row = 0, k_column = 0, v_row = 0;
  int64_t bias_row = 0, bias_column = 0, hidden_row = 0, hidden_column = 0;
  float cap = 0;
};

/// Calls f(t, terms[t * step]) for each key.
template <class F>
LLMC_INLINE void for_each_term(const float* __restrict terms, int64_t step, int64_t keys, F&& f) {
  if (step == 1) {
    for (int64_t t = 0; t < keys; ++t) f(t, terms[t]);
  } else {
    for (int64_t t = 0; t < keys; ++t) f(t, terms[t * step]);
  }
}

/// Replaces scores x by cap * tanh(x / cap).
LLMC_INLINE void cap_scores(float* __restrict row, int64_t keys, float cap) {
  const F32x8 inverse = splat(1.0f / cap), largest = splat(cap);
  int64_t t = 0;
  for (; t + kLanes <= keys; t += kLanes) store(row + t, tanh(load(row + t) * inverse) * largest);
  if (t < keys) {
    const auto rest = static_cast<size_t>(keys - t);
    store_partial(row + t, tanh(load_partial(row + t, rest) * inverse) * largest, rest);
  }
}

/// Replaces scores x by e^(x - largest), where `largest` is their maximum, and returns the sum. If
/// `largest` is infinite or NaN, all results are NaN.
LLMC_INLINE float attention_exponentials(float* __restrict row, int64_t keys, float largest) {
  const float shift = largest - largest == 0 ? largest : __builtin_nanf("");
  F32x8 sum = zero_f32();
  int64_t t = 0;
  const auto eight = [&](F32x8 x) LLMC_INLINE_LAMBDA {
    return shift == shift ? exp_nonpositive(x - splat(shift)) : splat(shift);
  };
  for (; t + kLanes <= keys; t += kLanes) {
    const F32x8 p = eight(load(row + t));
    store(row + t, p);
    sum = sum + p;
  }
  if (t < keys) {
    const auto rest = static_cast<size_t>(keys - t);
    const F32x8 p = eight(load_partial(row + t, rest));
    store_partial(row + t, p, rest);
    sum = sum + select(lanes_below(rest), p, zero_f32());
  }
  return reduce_add(sum);
}

/// Replaces the products of one query with the keys by probabilities.
template <class Rule>
LLMC_INLINE void attention_probabilities(float* __restrict row, const float* bias,
                                         const float* hidden, const AttentionShape& s) {
  const int64_t keys = s.keys;  // a local variable: `s` might overlap the row
  const float scale = s.scale;
  for (int64_t t = 0; t < keys; ++t) row[t] = row[t] * scale;
  if constexpr (Rule::kCapped) cap_scores(row, keys, s.cap);
  if (s.biased)
    for_each_term(bias, s.bias_column, keys, [&](int64_t t, float x) { row[t] = row[t] + x; });
  if (s.masked)
    for_each_term(hidden, s.hidden_column, keys,
                  [&](int64_t t, float x) { row[t] = x == 0 ? row[t] : x; });
  const float largest = reduce_row<Max, float>(keys, [&](int64_t t) { return row[t]; });
  const float sum = attention_exponentials(row, keys, largest);
  if (s.nan_is_zero && sum != sum) {
    for (int64_t t = 0; t < keys; ++t) row[t] = 0;
  } else {
    for (int64_t t = 0; t < keys; ++t) row[t] = row[t] / sum;
  }
}

/// Computes the results of `rows` queries, at most kAttentionRows.
template <class Rule>
LLMC_NOINLINE inline void attention_rows(const float* q, const float* k, const float* v,
                                         const float* bias, const float* hidden, float* y,
                                         float* scores, float* panel, int64_t rows,
                                         const AttentionShape& s) {
  product_packing(q, s.q_row, k, s.k_row, s.k_column, scores, rows, s.depth, s.keys, panel);
  for (int64_t r = 0; r < rows; ++r)
    attention_probabilities<Rule>(scores + r * s.keys, bias + r * s.bias_row,
                                  hidden + r * s.hidden_row, s);
  product_of_floats(scores, s.keys, v, s.v_row, y, rows, s.keys, s.width);
}

/// Computes the results of queries [begin, end), counted over all matrices of the batch. If there
/// is no bias, the strides of `bias` must be 0 and it is not read; the same applies to `hidden`.
/// `scores` is f32[kAttentionRows][keys], and `panel` f32[depth][16].
template <class T, class Rule = Uncapped, class Batch = Sizes<>, class Q = Sizes<>,
          class K = Sizes<>, class V = Sizes<>, class B = Sizes<>, class H = Sizes<>>
inline void attention(const T* q, const T* k, const T* v, const T* bias, const T* hidden, T* y,
                      T* scores, T* panel, int64_t begin, int64_t end, const AttentionShape& shape,
                      const Batch& batch = {}, const Q& q_strides = {}, const K& k_strides = {},
                      const V& v_strides = {}, const B& bias_strides = {},
                      const H& hidden_strides = {}) {
  const int64_t queries = shape.queries;
  while (begin < end) {
    const int64_t matrix = begin / queries, first = begin % queries;
    int64_t rows = queries - first < end - begin ? queries - first : end - begin;
    if (rows > kAttentionRows) rows = kAttentionRows;
    attention_rows<Rule>(
        q + offset_in(batch, q_strides, matrix) + first * shape.q_row,
        k + offset_in(batch, k_strides, matrix), v + offset_in(batch, v_strides, matrix),
        bias + offset_in(batch, bias_strides, matrix) + first * shape.bias_row,
        hidden + offset_in(batch, hidden_strides, matrix) + first * shape.hidden_row,
        y + begin * shape.width, scores, panel, rows, shape);
    begin += rows;
  }
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
