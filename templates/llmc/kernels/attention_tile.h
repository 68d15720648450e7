#pragma once

#include "llmc/kernels/kv.h"

/// One step of online softmax attention for a few query rows: 64 keys, or those of them a query
/// sees. Every row has its own scores, maximum, sum and output, so how rows are grouped into
/// register tiles never changes a bit; nor does the block size, since scores are computed by groups
/// of 8 tokens and values token by token.
namespace llmc {
inline namespace LLMC_ISA {

/// Which keys a query sees, and whether scores are capped. kWindow w: its own and the w - 1 before
/// it; 0: all up to its own.
template <size_t kWindowV = 0, bool kCappedV = false>
struct AttentionRule {
  static constexpr size_t kWindow = kWindowV;
  static constexpr bool kCapped = kCappedV;

  /// The first key that the query with `seen` keys up to its own sees.
  static LLMC_INLINE size_t first_key(size_t seen) {
    return kWindow != 0 && seen > kWindow ? seen - kWindow : 0;
  }
};

/// The part of a tile's 64 keys that a query sees. `begin` is 0 where there is no window.
struct Columns {
  size_t begin, end;
};
/// What consecutive rows from `row` on see: `seen`, and after every `step` rows one column more
/// (step 0: never).
struct RowColumns {
  Columns seen;
  size_t row, step;

  LLMC_INLINE size_t end(size_t i) const {
    return step == 0 ? seen.end : seen.end + (i - row) / step;
  }
};

/// State of one query row over part of the cache: output f32[padded dim] (not yet divided by the
/// sum), then the largest score, the sum of exp(score - largest), and the sum's 8 lanes while it
/// runs.
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

/// Rows of a worker that go through a tile together.
template <class Shape>
struct TileRows {
  float cap;            // of the scores, where they are capped
  const float* query;   // [rows][padded dim], scaled
  float* probability;   // [rows][64]
  float* const* state;  // RowState memory of each row
};

/// Scores of kRows rows against kGroups groups of 8 tokens from `token` on, into probability from
/// column `column`: one chain over head_dim for each.
template <class Shape, size_t kRows, size_t kGroups>
LLMC_INLINE void score_tile(const KvLayer<Shape>& cache, size_t head, size_t token, size_t column,
                            const float* query, float* probability) {
  const float* keys[kGroups];
  F32x8 sum[kRows][kGroups];
  for (size_t g = 0; g < kGroups; ++g) {
    keys[g] = cache.keys(head, token + g * kPanelRows);
    for (size_t r = 0; r < kRows; ++r) sum[r][g] = zero_f32();
  }
  for (size_t d = 0; d < Shape::kHeadDim; ++d) {
    F32x8 key[kGroups];
#pragma clang loop unroll(full)
    for (size_t g = 0; g < kGroups; ++g) key[g] = load(keys[g] + d * kPanelRows);
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      const F32x8 q = splat_at(query + r * Shape::kPadded + d);
#pragma clang loop unroll(full)
      for (size_t g = 0; g < kGroups; ++g) sum[r][g] = fma(q, key[g], sum[r][g]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t g = 0; g < kGroups; ++g) {
      store(probability + r * kAttentionTile + column + g * kPanelRows, sum[r][g]);
    }
  }
}

/// Turns the scores of a row's visible columns into exp(score - largest so far), adds them to the
/// row's sum, and returns the factor for what was there before.
template <class Shape, class Rule>
LLMC_INLINE float softmax_tile(RowState<Shape> state, float* probability, Columns columns,
                               float cap) {
  const F32x8 lowest = splat(-__builtin_inff());
  const size_t n = columns.end;
  const size_t begin = Rule::kWindow == 0 ? 0 : columns.begin / kPanelRows * kPanelRows;
  if constexpr (Rule::kCapped) {
    const F32x8 inverse = splat(1.0f / cap);
    for (size_t i = begin; i < n; i += 8) {
      store(probability + i, tanh(load(probability + i) * inverse) * splat(cap));
    }
  }
  if (begin != columns.begin && Rule::kWindow != 0) {
    float* first = probability + begin;
    store(first, select(lanes_below(columns.begin - begin), lowest, load(first)));
  }
  if (n % kPanelRows != 0) {
    // Columns past n hold whatever the cache's memory held.
    float* last = probability + n / kPanelRows * kPanelRows;
    store(last, select(lanes_below(n % kPanelRows), load(last), lowest));
  }
  F32x8 largest = lowest;
  for (size_t i = begin; i < n; i += 8) largest = max(load(probability + i), largest);
  const float before = state.largest();
  const float seen = reduce_max(largest);
  const float now = seen > before ? seen : before;
  // e^0 is 1: most tiles have nothing larger than those before them.
  const float factor = before == now ? 1.0f : exp_nonpositive(before - now);
  F32x8 sum = load(state.sum_lanes()) * splat(factor);
  for (size_t i = begin; i < n; i += 8) {
    const F32x8 p = exp_nonpositive(load(probability + i) - splat(now));
    store(probability + i, p);
    sum = sum + p;
  }
  store(state.sum_lanes(), sum);
  state.largest() = now;
  return factor;
}

/// output = output * factor + sum over the visible columns of probability * value, for dims 8*group
/// and the kGroups groups from there: one chain over tokens for each.
template <class Shape, size_t kRows, size_t kGroups>
LLMC_INLINE void value_tile(const KvLayer<Shape>& cache, size_t head, size_t token, Columns columns,
                            size_t group, const float* factor, const float* probability,
                            float* const* state) {
  F32x8 sum[kRows][kGroups];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t g = 0; g < kGroups; ++g) {
      sum[r][g] = load(state[r] + (group + g) * kPanelRows) * splat(factor[r]);
    }
  }
  for (size_t t = columns.begin; t < columns.end;) {
    const size_t in_block = Shape::kBlockTokens - (token + t) % Shape::kBlockTokens;
    const size_t left = columns.end - t;
    const size_t run = left < in_block ? left : in_block;
    const float* values[kGroups];
    for (size_t g = 0; g < kGroups; ++g) values[g] = cache.values(head, group + g, token + t);
    for (size_t i = 0; i < run; ++i) {
      F32x8 value[kGroups];
#pragma clang loop unroll(full)
      for (size_t g = 0; g < kGroups; ++g) value[g] = load(values[g] + i * kPanelRows);
#pragma clang loop unroll(full)
      for (size_t r = 0; r < kRows; ++r) {
        const F32x8 p = splat_at(probability + r * kAttentionTile + t + i);
#pragma clang loop unroll(full)
        for (size_t g = 0; g < kGroups; ++g) sum[r][g] = fma(p, value[g], sum[r][g]);
      }
    }
    t += run;
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t g = 0; g < kGroups; ++g) {
      store(state[r] + (group + g) * kPanelRows, sum[r][g]);
    }
  }
}

