#pragma once

#include "llmc/function/matmul.h"
#include "llmc/function/reduce.h"

/// y = softmax(scale * q k + bias) v for a batch: q[S][D], k[D][T] by strides, v[T][W], y[S][W].
/// For a mask, `bias` is 0 where the score is used, and replaces the score elsewhere, so that a
/// hidden score has no effect even if it is huge or NaN. At most 32 rows of scores are in memory at
/// a time. Computes the matrices [begin, end) of the batch. Scores are accumulated over D and
/// outputs over T in order, as in matmul.h. The softmax is that of reduce.h.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

inline constexpr int64_t kAttentionRows = 32;

struct AttentionSizes {
  int64_t queries, keys, depth, width;
  float scale;
  int64_t q_row, k_row, k_column, v_row, bias_row, bias_column;
};

template <bool kMasked>
LLMC_NOINLINE inline void attention_of_one(const float* q, const float* k, const float* v,
                                           const float* bias, float* y, float* scores, float* panel,
                                           const AttentionSizes& s) {
  for (int64_t first = 0; first < s.queries; first += kAttentionRows) {
    const int64_t rows = s.queries - first < kAttentionRows ? s.queries - first : kAttentionRows;
    product_packing(q + first * s.q_row, s.q_row, k, s.k_row, s.k_column, scores, rows, s.depth,
                    s.keys, panel);
    for (int64_t r = 0; r < rows; ++r) {
      float* row = scores + r * s.keys;
      const float* added = bias == nullptr ? nullptr : bias + (first + r) * s.bias_row;
      if (added == nullptr) {
        for (int64_t t = 0; t < s.keys; ++t) row[t] = row[t] * s.scale;
      } else if (kMasked) {
        for (int64_t t = 0; t < s.keys; ++t) {
          const float hidden = added[t * s.bias_column];
          row[t] = hidden == 0 ? row[t] * s.scale : hidden;
        }
      } else {
        for (int64_t t = 0; t < s.keys; ++t) row[t] = row[t] * s.scale + added[t * s.bias_column];
      }
      const float most = reduce_row<Max, float>(s.keys, [&](int64_t t) { return row[t]; });
      for (int64_t t = 0; t < s.keys; ++t) row[t] = exp(row[t] - most);
      const float sum = reduce_row<Sum, float>(s.keys, [&](int64_t t) { return row[t]; });
      for (int64_t t = 0; t < s.keys; ++t) row[t] = row[t] / sum;
    }
    product_of_floats(scores, s.keys, v, s.v_row, y + first * s.width, rows, s.keys, s.width);
  }
}

template <bool kMasked, class T, class Batch, class Q, class K, class V, class B>
inline void attention_of_all(const T* q, const T* k, const T* v, const T* bias, T* y, T* scores,
                             T* panel, int64_t begin, int64_t end, int64_t queries, int64_t keys,
                             int64_t depth, int64_t width, float scale, int64_t q_row,
                             int64_t k_row, int64_t k_column, int64_t v_row, int64_t bias_row,
                             int64_t bias_column, const Batch& batch, const Q& q_strides,
                             const K& k_strides, const V& v_strides, const B& bias_strides) {
  const AttentionSizes sizes{queries, keys,     depth, width,    scale,      q_row,
                             k_row,   k_column, v_row, bias_row, bias_column};
  for (int64_t i = begin; i < end; ++i) {
    int64_t from_q = 0, from_k = 0, from_v = 0, from_bias = 0;
    int64_t rest = i;
    for (size_t d = Batch::count; d-- > 0;) {
      const int64_t at = rest % batch.values[d];
      rest /= batch.values[d];
      from_q += at * q_strides.values[d];
      from_k += at * k_strides.values[d];
      from_v += at * v_strides.values[d];
      from_bias += at * bias_strides.values[d];
    }
    attention_of_one<kMasked>(q + from_q, k + from_k, v + from_v,
                              bias == nullptr ? nullptr : bias + from_bias, y + i * queries * width,
                              scores, panel, sizes);
  }
}

template <class T, class Batch, class Q, class K, class V, class B>
inline void attention_biased(const T* q, const T* k, const T* v, const T* bias, T* y, T* scores,
                             T* panel, int64_t begin, int64_t end, int64_t queries, int64_t keys,
                             int64_t depth, int64_t width, float scale, int64_t q_row,
                             int64_t k_row, int64_t k_column, int64_t v_row, int64_t bias_row,
                             int64_t bias_column, const Batch& batch, const Q& q_strides,
                             const K& k_strides, const V& v_strides, const B& bias_strides) {
  attention_of_all<false, T>(q, k, v, bias, y, scores, panel, begin, end, queries, keys, depth,
                             width, scale, q_row, k_row, k_column, v_row, bias_row, bias_column,
                             batch, q_strides, k_strides, v_strides, bias_strides);
}

template <class T, class Batch, class Q, class K, class V, class B>
inline void attention_masked(const T* q, const T* k, const T* v, const T* bias, T* y, T* scores,
                             T* panel, int64_t begin, int64_t end, int64_t queries, int64_t keys,
                             int64_t depth, int64_t width, float scale, int64_t q_row,
                             int64_t k_row, int64_t k_column, int64_t v_row, int64_t bias_row,
                             int64_t bias_column, const Batch& batch, const Q& q_strides,
                             const K& k_strides, const V& v_strides, const B& bias_strides) {
  attention_of_all<true, T>(q, k, v, bias, y, scores, panel, begin, end, queries, keys, depth,
                            width, scale, q_row, k_row, k_column, v_row, bias_row, bias_column,
                            batch, q_strides, k_strides, v_strides, bias_strides);
}

template <class T, class Batch, class Q, class K, class V>
inline void attention(const T* q, const T* k, const T* v, T* y, T* scores, T* panel, int64_t begin,
                      int64_t end, int64_t queries, int64_t keys, int64_t depth, int64_t width,
                      float scale, int64_t q_row, int64_t k_row, int64_t k_column, int64_t v_row,
                      const Batch& batch, const Q& q_strides, const K& k_strides,
                      const V& v_strides) {
  attention_of_all<false, T>(q, k, v, static_cast<const T*>(nullptr), y, scores, panel, begin, end,
                             queries, keys, depth, width, scale, q_row, k_row, k_column, v_row, 0,
                             0, batch, q_strides, k_strides, v_strides, v_strides);
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
