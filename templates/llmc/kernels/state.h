#pragma once

#include "llmc/kernels/stage.h"

/// Recurrent states of sequences. During a chunk, `next`, f32[tokens][Width], contains the state
/// after each row's token. The state before a token is in the previous row of `next`; for the first
/// row of a segment, it is at `offset` bytes in the sequence's state memory (llmc_segment::state).
namespace llmc {
inline namespace LLMC_ISA {

/// Returns the state before the token of row `t`.
template <size_t Width>
LLMC_INLINE const float* state_before(const KernelContext& context, size_t t, uint64_t offset,
                                      const float* next) {
  const llmc_segment& segment = segment_of(context.run, t);
  if (t != segment.row) return next + (t - 1) * Width;
  return reinterpret_cast<const float*>(segment.state + offset);
}

/// Stores the state after the last row of each segment in the memory of the sequence.
template <size_t Width>
LLMC_INLINE void store_state(const KernelContext& context, uint64_t offset, const float* next) {
  for (uint32_t i = 0; i < context.run->segment_count; ++i) {
    const llmc_segment& segment = context.run->segments[i];
    __builtin_memcpy(segment.state + offset, next + (segment.row + segment.rows - 1) * Width,
                     Width * sizeof(float));
  }
}

/// Calls row(t) for the rows of each segment in order. Segments are distributed over the workers.
template <class Row>
struct SegmentTask {
  const llmc_segment* segments;
  Row row;
  WorkPartition partition;
  LLMC_INLINE void run(const llmc_segment& segment) {
    for (size_t t = segment.row; t < size_t{segment.row} + segment.rows; ++t) row(t);
  }
  void work(size_t slot) {
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next())
      for (size_t i = range.begin; i < range.end; ++i) run(segments[i]);
  }
};
template <class Row>
LLMC_INLINE void for_each_token_in_order(const KernelContext& context, Row row) {
  const llmc_run* const run = context.run;
  SegmentTask<Row> task{run->segments, row, WorkPartition(run, run->segment_count, run->threads)};
  if (run->segment_count == 1) {
    task.run(run->segments[0]);
    return;
  }
  for_each_worker(run, task);
}

/// kv_save and kv_load (llmc_model) of a model without keys and values.
inline void kv_save_nothing(const unsigned char*, uint32_t, uint32_t, unsigned char*) {}
inline void kv_load_nothing(unsigned char*, uint32_t, uint32_t, const unsigned char*) {}

}  // namespace LLMC_ISA
}  // namespace llmc