/// The values of columns that one row sees beyond its neighbours.
template <class Shape>
LLMC_NOINLINE inline void attend_further(const KvLayer<Shape>& cache, size_t head, size_t token,
                                         Columns columns, const float* probability,
                                         float* const* state) {
  constexpr size_t kDims = Shape::kPadded / kPanelRows;
  constexpr size_t kGroups = kDims < 8 ? kDims : 8;
  const float factor = 1.0f;
  size_t dim = 0;
  for (; dim + kGroups <= kDims; dim += kGroups) {
    value_tile<Shape, 1, kGroups>(cache, head, token, columns, dim, &factor, probability, state);
  }
  for (; dim < kDims; ++dim) {
    value_tile<Shape, 1, 1>(cache, head, token, columns, dim, &factor, probability, state);
  }
}

/// kRows rows from `row` on against columns of the tile that begins at `token`, a multiple of 64.
template <class Shape, class Rule, size_t kRows>
LLMC_NOINLINE inline void attend_rows(const KvLayer<Shape>& cache, size_t head, size_t token,
                                      const RowColumns& each, const TileRows<Shape>& rows,
                                      size_t row) {
  // Eight or more independent chains hide the latency of fma.
  constexpr size_t kScoreGroups = !kTiled ? 1 : (kRows == 1 ? 8 : (kRows == 2 ? 4 : 2));
  constexpr size_t kDims = Shape::kPadded / kPanelRows;
  constexpr size_t kValueGroups = kScoreGroups < kDims ? kScoreGroups : kDims;

  const float* query = rows.query + row * Shape::kPadded;
  float* probability = rows.probability + row * kAttentionTile;
  // The columns that all of the rows see, which the first one sees alone.
  const Columns columns{Rule::kWindow == 0 ? 0 : each.seen.begin, each.end(row)};
  const size_t groups = ceil_div(each.end(row + kRows - 1), kPanelRows);
  size_t g = columns.begin / kPanelRows;
  for (; g + kScoreGroups <= groups; g += kScoreGroups) {
    score_tile<Shape, kRows, kScoreGroups>(cache, head, token + g * kPanelRows, g * kPanelRows,
                                           query, probability);
  }
  for (; g < groups; ++g) {
    score_tile<Shape, kRows, 1>(cache, head, token + g * kPanelRows, g * kPanelRows, query,
                                probability);
  }
  float factor[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    factor[r] = softmax_tile<Shape, Rule>(RowState<Shape>{rows.state[row + r]},
                                          probability + r * kAttentionTile,
                                          Columns{columns.begin, each.end(row + r)}, rows.cap);
  }
  size_t dim = 0;
  for (; dim + kValueGroups <= kDims; dim += kValueGroups) {
    value_tile<Shape, kRows, kValueGroups>(cache, head, token, columns, dim, factor, probability,
                                           rows.state + row);
  }
  for (; dim < kDims; ++dim) {
    value_tile<Shape, kRows, 1>(cache, head, token, columns, dim, factor, probability,
                                rows.state + row);
  }
  for (size_t r = 1; r < kRows; ++r) {
    const Columns further{columns.end, each.end(row + r)};
    if (further.begin < further.end) {
      attend_further<Shape>(cache, head, token, further, probability + r * kAttentionTile,
                            rows.state + row + r);
    }
  }
}

