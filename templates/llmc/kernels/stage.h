#pragma once

#include "llmc/math.h"
#include "llmc/model.h"
#include "llmc/sizes.h"

/// What every stage gets, and how its work is spread over the workers.
namespace llmc {
inline namespace LLMC_ISA {

struct Stage {
  const llmc_run* run;
  /// Rows of this stage: run->count, or 1 for the head.
  uint32_t tokens;
  /// Scratch of this call, 64-byte aligned; nothing in it outlives the call.
  unsigned char* work;
};

/// Bytes ahead of a weight stream's position that are asked for: what arrives during about one
/// access to main memory.
inline constexpr size_t kPrefetchAhead = 2048;

struct Range {
  size_t begin, end;
};
/// The part of 0..total that worker `slot` of `workers` does: consecutive, sizes differ by one.
LLMC_INLINE Range worker_range(size_t total, size_t slot, size_t workers) {
  return {total * slot / workers, total * (slot + 1) / workers};
}

/// Weights that a worker should have to itself, in bytes times tokens: it reads them in about the
/// time it takes to meet the others.
inline constexpr size_t kWorkerBytes = 24 << 10;
/// How many of the run's workers to share `bytes` of weights, seen by `tokens` tokens, among.
LLMC_INLINE size_t workers_for(const llmc_run* run, size_t bytes, size_t tokens) {
  const size_t wanted = bytes * tokens / kWorkerBytes;
  if (wanted <= 1) return 1;
  return wanted < run->threads ? wanted : run->threads;
}

/// Runs task.work(slot) once for each of its `workers` and returns when all are done.
template <class Task>
LLMC_INLINE void for_each_worker(const llmc_run* run, Task& task) {
  if (task.workers == 1) {
    task.work(0);
    return;
  }
  run->parallel_for(
      run->user, [](void* arg, uint32_t slot) { static_cast<Task*>(arg)->work(slot); }, &task,
      static_cast<uint32_t>(task.workers));
}

/// Spreads `tokens` rows over the workers: row(token) for each.
template <class Row>
struct TokenTask {
  Row row;
  size_t tokens, workers;
  void work(size_t slot) {
    const Range range = worker_range(tokens, slot, workers);
    for (size_t t = range.begin; t < range.end; ++t) row(t);
  }
};
template <class Row>
LLMC_INLINE void for_each_token(const Stage& stage, Row row) {
  TokenTask<Row> task{row, stage.tokens, stage.run->threads};
  if (stage.tokens == 1) {
    task.row(0);  // one row is not worth waking anybody
    return;
  }
  for_each_worker(stage.run, task);
}

/// Eight floats of a row of compile-time width K at i: the row's tail is filled up with zeros.
template <size_t K>
LLMC_INLINE F32x8 load_row(const float* row, size_t i) {
  if constexpr (K % 8 == 0) return load(row + i);
  return i + 8 <= K ? load(row + i) : load_partial(row + i, K - i);
}
template <size_t K>
LLMC_INLINE void store_row(float* row, size_t i, F32x8 v) {
  if (K % 8 == 0 || i + 8 <= K) {
    store(row + i, v);
  } else {
    store_partial(row + i, v, K - i);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
