#pragma once

#include "llmc/kernels/attention_prefetch.h"
#include "llmc/kernels/attention_state.h"

/// One step of attention with online softmax for a few query rows: it processes the visible keys of
/// a tile of 64. Each row has its own scores, maximum, sum and output, so the grouping of rows into
/// register tiles does not affect the bits of the result. The block size does not affect them
/// either, because scores are computed in groups of 8 tokens, and values are added token by token.
namespace llmc {
inline namespace LLMC_ISA {

/// Which element of a head's row in the bias table is added to a score. kByDistance: element
/// n - 1 - d of n, for a key d positions before the query. kByKey: the element at the key's
/// position.
enum class ScoreBias : unsigned char { kNone, kByDistance, kByKey };

/// Tables of an attention; nullptr if its rule does not need them.
struct ScoreTables {
  const float* bias = nullptr;  // [heads][columns], at least as many columns as keys
  size_t columns = 0;
  const float* sinks = nullptr;  // [heads]
};

/// The variant of attention: visible keys, softcap, the bias added after it, and sinks. A sink is a
/// score without a value, which takes a part of the softmax. A query sees all keys up to its own;
/// with kWindow w > 0, only the last w of them; with kChunked, only those in its chunk, which
/// begins at the last multiple of w.
template <size_t kWindowV = 0, bool kCappedV = false, ScoreBias kBiasV = ScoreBias::kNone,
          bool kSinksV = false, bool kChunkedV = false>
struct AttentionRule {
  static constexpr size_t kWindow = kWindowV;
  static constexpr bool kCapped = kCappedV;
  static constexpr ScoreBias kBias = kBiasV;
  static constexpr bool kBiased = kBias != ScoreBias::kNone;
  static constexpr bool kSinks = kSinksV;
  static constexpr bool kChunked = kChunkedV;

  /// Returns the first key visible to a query that has `seen` keys up to and including its own.
  static LLMC_INLINE size_t first_key(size_t seen) {
    if constexpr (kChunked) return (seen - 1) / kWindow * kWindow;
    return kWindow != 0 && seen > kWindow ? seen - kWindow : 0;
  }
};

/// The columns of a tile that each of several consecutive rows sees. The first `step` rows, from
/// `row` on, see `seen`; every next `step` rows see one more column. If `step` is 0, all rows see
/// `seen`.
struct RowColumns {
  Columns seen;
  size_t row, step;
  size_t first_key;  // key of column 0

  LLMC_INLINE size_t end(size_t i) const {
    return step == 0 ? seen.end : seen.end + (i - row) / step;
  }
};

/// The rows that a worker processes together for a tile.
template <class Shape>
struct TileRows {
  float cap;                 // softcap, if scores are capped
  const float* query;        // [rows][padded dim], scaled
  const float* query_sum;    // [rows]: sum of the elements of each query; set if keys are codes
  float* probability;        // [rows][64]
  float* const* state;       // RowState memory of each row
  unsigned char* widened;    // attention_widened_bytes() of memory
  const float* const* bias;  // [rows]: bias of key 0, then of key 1, …; if Rule::kBiased
};

/// Converts products with codes to scores: key = scale * code + midpoint, so the query's product
/// with the key is scale * (product with the codes) + midpoint * (sum of the query).
template <class Tile, size_t kRows, size_t kGroups, class Vector, size_t kVectors>
LLMC_INLINE void scale_scores(const Tile& tile, size_t column, const float* query_sum,
                              Vector (&sum)[kRows][kVectors]) {
  constexpr size_t kWide = kGroups / kVectors;
  using V = Lanes<kWide>;
  using Floats = KvNumbers<KvFormat::kF32>;
  const unsigned char* scales[kGroups];
  for (size_t g = 0; g < kGroups; ++g) {
    scales[g] = reinterpret_cast<const unsigned char*>(tile.key_scales(column + g * kPanelRows));
  }
#pragma clang loop unroll(full)
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector scale = V::template load<Floats>(scales + v * kWide, 0);
    const Vector midpoint = V::template load<Floats>(scales + v * kWide, kPanelRows);
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      sum[r][v] = fma(scale, sum[r][v], midpoint * V::splat_at(query_sum + r));
    }
  }
}

