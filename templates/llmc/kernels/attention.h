#pragma once

#include "llmc/kernels/attention_tile.h"
#include "llmc/kernels/source.h"

/// Causal grouped-query attention over the KV blocks, with online softmax (Dao et al. 2022):
///
///     out[t][h] = sum_j softmax_j(scale q[t][h] . k[j][h / group]) v[j][h / group],
///     j <= position + t
///
/// With a sliding window w, only the last w of these keys are used; with chunks of w tokens, only
/// the keys in the chunk of the query. With a softcap c, scores are replaced by c tanh(score / c).
/// With a bias, a number from a table of each head is then added to the score. With sinks, the
/// softmax includes the score of one more key, whose value is 0. With a SourceShape, keys and
/// values are those of the sequence's source, and every query sees all of them.
///
/// The cache is divided into splits of 512 tokens, and each split into tiles of 64 tokens, aligned
/// to position 0. A query processes its visible tiles in order, and its splits are merged in order.
/// The bits of its result therefore depend only on its position, not on its chunk or on the
/// distribution of work.
///
/// A work item is one KV head with all its query heads, and a number of tokens of a sequence that
/// gives about kAttentionRows query rows, in whole register tiles. If few tokens attend to a long
/// cache, a work item is also limited to one split, and a second step merges the splits.
namespace llmc {
inline namespace LLMC_ISA {

template <class Shape, class Rule>
struct AttentionTask {
  static constexpr size_t kGroup = Shape::kGroup;
  static constexpr size_t kTokens = attention_token_group(Shape::kHeads, Shape::kKvHeads);
  static constexpr size_t kRows = kTokens * kGroup;
  static constexpr size_t kTileTokens = kGroup < kAttentionRowTile ? kAttentionRowTile / kGroup : 1;
  static_assert(kTokens % kTileTokens == 0, "a group is whole tiles");
  /// Maximum number of rows for which the loops over row tiles convert the numbers of a tile of the
  /// cache. More rows share a copy as floats (WidenedTile).
  static constexpr size_t kKeyRows = CachedTile<Shape>::Keys::kConvertedRows;
  static constexpr size_t kValueRows = CachedTile<Shape>::Values::kConvertedRows;
  static constexpr size_t kConvertedRows = kKeyRows < kValueRows ? kKeyRows : kValueRows;
  /// Maximum number of rows for which keys and values are always prefetched. More rows have so much
  /// arithmetic that prefetching helps only if keys and values come from main memory, that is, if
  /// the rows see more than kKeysInCache keys, which do not fit in a second-level cache.
  static constexpr size_t kPrefetchedRows = 12;
  static constexpr size_t kKeysInCache =
      (256 << 10) /
      (Shape::kPadded * (CachedTile<Shape>::Keys::kBytes + CachedTile<Shape>::Values::kBytes));
  static constexpr size_t kStateFloats = attention_state_bytes(Shape::kHeadDim) / sizeof(float);
  static constexpr size_t kQueryFloats = round_up(Shape::kPadded, 16);
  static constexpr size_t kSlotFloats =
      attention_slot_bytes(Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim, Shape::kFormats) /
      sizeof(float);

  const llmc_run* run;
  size_t layer;
  float scale, cap;
  ScoreTables tables;
  const float* q;
  float* out;
  WorkPartition partition;  // of items
  /// Whether splits are separate work items, which requires a single segment. The splits that any
  /// token sees are then [first_split, first_split + splits).
  bool spread;
  size_t first_split, splits;
  float* slots;     // memory of each worker (attention_slot_bytes())
  float* partials;  // states [splits][tokens][heads], if `spread`

  void work(size_t slot) {
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      // Find the segment of the item.
      const llmc_segment* segment = run->segments;
      size_t first = 0, count = items(segment->rows, spread ? splits : 1);
      for (size_t item = range.begin; item < range.end; ++item) {
        while (item - first >= count) {
          first += count;
          ++segment;
          count = items(segment->rows, 1);
        }
        const size_t end = range.end - first;
        attend_item(slot, *segment, {item - first, end < count ? end : count});
      }
    }
  }
  /// Processes item own.begin of a segment. If the next item belongs to another head, also
  /// prefetches the first tile of that head. `own` are the remaining items of the worker in the
  /// segment.
  LLMC_INLINE void attend_item(size_t slot, const llmc_segment& segment, Range own) {
    const size_t token_groups = ceil_div(segment.rows, kTokens);
    const auto pair_of = [&](size_t item) { return spread ? item / splits : item; };
    // Process all tokens of a head before the next head, so that its keys and values stay in a CPU
    // cache.
    const size_t head = pair_of(own.begin) / token_groups;
    const size_t number = pair_of(own.begin) % token_groups;
    const bool is_last = number + 1 == token_groups;  // the next item belongs to another head
    const Range heads{head, is_last ? pair_of(own.end - 1) / token_groups + 1 : head + 1};
    const Range group = tokens_of(segment.rows, number, token_groups);
    size_t begin = first_split + own.begin % splits, end = begin + 1;
    if (!spread) {
      begin = split_of(seen_by(segment, group.begin));
      end = ceil_div(seen_by(segment, segment.rows - 1), kAttentionSplit);
    }
    attend(slot, segment, group, heads, begin, end);
  }
  /// Returns the tokens of group `group` of `groups`. Groups have about the same size, and all
  /// except the last one are whole tiles of rows.
  static LLMC_INLINE Range tokens_of(size_t tokens, size_t group, size_t groups) {
    const Range tiles = worker_range(ceil_div(tokens, kTileTokens), group, groups);
    const size_t end = tiles.end * kTileTokens;
    return {tiles.begin * kTileTokens, end < tokens ? end : tokens};
  }
  static LLMC_INLINE size_t items(size_t tokens, size_t splits) {
    return ceil_div(tokens, kTokens) * Shape::kKvHeads * splits;
  }

  /// Returns the number of keys that a token of a segment sees without a window or chunks.
  static LLMC_INLINE size_t seen_by(const llmc_segment& segment, size_t token) {
    if constexpr (Shape::kOfSource) return segment.source_rows;
    return size_t{segment.position} + token + 1;
  }
  /// Returns the same for the token that is `t` tokens after one that sees `seen` keys.
  static LLMC_INLINE size_t seen_after(size_t seen, size_t t) {
    return Shape::kOfSource ? seen : seen + t;
  }
  static LLMC_INLINE KvLayer<Shape> layer_of(const llmc_segment& segment, size_t layer) {
    if constexpr (Shape::kOfSource) return source_layer<Shape>(segment, layer);
    return kv_layer<Shape>(segment.blocks, layer);
  }
  /// Returns the first split in which a query with `seen` keys (seen_by()) sees keys.
  static LLMC_INLINE size_t split_of(size_t seen) {
    return Rule::first_key(seen) / kAttentionSplit;
  }
  LLMC_INLINE float* partial(size_t split, size_t token, size_t head) const {
    const size_t row = ((split - first_split) * run->count + token) * Shape::kHeads + head;
    return partials + row * kStateFloats;
  }

  /// Processes splits [begin, end) for KV head heads.begin and the tokens `range` of a segment, at
  /// most kTokens. If heads.end is greater than heads.begin + 1, the next head is prefetched.
  void attend(size_t slot, const llmc_segment& segment, Range range, Range heads, size_t begin,
              size_t end) {
    const KvLayer<Shape> cache = layer_of(segment, layer);
    const size_t token = segment.row + range.begin;
    const size_t group_tokens = range.end - range.begin;
    const size_t first_head = heads.begin * kGroup;
    float* memory = slots + slot * kSlotFloats;
    float* merged = memory;
    float* current = merged + kRows * kStateFloats;
    float* queries = current + kRows * kStateFloats;
    float* probability = queries + kRows * kQueryFloats;
    auto* widened = reinterpret_cast<unsigned char*>(probability + kRows * kAttentionTile);

    for (size_t t = 0; t < group_tokens; ++t) {
      const float* from = q + ((token + t) * Shape::kHeads + first_head) * Shape::kHeadDim;
      for (size_t g = 0; g < kGroup; ++g) {
        float* to = queries + (t * kGroup + g) * Shape::kPadded;
        for (size_t d = 0; d < Shape::kHeadDim; ++d) to[d] = from[g * Shape::kHeadDim + d] * scale;
      }
    }
    float query_sum[kRows];
    if constexpr (kv_has_scale(Shape::kFormats.keys)) {
      for (size_t row = 0; row < group_tokens * kGroup; ++row) {
        query_sum[row] = row_sum<Shape::kHeadDim>(queries + row * Shape::kPadded);
      }
    }
    const size_t seen = seen_by(segment, range.begin);
    const float* row_bias[kRows];
    if constexpr (Rule::kBiased) {
      for (size_t row = 0; row < group_tokens * kGroup; ++row) {
        row_bias[row] = tables.bias + (first_head + row % kGroup) * tables.columns;
        if constexpr (Rule::kBias == ScoreBias::kByDistance)
          row_bias[row] += tables.columns - seen - row / kGroup;
      }
    }
    float* state[kRows];
    for (size_t split = begin; split < end; ++split) {
      for (size_t row = 0; row < group_tokens * kGroup; ++row) {
        if (spread) {
          state[row] = partial(split, token + row / kGroup, first_head + row % kGroup);
        } else {
          const bool first = split == split_of(seen_after(seen, row / kGroup));
          state[row] = (first ? merged : current) + row * kStateFloats;
        }
        RowState<Shape>{state[row]}.begin();
      }
      const TileRows<Shape> rows{cap, queries, query_sum, probability, state, widened, row_bias};
      attend_split(cache, rows, heads, split, seen, group_tokens);
      for (size_t t = 0; t < group_tokens; ++t) {
        const size_t now = seen_after(seen, t), first = split_of(now);
        if (now <= split * kAttentionSplit || split < first) continue;
        for (size_t row = t * kGroup; row < (t + 1) * kGroup; ++row) {
          RowState<Shape>{state[row]}.end();
          if (!spread && split != first) {
            merge_states(RowState<Shape>{merged + row * kStateFloats}, RowState<Shape>{state[row]});
          }
        }
      }
    }
    if (spread) return;
    for (size_t row = 0; row < group_tokens * kGroup; ++row) {
      finish(RowState<Shape>{merged + row * kStateFloats}, first_head + row % kGroup,
             out + ((token + row / kGroup) * Shape::kHeads + first_head + row % kGroup) *
                       Shape::kHeadDim);
    }
  }

  /// Writes the result of a row of query head `head` whose splits are merged.
  LLMC_INLINE void finish(RowState<Shape> state, size_t head, float* to) const {
    if constexpr (Rule::kSinks) add_sink(state, tables.sinks[head]);
    write_output(state, to);
  }

  /// Returns the tile that is processed after the tile at `at` of KV head heads.begin, within keys
  /// [first, last). After the last tile of the head, this is the first tile of the next head, if
  /// any.
  static LLMC_INLINE NextTile next_tile(size_t at, size_t first, size_t last, Range heads) {
    constexpr bool kFits =
        kAttentionTile % Shape::kBlockTokens == 0 || Shape::kBlockTokens % kAttentionTile == 0;
    size_t head = heads.begin, token = at + kAttentionTile;
    if (token >= last) {
      if (++head == heads.end) return {};
      token = first / kAttentionTile * kAttentionTile;
    }
    const size_t begin = first > token ? (first - token) / kPanelRows * kPanelRows : 0;
    const size_t left = round_up(last - token, kPanelRows);
    return {head, token, begin, left < kAttentionTile ? left : kAttentionTile,
            kFits && begin == 0 && first <= at};
  }
  static LLMC_INLINE void attend_split(const KvLayer<Shape>& cache, const TileRows<Shape>& rows,
                                       Range heads, size_t split, size_t seen,
                                       size_t group_tokens) {
    const size_t kv_head = heads.begin;
    const size_t last = seen_after(seen, group_tokens - 1);  // number of keys the last token sees
    const size_t split_end = (split + 1) * kAttentionSplit;
    const size_t stop = last < split_end ? last : split_end;
    const size_t first = Rule::first_key(seen) / kAttentionTile * kAttentionTile;
    size_t at = split * kAttentionSplit;
    if (at < first) at = first;
    for (; at < stop; at += kAttentionTile) {
      const bool prefetched =
          group_tokens * kGroup <= kPrefetchedRows || last - first > kKeysInCache;
      const NextTile next = kPrefetches && prefetched
                                ? next_tile(at, Rule::first_key(seen), last, heads)
                                : NextTile{};
      const CachedTile<Shape> cached{cache, kv_head, at, next};
      if constexpr (kRows > kConvertedRows) {
        if (group_tokens * kGroup > kConvertedRows) {
          const WidenedTile<Shape> widened{cached, rows.widened};
          const size_t seen_first = Rule::first_key(seen);
          const Columns columns{seen_first > at ? seen_first - at : 0,
                                stop - at < kAttentionTile ? stop - at : kAttentionTile};
          widen(widened, columns);
          attend_at(widened, rows, at, seen, group_tokens);
          continue;
        }
      }
      attend_at(cached, rows, at, seen, group_tokens);
    }
  }
  /// Processes all rows for the tile at `at`.
  template <class Tile>
  static LLMC_INLINE void attend_at(Tile tile, const TileRows<Shape>& rows, size_t at, size_t seen,
                                    size_t group_tokens) {
    constexpr bool kEvenly = kTiled && HasNextTile<Tile> && kGroup <= kConvertedRows;
    // Tokens that see all columns of this tile are processed together. Tokens that see only a part
    // of it are also processed together (with causal attention, each sees one column more than the
    // previous token), unless a window gives them different first columns.
    for (size_t t = 0; t < group_tokens;) {
      const Columns columns = columns_of(seen_after(seen, t), at);
      size_t end = t + 1;
      const bool whole = columns.end - columns.begin == kAttentionTile;
      if (whole) {
        while (end < group_tokens && Rule::first_key(seen_after(seen, end)) <= at) ++end;
      } else if (Rule::kWindow == 0 && columns.end > 0) {
        while (end < group_tokens && seen_after(seen, end) <= at + kAttentionTile) ++end;
      }
      if (columns.begin < columns.end) {
        const RowColumns each{columns, t * kGroup, whole || Shape::kOfSource ? 0 : kGroup, at};
        if (kEvenly && group_tokens == 1) {
          if constexpr (kEvenly) attend_group<Tile, Rule, kGroup>(tile, each, rows, 0);
        } else {
          attend_tile<Tile, Rule, kTiled ? kAttentionRowTile : 1>(tile, each, rows, t * kGroup,
                                                                  end * kGroup);
        }
        if constexpr (kPrefetchesNext<Tile>) tile.next = {};  // is prefetched
      }
      t = end;
    }
  }
  /// Returns the columns of the tile at `at` that a query with `seen` keys sees.
  static LLMC_INLINE Columns columns_of(size_t seen, size_t at) {
    const size_t first = Rule::first_key(seen), tile_end = at + kAttentionTile;
    if (seen <= at || first >= tile_end) return {0, 0};
    return {first > at ? first - at : 0, seen < tile_end ? seen - at : kAttentionTile};
  }
};

/// Merges the splits of each query row in order and writes the result, if splits were separate work
/// items.
template <class Shape, class Rule>
struct AttentionMergeTask {
  AttentionTask<Shape, Rule>& task;
  WorkPartition partition;