/// Rows [row, end); `seen` begins with the first of them.
template <class Shape, class Rule>
LLMC_INLINE void attend_tile(const KvLayer<Shape>& cache, size_t head, size_t token,
                             const RowColumns& seen, const TileRows<Shape>& rows, size_t row,
                             size_t end) {
  if constexpr (!kTiled) {
    for (; row < end; ++row) attend_rows<Shape, Rule, 1>(cache, head, token, seen, rows, row);
    return;
  }
  for (; row + 6 <= end; row += 6) attend_rows<Shape, Rule, 6>(cache, head, token, seen, rows, row);
  if (row + 4 <= end) {
    attend_rows<Shape, Rule, 4>(cache, head, token, seen, rows, row);
    row += 4;
  }
  if (row + 2 <= end) {
    attend_rows<Shape, Rule, 2>(cache, head, token, seen, rows, row);
    row += 2;
  }
  if (row < end) attend_rows<Shape, Rule, 1>(cache, head, token, seen, rows, row);
}

/// state = state, then `next` after it:  m = max(m1, m2), sums and outputs weighted by exp(mi - m).
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

/// out[head_dim] = output / sum
template <class Shape>
LLMC_INLINE void write_output(RowState<Shape> state, float* out) {
  const F32x8 inverse = splat(1.0f / state.sum());
  for (size_t i = 0; i < Shape::kHeadDim; i += 8) {
    store_row<Shape::kHeadDim>(out, i, load(state.output() + i) * inverse);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