/// Computes the scores of kRows rows for kGroups groups of 8 tokens from `column` on, and stores
/// them in `probability`. Each score is one dependency chain over head_dim.
template <class Tile, size_t kRows, size_t kGroups>
LLMC_INLINE void score_tile(const Tile& tile, size_t column, const float* query,
                            const float* query_sum, float* probability) {
  using Shape = typename Tile::Shape;
  constexpr size_t kWide = kGroups % 2 == 0 ? 2 : 1, kVectors = kGroups / kWide;
  using V = Lanes<kWide>;
  const unsigned char* keys[kGroups];
  for (size_t g = 0; g < kGroups; ++g) keys[g] = tile.keys(column + g * kPanelRows);
  typename V::Vector sum[kRows][kVectors];
  for (auto& row : sum) {
    for (auto& s : row) s = V::zero();
  }
  const auto step = [&](size_t d) LLMC_INLINE_LAMBDA {
    typename V::Vector key[kVectors];
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kVectors; ++v) {
      key[v] = V::template load<typename Tile::Keys>(keys + v * kWide, d * kPanelRows);
    }
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      const auto q = V::splat_at(query + r * Shape::kPadded + d);
#pragma clang loop unroll(full)
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = fma(q, key[v], sum[r][v]);
    }
  };
  size_t d = 0;
  if constexpr (kPrefetchesNext<Tile> && Shape::kHeadDim % 8 == 0) {
    if (tile.next_count(column) > 0) {
      const unsigned char* ahead[kGroups];
      for (size_t g = 0; g < kGroups; ++g) {
        const size_t at = column + g * kPanelRows;
        const bool wanted = tile.next_count(at) > 0;
        ahead[g] = wanted ? tile.next_keys(at)
                          : keys[g];  // without a next tile, prefetch the current keys again
        if constexpr (Tile::kScaledKeys) {
          if (wanted) prefetch_tile(tile.next_key_scales(at));
        }
      }
      prefetching_steps<typename Tile::Keys, kRows, kGroups>(Shape::kHeadDim, ahead, step);
      d = Shape::kHeadDim;
    }
  }
  for (; d < Shape::kHeadDim; ++d) step(d);
  if constexpr (Tile::kScaledKeys) scale_scores<Tile, kRows, kGroups>(tile, column, query_sum, sum);
  for (size_t r = 0; r < kRows; ++r) {
    float* to = probability + r * kAttentionTile + column;
    for (size_t v = 0; v < kVectors; ++v) V::store(to + v * kWide * kPanelRows, sum[r][v]);
  }
}

/// Returns the sum of a row: lane i adds x[i], x[i + 8], …; then the lanes are added.
template <size_t K>
LLMC_INLINE float row_sum(const float* x) {
  F32x8 sum = zero_f32();
  for (size_t i = 0; i < K; i += 8) sum = sum + load_row<K>(x, i);
  return reduce_add(sum);
}

/// Applies the softcap to a row's scores, adds the bias, and sets invisible columns in partly
/// visible vectors to -infinity. Returns the maximum score. `columns` are the visible columns.
template <class Rule>
LLMC_NOINLINE inline float largest_score(float* scores, Columns columns, float cap,
                                         const float* bias) {
  const F32x8 lowest = splat(-__builtin_inff());
  const size_t n = columns.end;
  const size_t begin = columns.begin / kPanelRows * kPanelRows;
  if constexpr (Rule::kCapped) {
    const F32x8 inverse = splat(1.0f / cap);
    for (size_t i = begin; i < n; i += 8) {
      store(scores + i, tanh(load(scores + i) * inverse) * splat(cap));
    }
  }
  if constexpr (Rule::kBiased) {
    size_t i = begin;
    for (; i + 8 <= n; i += 8) store(scores + i, load(scores + i) + load(bias + i));
    for (; i < n; ++i) scores[i] += bias[i];
  }
  if (begin != columns.begin && Rule::kWindow != 0) {
    float* first = scores + begin;
    store(first, select(lanes_below(columns.begin - begin), lowest, load(first)));
  }
  if (n % kPanelRows != 0) {
    // Columns from n on contain undefined cache memory.
    float* last = scores + n / kPanelRows * kPanelRows;
    store(last, select(lanes_below(n % kPanelRows), load(last), lowest));
  }
  F32x8 largest = lowest;
  for (size_t i = begin; i < n; i += 8) largest = max(load(scores + i), largest);
  return reduce_max(largest);
}

