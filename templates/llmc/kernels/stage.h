#pragma once

#include "llmc/math.h"
#include "llmc/model.h"
#include "llmc/sizes.h"

/// What every stage gets, and how its work is spread over the workers.
namespace llmc {
inline namespace LLMC_ISA {

struct KernelContext {
  const llmc_run* run;
  /// Rows of this stage: run->count, or those the head is asked for.
  uint32_t tokens;
  /// Scratch of this call, 64-byte aligned; nothing in it outlives the call.
  unsigned char* work;
};

/// The sequence's part of the run that `row` belongs to.
LLMC_INLINE const llmc_segment& segment_of(const llmc_run* run, size_t row) {
  const llmc_segment* segment = run->segments;
  if (run->segment_count == run->count) return segment[row];  // sequences stepped together
  while (row - segment->row >= segment->rows) ++segment;
  return *segment;
}
/// Of the row's token in its sequence.
LLMC_INLINE uint32_t position_of(const llmc_run* run, size_t row) {
  const llmc_segment& segment = segment_of(run, row);
  return segment.position + (static_cast<uint32_t>(row) - segment.row);
}

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

/// How a stage's units 0..total get to its workers, in consecutive ranges, of a multiple of
/// `granule` units where there is much to do: kernels like those. Lives as long as the stage, on
/// the stack of who runs it.
///
/// Even cores: one range each. Uneven ones (run->uneven: big and little cores, or cores that others
/// use too): tickets. Who is free takes a third of its part of what is left, so that the first
/// ranges are long and the last ones end at about the same time on fast and slow cores. Which
/// worker computes a unit then depends on time; what it computes does not.
class Shares {
 public:
  LLMC_INLINE Shares(const llmc_run* run, size_t total, size_t workers, size_t granule = 1)
      : total_(total), workers_(workers), tickets_(run->uneven != 0 && workers > 1) {
    const size_t least = total / (32 * workers);
    if (least >= granule) {
      least_ = least / granule * granule;
    } else {
      least_ = total >= 8 * workers * granule ? granule : least > 1 ? least : 1;
    }
  }

  size_t workers() const { return workers_; }
  /// What worker `slot` begins with, and what it goes on with; an empty range: nothing is left.
  ///     for (Range r = shares.first(slot); r.begin < r.end; r = shares.next())
  LLMC_INLINE Range first(size_t slot) {
    return tickets_ ? next() : worker_range(total_, slot, workers_);
  }
  LLMC_INLINE Range next() {
    if (!tickets_) return {total_, total_};
    // Only the counter is shared: what the units read and write is ordered by parallel_for.
    size_t begin = __atomic_load_n(&taken_, __ATOMIC_RELAXED), end;
    do {
      const size_t left = total_ - begin, part = left / (3 * workers_) / least_ * least_;
      const size_t count = part > least_ ? part : least_;
      end = count < left ? begin + count : total_;
    } while (begin < total_ && !__atomic_compare_exchange_n(&taken_, &begin, end, true,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return {begin, end};
  }

 private:
  size_t total_, workers_, least_;
  bool tickets_;
  alignas(kAlignment) size_t taken_ = 0;  // away from what everybody reads
};

/// Runs task.work(slot) once for each of its workers and returns when all are done.
template <class Task>
LLMC_INLINE void for_each_worker(const llmc_run* run, Task& task) {
  const size_t workers = task.shares.workers();
  if (workers == 1) {
    task.work(0);
    return;
  }
  run->parallel_for(
      run->user, [](void* arg, uint32_t slot) { static_cast<Task*>(arg)->work(slot); }, &task,
      static_cast<uint32_t>(workers));
}

/// Spreads `tokens` rows over the workers: row(token) for each.
template <class Row>
struct TokenTask {
  Row row;
  Shares shares;
  void work(size_t slot) {
    for (Range range = shares.first(slot); range.begin < range.end; range = shares.next()) {
      for (size_t t = range.begin; t < range.end; ++t) row(t);
    }
  }
};
template <class Row>
LLMC_INLINE void for_each_token(const KernelContext& context, Row row) {
  TokenTask<Row> task{row, Shares(context.run, context.tokens, context.run->threads)};
  if (context.tokens == 1) {
    task.row(0);  // one row is not worth waking anybody
    return;
  }
  for_each_worker(context.run, task);
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
