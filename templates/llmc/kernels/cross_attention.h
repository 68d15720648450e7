#pragma once

#include "llmc/kernels/stage.h"

/// Attention to the encoded source of an encoder-decoder, with one-pass softmax (Dao et al. 2022):
///
///     out[t][h] = sum_j softmax_j(scale q[t][h] . k[h / group][j]) v[h / group][j]
///
/// A row sees all keys of its sequence's source. A work item is one head of one row, which
/// processes the keys in order, in tiles of 64. The bits of a result therefore do not depend on the
/// chunk, on the other sequences or on the distribution of work.
namespace llmc {
inline namespace LLMC_ISA {

inline constexpr size_t kCrossTile = 64;

/// Computes out f32[kHeadDim] of one query for keys and values f32[count][kHeadDim].
template <size_t kHeadDim>
LLMC_NOINLINE inline void cross_attend(const float* q, const float* keys, const float* values,
                                       size_t count, float scale, float* out) {
  constexpr size_t kGroups = ceil_div(kHeadDim, 8);
  F32x8 query[kGroups], sum[kGroups];
  for (size_t g = 0; g < kGroups; ++g) {
    query[g] = load_row<kHeadDim>(q, g * 8) * splat(scale);
    sum[g] = zero_f32();
  }
  F32x8 total = zero_f32();
  float largest = -__builtin_inff();
  for (size_t first = 0; first < count; first += kCrossTile) {
    const size_t size = count - first < kCrossTile ? count - first : kCrossTile;
    float probability[kCrossTile];
    float most = largest;
    for (size_t j = 0; j < kCrossTile; ++j) {
      probability[j] = -__builtin_inff();
      if (j >= size) continue;
      const float* key = keys + (first + j) * kHeadDim;
      F32x8 dot = zero_f32();
      for (size_t g = 0; g < kGroups; ++g) dot = fma(query[g], load_row<kHeadDim>(key, g * 8), dot);
      probability[j] = reduce_add(dot);
      most = probability[j] > most ? probability[j] : most;
    }
    const F32x8 factor = exp_nonpositive(splat(largest - most));
    total = total * factor;
    for (size_t j = 0; j < kCrossTile; j += 8) {
      const F32x8 p = exp_nonpositive(load(probability + j) - splat(most));
      store(probability + j, p);
      total = total + p;
    }
    for (size_t g = 0; g < kGroups; ++g) {
      F32x8 s = sum[g] * factor;
      for (size_t j = 0; j < size; ++j)
        s = fma(splat(probability[j]), load_row<kHeadDim>(values + (first + j) * kHeadDim, g * 8),
                s);
      sum[g] = s;
    }
    largest = most;
  }
  const F32x8 divisor = splat(reduce_add(total));
  for (size_t g = 0; g < kGroups; ++g) store_row<kHeadDim>(out, g * 8, sum[g] / divisor);
}

template <size_t kHeads, size_t kKvHeads, size_t kHeadDim>
struct CrossAttentionTask {
  const llmc_run* run;
  size_t layer;
  const float* q;
  float* out;
  float scale;
  WorkPartition partition;  // of rows times heads

  void work(size_t slot) {
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      for (size_t i = range.begin; i < range.end; ++i) {
        const llmc_segment& segment = segment_of(run, i / kHeads);
        const size_t count = segment.source_rows, head = count * kHeadDim;
        const size_t kv_head = i % kHeads / (kHeads / kKvHeads);
        const float* keys = segment.source + (layer * 2 * kKvHeads + kv_head) * head;
        cross_attend<kHeadDim>(q + i * kHeadDim, keys, keys + kKvHeads * head, count, scale,
                               out + i * kHeadDim);
      }
    }
  }
};

/// Computes attention of q f32[tokens][kHeads][kHeadDim] to out, of the same shape, over the state
/// of layer `layer` of each row's source: keys f32[kKvHeads][source][kHeadDim], then values.
template <size_t kHeads, size_t kKvHeads, size_t kHeadDim>
inline void cross_attention(const KernelContext& context, size_t layer, float scale, const float* q,
                            float* out) {
  const llmc_run* run = context.run;
  size_t keys = 0;  // of all rows together
  for (uint32_t i = 0; i < run->segment_count; ++i)
    keys += size_t{run->segments[i].rows} * run->segments[i].source_rows;
  const size_t workers = workers_for(run, 2 * kKvHeads * kHeadDim * sizeof(float), keys);
  CrossAttentionTask<kHeads, kKvHeads, kHeadDim> task{
      run, layer, q, out, scale, WorkPartition(run, size_t{context.tokens} * kHeads, workers)};
  for_each_worker(run, task);
}

}  // namespace LLMC_ISA
}  // namespace llmc