/// Replaces the scores of a row's visible columns by exp(score - largest). Returns `sum` plus these
/// values, lane by lane.
LLMC_NOINLINE inline F32x8 exp_scores(float* scores, Columns columns, float largest, F32x8 sum) {
  size_t i = columns.begin / kPanelRows * kPanelRows;
  for (; i + 8 < columns.end; i += 16) {
    const F32x16 p = exp_nonpositive(Lanes<2>::load(scores + i) - splat16(largest));
    Lanes<2>::store(scores + i, p);
    sum = sum + low(p);
    sum = sum + high(p);
  }
  if (i < columns.end) {
    const F32x8 p = exp_nonpositive(load(scores + i) - splat(largest));
    store(scores + i, p);
    sum = sum + p;
  }
  return sum;
}

/// Replaces the scores of the visible columns of kRows rows by exp(score - current maximum), and
/// adds these to the rows' sums. Stores in `factor` the factors by which the rows' previous outputs
/// must be multiplied. columns(r) are the visible columns of row r; `first` is the key of column 0.
template <class Shape, class Rule, size_t kRows, class ColumnsOf>
LLMC_INLINE void softmax_tile(const TileRows<Shape>& rows, size_t row, size_t first, float* factor,
                              ColumnsOf columns) {
  float* const* state = rows.state + row;
  float* probability = rows.probability + row * kAttentionTile;
  constexpr size_t kPadded = round_up(kRows, 8);
  float before[kPadded] = {}, now[kPadded] = {};
  bool larger = false;
  for (size_t r = 0; r < kRows; ++r) {
    const float* bias = nullptr;
    if constexpr (Rule::kBiased) bias = rows.bias[row + r] + first;
    const float seen =
        largest_score<Rule>(probability + r * kAttentionTile, columns(r), rows.cap, bias);
    before[r] = RowState<Shape>{state[r]}.largest();
    now[r] = seen > before[r] ? seen : before[r];
    larger |= now[r] != before[r];
    factor[r] = 1.0f;
  }
  // Usually no score is larger than the previous maximum; the factors are then e^0 = 1.
  if (larger) {
    for (size_t r = 0; r < kRows; r += 8) {
      const F32x8 from = load(before + r), to = load(now + r);
      store(before + r, select(less(from, to), exp_nonpositive(from - to), splat(1.0f)));
    }
    for (size_t r = 0; r < kRows; ++r) factor[r] = before[r];
  }
  for (size_t r = 0; r < kRows; ++r) {
    const RowState<Shape> kept{state[r]};
    kept.largest() = now[r];
    store(kept.sum_lanes(), exp_scores(probability + r * kAttentionTile, columns(r), now[r],
                                       load(kept.sum_lanes()) * splat(factor[r])));
  }
}

/// Multiplies the probabilities of kRows rows by the scales of the values, so that value_tile() can
/// use the codes without their scales.
template <class Tile, size_t kRows>
LLMC_INLINE void scale_probabilities(const Tile& tile, Columns columns, float* probability) {
  for (size_t c = columns.begin / kPanelRows * kPanelRows; c < columns.end; c += kPanelRows) {
    const F32x8 scale = load(tile.value_scales(c));
    if constexpr (kPrefetchesNext<Tile>) {
      if (tile.next_count(c) > 0) prefetch_tile(tile.next_value_scales(c));
    }
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      float* p = probability + r * kAttentionTile + c;
      store(p, load(p) * scale);
    }
  }
}