  void work(size_t slot) {
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      for (size_t row = range.begin; row < range.end; ++row) merge(row);
    }
  }
  LLMC_INLINE void merge(size_t row) const {
    const size_t token = row / Shape::kHeads, head = row % Shape::kHeads;
    const size_t seen = task.seen_by(*task.run->segments, token), first = task.split_of(seen);
    const RowState<Shape> state{task.partial(first, token, head)};
    const size_t end = ceil_div(seen, kAttentionSplit);
    for (size_t split = first + 1; split < end; ++split) {
      merge_states(state, RowState<Shape>{task.partial(split, token, head)});
    }
    task.finish(state, head, task.out + row * Shape::kHeadDim);
  }
};

/// Computes attention of q f32[tokens][heads][head_dim] to out f32[tokens][heads * head_dim]. The
/// keys and values of these and all previous tokens must be in the caches of their sequences. `cap`
/// is the softcap, used if Rule::kCapped. `tables` must contain the tables that Rule needs.
template <class Shape, class Rule = AttentionRule<>>
inline void attention(const KernelContext& context, size_t layer, float scale, const float* q,
                      float* out, float cap = 0, const ScoreTables& tables = {}) {
  using Task = AttentionTask<Shape, Rule>;
  const llmc_run* run = context.run;
  float* slots = reinterpret_cast<float*>(context.work);
  float* partials = slots + run->threads * Task::kSlotFloats;
  // Keys and values are read like weights, so their size determines the number of workers.
  constexpr size_t kKeyBytes =
      kv_layer_bytes(Shape::kKvHeads, Shape::kHeadDim, Shape::kBlockTokens, Shape::kFormats) /
      Shape::kBlockTokens;
  size_t bytes = 0, items = 0, first_split = 0, splits = 1;
  for (uint32_t i = 0; i < run->segment_count; ++i) {
    const llmc_segment& segment = run->segments[i];
    const size_t keys = Task::seen_by(segment, segment.rows - 1);
    first_split = Task::split_of(Task::seen_by(segment, 0));
    splits = ceil_div(keys, kAttentionSplit) - first_split;
    bytes += (keys - first_split * kAttentionSplit) * kKeyBytes * segment.rows;
    items += Task::items(segment.rows, 1);
  }
  const size_t workers = workers_for(run, bytes, 1);
  const bool spread =
      run->segment_count == 1 && run->count <= kSplitTokens && splits > 1 && workers > 1;
  if (spread) items *= splits;
  Task task{run,    layer,       scale,  cap,   tables,  q, out, WorkPartition(run, items, workers),
            spread, first_split, splits, slots, partials};
  for_each_worker(run, task);
  if (spread) {
    AttentionMergeTask<Shape, Rule> merge{
        task, WorkPartition(run, context.tokens * Shape::kHeads, workers)};
    for_each_worker(run, merge);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
