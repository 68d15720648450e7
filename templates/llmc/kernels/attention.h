#pragma once

#include "llmc/kernels/attention_tile.h"

/// Causal grouped-query attention over the KV blocks, softmax in one pass (Dao et al. 2022):
///   out[t][h] = sum_j softmax_j(scale q[t][h] . k[j][h / group]) v[j][h / group],  j <= position +
///   t
///
/// The cache is cut into splits of 512 tokens and these into tiles of 64, both counted from
/// position 0; a query goes through its tiles in order, and its splits are merged in order. So its
/// bits depend on its position alone: not on the chunk it came in, nor on who computed what.
///
/// Work item: (tokens whose query rows fill a register tile, KV head), with all query heads of the
/// group; when few tokens meet a long cache also (…, split), and the merge follows in a second
/// step.
namespace llmc {
inline namespace LLMC_ISA {

template <class Shape>
struct AttentionTask {
  static constexpr size_t kGroup = Shape::kGroup;
  static constexpr size_t kTokens = attention_token_group(Shape::kHeads, Shape::kKvHeads);
  static constexpr size_t kRows = kTokens * kGroup;
  static constexpr size_t kStateFloats = attention_state_bytes(Shape::kHeadDim) / sizeof(float);
  static constexpr size_t kQueryFloats = round_up(Shape::kPadded, 16);

  const llmc_run* run;
  KvLayer<Shape> cache;
  float scale;
  const float* q;
  float* out;
  size_t tokens, workers, splits;
  bool spread;      // splits are work items of their own
  float* slots;     // of each worker: states, states, queries, probabilities
  float* partials;  // [splits][tokens][heads] states, when spread

  void work(size_t slot) {
    const size_t token_groups = ceil_div(tokens, kTokens);
    const size_t items = token_groups * Shape::kKvHeads * (spread ? splits : 1);
    const Range range = worker_range(items, slot, workers);
    for (size_t item = range.begin; item < range.end; ++item) {
      const size_t split = spread ? item % splits : 0;
      const size_t pair = spread ? item / splits : item;
      attend(slot, worker_range(tokens, pair / Shape::kKvHeads, token_groups),
             pair % Shape::kKvHeads, split, spread ? split + 1 : splits);
    }
  }

  LLMC_INLINE float* partial(size_t split, size_t token, size_t head) const {
    return partials + ((split * tokens + token) * Shape::kHeads + head) * kStateFloats;
  }

  /// Splits [begin, end) for some tokens (at most kTokens) and one KV head.
  void attend(size_t slot, Range range, size_t kv_head, size_t begin, size_t end) {
    const size_t token = range.begin;
    const size_t group_tokens = range.end - range.begin;
    const size_t first_head = kv_head * kGroup;
    float* memory =
        slots + slot * (attention_slot_bytes(Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim) /
                        sizeof(float));
    float* merged = memory;
    float* current = merged + kRows * kStateFloats;
    float* queries = current + kRows * kStateFloats;
    float* probability = queries + kRows * kQueryFloats;

    for (size_t t = 0; t < group_tokens; ++t) {
      const float* from = q + ((token + t) * Shape::kHeads + first_head) * Shape::kHeadDim;
      for (size_t g = 0; g < kGroup; ++g) {
        float* to = queries + (t * kGroup + g) * Shape::kPadded;
        for (size_t d = 0; d < Shape::kHeadDim; ++d) to[d] = from[g * Shape::kHeadDim + d] * scale;
      }
    }
    // Keys the first token of the group sees; each further token sees one more.
    const size_t seen = run->position + token + 1;
    float* state[kRows];
    for (size_t split = begin; split < end; ++split) {
      for (size_t row = 0; row < group_tokens * kGroup; ++row) {
        if (spread) {
          state[row] = partial(split, token + row / kGroup, first_head + row % kGroup);
        } else {
          state[row] = (split == begin ? merged : current) + row * kStateFloats;
        }
        RowState<Shape>{state[row]}.begin();
      }
      const TileRows<Shape> rows{queries, probability, state};
      attend_split(rows, kv_head, split, seen, group_tokens);
      for (size_t t = 0; t < group_tokens; ++t) {
        if (seen + t <= split * kAttentionSplit) continue;
        for (size_t row = t * kGroup; row < (t + 1) * kGroup; ++row) {
          RowState<Shape>{state[row]}.end();
          if (!spread && split != begin) {
            merge_states(RowState<Shape>{merged + row * kStateFloats}, RowState<Shape>{state[row]});
          }
        }
      }
    }
    if (spread) return;
    for (size_t row = 0; row < group_tokens * kGroup; ++row) {
      write_output(RowState<Shape>{merged + row * kStateFloats},
                   out + ((token + row / kGroup) * Shape::kHeads + first_head + row % kGroup) *
                             Shape::kHeadDim);
    }
  }

  LLMC_INLINE void attend_split(const TileRows<Shape>& rows, size_t kv_head, size_t split,
                                size_t seen, size_t group_tokens) const {
    const size_t last = seen + group_tokens - 1;  // keys the last token sees
    const size_t split_end = (split + 1) * kAttentionSplit;
    const size_t stop = last < split_end ? last : split_end;
    for (size_t at = split * kAttentionSplit; at < stop; at += kAttentionTile) {
      // Tokens that see part of this tile take it one by one, those behind them whole.
      size_t t = seen > at ? 0 : at - seen + 1;
      for (; t < group_tokens && seen + t < at + kAttentionTile; ++t) {
        attend_tile<Shape>(cache, kv_head, at, seen + t - at, rows, t * kGroup, (t + 1) * kGroup);
      }
      attend_tile<Shape>(cache, kv_head, at, kAttentionTile, rows, t * kGroup,
                         group_tokens * kGroup);
    }
  }
};

/// After a spread attention: merges each query row's splits in order and writes it.
template <class Shape>
struct AttentionMergeTask {
  AttentionTask<Shape>& task;

  void work(size_t slot) {
    const Range range = worker_range(task.tokens * Shape::kHeads, slot, task.workers);
    for (size_t row = range.begin; row < range.end; ++row) {
      const size_t token = row / Shape::kHeads, head = row % Shape::kHeads;
      const RowState<Shape> state{task.partial(0, token, head)};
      const size_t splits = ceil_div(task.run->position + token + 1, kAttentionSplit);
      for (size_t split = 1; split < splits; ++split) {
        merge_states(state, RowState<Shape>{task.partial(split, token, head)});
      }
      write_output(state, task.out + row * Shape::kHeadDim);
    }
  }
};

/// q f32[tokens][heads][head_dim], out f32[tokens][heads * head_dim]. Keys and values up to
/// run->position + tokens are in the cache.
template <class Shape>
inline void attention(const Stage& stage, size_t layer, float scale, const float* q, float* out) {
  const llmc_run* run = stage.run;
  const size_t splits = ceil_div(run->position + stage.tokens, kAttentionSplit);
  float* slots = reinterpret_cast<float*>(stage.work);
  float* partials =
      slots +
      run->threads *
          (attention_slot_bytes(Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim) / sizeof(float));
  AttentionTask<Shape> task{run,
                            kv_layer<Shape>(run, layer),
                            scale,
                            q,
                            out,
                            stage.tokens,
                            run->threads,
                            splits,
                            stage.tokens <= kSplitTokens && splits > 1 && run->threads > 1,
                            slots,
                            partials};
  for_each_worker(run, task);
  if (task.spread) {
    AttentionMergeTask<Shape> merge{task};
    for_each_worker(run, merge);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