/// Computes output = output * factor + sum over the visible columns of probability * value, for
/// kGroups groups of 8 dims from dim 8*group on. Each output element is one dependency chain over
/// tokens.
template <class Tile, size_t kRows, size_t kGroups>
LLMC_INLINE void value_tile(const Tile& tile, Columns columns, size_t group, const float* factor,
                            const float* probability, float* const* state) {
  constexpr size_t kWide = kGroups % 2 == 0 ? 2 : 1, kVectors = kGroups / kWide;
  using V = Lanes<kWide>;
  const size_t first = group * kPanelRows;
  typename V::Vector sum[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      sum[r][v] = V::load(state[r] + first + v * kWide * kPanelRows) * V::splat_at(factor + r);
    }
  }
  for (size_t t = columns.begin; t < columns.end;) {
    const size_t contiguous = tile.contiguous_tokens(t), left = columns.end - t;
    const size_t run = left < contiguous ? left : contiguous;
    const unsigned char* values[kGroups];
    for (size_t g = 0; g < kGroups; ++g) values[g] = tile.values(group + g, t);
    const auto step = [&](size_t i) LLMC_INLINE_LAMBDA {
      typename V::Vector value[kVectors];
#pragma clang loop unroll(full)
      for (size_t v = 0; v < kVectors; ++v) {
        value[v] = V::template load<typename Tile::Values>(values + v * kWide, i * kPanelRows);
      }
#pragma clang loop unroll(full)
      for (size_t r = 0; r < kRows; ++r) {
        const auto p = V::splat_at(probability + r * kAttentionTile + t + i);
#pragma clang loop unroll(full)
        for (size_t v = 0; v < kVectors; ++v) sum[r][v] = fma(p, value[v], sum[r][v]);
      }
    };
    size_t i = 0;
    if constexpr (kPrefetchesNext<Tile>) {
      const size_t wanted = tile.next_count(t);
      const size_t prefetched = (run < wanted ? run : wanted) / kPanelRows * kPanelRows;
      if (prefetched > 0) {
        const unsigned char* ahead[kGroups];
        for (size_t g = 0; g < kGroups; ++g) ahead[g] = tile.next_values(group + g, t);
        prefetching_steps<typename Tile::Values, kRows, kGroups>(prefetched, ahead, step);
        i = prefetched;
      }
    }
    for (; i < run; ++i) step(i);
    t += run;
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      V::store(state[r] + first + v * kWide * kPanelRows, sum[r][v]);
    }
  }
}

/// Calls f<n>(first) for consecutive sets of n groups that cover [at, end): as many sets as
/// possible with n = kGroups, then with each of kFewer, of which the last must be 1.
template <size_t kGroups, size_t... kFewer, class F>
LLMC_INLINE void in_groups(size_t at, size_t end, F f) {
  for (; at + kGroups <= end; at += kGroups) f.template operator()<kGroups>(at);
  if constexpr (sizeof...(kFewer) > 0) in_groups<kFewer...>(at, end, f);
}
/// Returns the number of groups for a tile of kRows rows: enough sums to hide the latency of fma,
/// but not more than fit in registers. With several rows, the keys or values of the groups also
/// stay in registers; in the largest tiles, they are one sixth as many as the sums.
template <size_t kRows>
constexpr size_t attention_groups() {
  constexpr size_t kPerGroup = kRows > 1 ? kRows + 1 : 1;
  constexpr size_t kRegisters = kRows > 1 ? kAttentionSums + kAttentionSums / 6 : kAttentionSums;
  size_t groups = 1;
  while (kTiled && groups < 8 && groups * 2 * kPerGroup <= kRegisters) groups *= 2;
  return groups;
}

/// Adds, for one row of a row tile, the values of the columns that not all rows of the tile see.
template <class Tile>
LLMC_NOINLINE inline void attend_further(const Tile& tile, Columns columns,
                                         const float* probability, float* const* state) {
  const float factor = 1.0f;
  constexpr size_t kDims = Tile::Shape::kPadded / kPanelRows;
  in_groups<(kDims < 8 ? kDims : 8), 2, 1>(
      0, kDims, [&]<size_t kGroups>(size_t dim) LLMC_INLINE_LAMBDA {
        value_tile<Tile, 1, kGroups>(tile, columns, dim, &factor, probability, state);
      });
}

