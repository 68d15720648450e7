#pragma once

#include "llmc/math.h"
#include "llmc/model.h"
#include "llmc/sizes.h"

/// Arguments that all kernels have, and distribution of work over the workers.
namespace llmc {
inline namespace LLMC_ISA {

struct KernelContext {
  const llmc_run* run;
  /// Number of rows of this call: run->count in stages of `forward`; otherwise the number of rows
  /// that the stage computes, such as the rows passed to `head`.
  uint32_t tokens;
  /// Scratch memory of this call, 64-byte aligned. Its content does not outlive the call.
  unsigned char* work;
};

/// Returns the segment of the run that contains `row`.
LLMC_INLINE const llmc_segment& segment_of(const llmc_run* run, size_t row) {
  const llmc_segment* segment = run->segments;
  if (run->segment_count == run->count) return segment[row];  // one row per sequence
  while (row - segment->row >= segment->rows) ++segment;
  return *segment;
}
/// Returns the position of the row's token in its sequence.
LLMC_INLINE uint32_t position_of(const llmc_run* run, size_t row) {
  const llmc_segment& segment = segment_of(run, row);
  return segment.position + (static_cast<uint32_t>(row) - segment.row);
}

/// Returns the position of the last token that the application's call appends to the row's
/// sequence. It may belong to a later run.
LLMC_INLINE uint32_t last_position_of(const llmc_run* run, size_t row) {
  return segment_of(run, row).last;
}

struct Range {
  size_t begin, end;
};
/// Returns the range of worker `slot` when [0, total) is divided among `workers` workers. Ranges
/// are consecutive, and their sizes differ by at most one.
LLMC_INLINE Range worker_range(size_t total, size_t slot, size_t workers) {
  return {total * slot / workers, total * (slot + 1) / workers};
}

/// Minimum work per worker: bytes of weights times tokens. Reading this many bytes takes about as
/// long as a barrier.
inline constexpr size_t kWorkerBytes = 24 << 10;
/// Returns the number of workers that should share the work on `bytes` bytes of weights for
/// `tokens` tokens.
LLMC_INLINE size_t workers_for(const llmc_run* run, size_t bytes, size_t tokens) {
  const size_t wanted = bytes * tokens / kWorkerBytes;
  if (wanted <= 1) return 1;
  return wanted < run->threads ? wanted : run->threads;
}

/// Distribution of the units [0, total) of a stage over its workers, in consecutive ranges. The
/// object is on the stack of the calling thread during the stage.
///
/// Even cores: one range per worker. Uneven cores (run->uneven: big and little cores, or cores
/// shared with other programs): workers take ranges dynamically. An idle worker takes a third of
/// its equal share of the remaining units. The first ranges are therefore long, and the last ones
/// end at about the same time on fast and slow cores. If there is enough work, the sizes of these
/// ranges are multiples of `granule`, for which kernels are fastest. Which worker computes a unit
/// then depends on timing; the result does not.
class WorkPartition {
 public:
  LLMC_INLINE WorkPartition(const llmc_run* run, size_t total, size_t workers, size_t granule = 1)
      : total_(total), workers_(workers), tickets_(run->uneven != 0 && workers > 1) {
    const size_t least = total / (32 * workers);
    if (least >= granule) {
      least_ = least / granule * granule;
    } else {
      least_ = total >= 8 * workers * granule ? granule : least > 1 ? least : 1;
    }
  }

  size_t workers() const { return workers_; }
  /// Return the first range of worker `slot`, and the next range of the calling worker; an empty
  /// range if no units remain for it.
  ///
  ///     for (Range r = partition.first(slot); r.begin < r.end; r = partition.next())
  LLMC_INLINE Range first(size_t slot) {
    return tickets_ ? next() : worker_range(total_, slot, workers_);
  }
  LLMC_INLINE Range next() {
    if (!tickets_) return {total_, total_};
    // Relaxed order is sufficient, because parallel_for orders the memory accesses of the units.
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
  alignas(kAlignment) size_t taken_ = 0;  // on its own cache line
};

/// Runs task.work(slot) once for each worker of the task and returns when all are done.
template <class Task>
LLMC_INLINE void for_each_worker(const llmc_run* run, Task& task) {
  const size_t workers = task.partition.workers();
  if (workers == 1) {
    task.work(0);
    return;
  }
  run->parallel_for(
      run->user, [](void* arg, uint32_t slot) { static_cast<Task*>(arg)->work(slot); }, &task,
      static_cast<uint32_t>(workers));
}

/// Distributes `tokens` rows over the workers and calls row(token) for each.
template <class Row>
struct TokenTask {
  Row row;
  WorkPartition partition;
  void work(size_t slot) {
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      for (size_t t = range.begin; t < range.end; ++t) row(t);
    }
  }
};
template <class Row>
LLMC_INLINE void for_each_token(const KernelContext& context, Row row) {
  TokenTask<Row> task{row, WorkPartition(context.run, context.tokens, context.run->threads)};
  if (context.tokens == 1) {
    task.row(0);  // waking other threads costs more than one row
    return;
  }
  for_each_worker(context.run, task);
}

/// Load and store eight floats of a row of compile-time width K at i. After the end of the row,
/// loads return zeros and stores write nothing.
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