/// Processes kRows rows from `row` on for the visible columns of a tile. `is_last`: no further rows
/// use this tile.
template <class Tile, class Rule, size_t kRows>
LLMC_NOINLINE inline void attend_rows(const Tile& whole, const RowColumns& each,
                                      const TileRows<typename Tile::Shape>& rows, size_t row,
                                      bool is_last) {
  using Shape = typename Tile::Shape;
  Tile tile = whole;
  if constexpr (kPrefetchesNext<Tile>) {
    if (!is_last) tile.next = {};  // the last rows prefetch it
  }
  constexpr size_t kGroups = attention_groups<kRows>();
  const float* query = rows.query + row * Shape::kPadded;
  float* probability = rows.probability + row * kAttentionTile;
  // The columns that all rows see, which are those of the first row.
  const Columns columns{Rule::kWindow == 0 ? 0 : each.seen.begin, each.end(row)};
  const size_t first_group = columns.begin / kPanelRows;
  const size_t groups = ceil_div(each.end(row + kRows - 1), kPanelRows);
  const auto scores = [&]<size_t kNow>(size_t g) LLMC_INLINE_LAMBDA {
    score_tile<Tile, kRows, kNow>(tile, g * kPanelRows, query, rows.query_sum + row, probability);
  };
  if constexpr (kRows <= 2) {  // few chains, so a single group would wait for its sums
    in_groups<kGroups, 4, 2, 1>(first_group, groups, scores);
  } else {
    in_groups<kGroups, 1>(first_group, groups, scores);
  }
  if constexpr (kPrefetchesNext<Tile>) {
    if (is_last) prefetch_rest(tile, groups * kPanelRows, columns.end);
  }
  float factor[kRows];
  softmax_tile<Shape, Rule, kRows>(
      rows, row, each.first_key, factor,
      [&](size_t r) LLMC_INLINE_LAMBDA { return Columns{columns.begin, each.end(row + r)}; });
  if constexpr (Tile::kScaledValues) {
    scale_probabilities<Tile, kRows>(tile, {columns.begin, groups * kPanelRows}, probability);
  }
  constexpr size_t kDims = Shape::kPadded / kPanelRows;
  in_groups<(kDims < kGroups ? kDims : kGroups), 2, 1>(
      0, kDims, [&]<size_t kNow>(size_t dim) LLMC_INLINE_LAMBDA {
        value_tile<Tile, kRows, kNow>(tile, columns, dim, factor, probability, rows.state + row);
      });
  if constexpr (kPrefetchesNext<Tile>) tile.next = {};  // already prefetched
  for (size_t r = 1; r < kRows; ++r) {
    const Columns further{columns.end, each.end(row + r)};
    if (further.begin < further.end) {
      attend_further(tile, further, probability + r * kAttentionTile, rows.state + row + r);
    }
  }
}

/// Processes rows [row, end), as many as possible in tiles of kRows, the others in smaller tiles.
/// `seen` describes the columns that the rows see.
template <class Tile, class Rule, size_t kRows>
LLMC_INLINE void attend_tile(const Tile& tile, const RowColumns& seen,
                             const TileRows<typename Tile::Shape>& rows, size_t row, size_t end) {
  for (; row + kRows <= end; row += kRows) {
    attend_rows<Tile, Rule, kRows>(tile, seen, rows, row, row + kRows == end);
  }
  constexpr size_t kFewer = kRows > 6 ? 6 : kRows > 4 ? 4 : kRows / 2;
  if constexpr (kFewer > 0) {
    attend_tile<Tile, Rule, kFewer>(tile, seen, rows, row, end);
  }
}

/// Processes the kCount rows of one token, from `row` on, in tiles of about the same size of at
/// most 6 rows.
template <class Tile, class Rule, size_t kCount>
LLMC_INLINE void attend_group(const Tile& tile, const RowColumns& seen,
                              const TileRows<typename Tile::Shape>& rows, size_t row) {
  // On AVX-512, two tiles of 4 rows are faster than one tile of 8 rows.
  constexpr size_t kRows = ceil_div(kCount, ceil_div(kCount, 6));
  attend_rows<Tile, Rule, kRows>(tile, seen, rows, row, kRows == kCount);
  if constexpr (kRows < kCount) {
    attend_group<Tile, Rule, kCount - kRows>(tile, seen, rows, row + kRows);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
