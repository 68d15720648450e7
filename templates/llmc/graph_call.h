#pragma once

#include "llmc/function.h"
#include "llmc/kernels/stage.h"
#include "llmc/kernels/windows.h"
#include "llmc/run.h"

/// Support for emitted plain graphs: the memory of a call and the distribution of its work.
namespace llmc {
inline namespace LLMC_ISA {

/// Return values of NAME_run.
enum Status : int {
  kDone = 0,
  kMissingPointer = 1,
  kIndexOutOfRange = 2,
  kBadOptions = 3,
  kOtherWeights = 4,
};

/// Arguments of one call: the caller's inputs and outputs, the weights, the arena and the workers.
struct GraphCall {
  const void* const* inputs;
  void* const* outputs;
  llmc_run run;         // scratch: the arena; count and segments are unused
  unsigned char* work;  // scratch of kernels

  template <class T>
  LLMC_INLINE const T* input(size_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  LLMC_INLINE T* output(size_t i) const {
    return static_cast<T*>(outputs[i]);
  }
  /// Returns the address `offset` bytes from the start of the arena.
  template <class T>
  LLMC_INLINE T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(run.scratch + offset);
  }
  template <class T>
  LLMC_INLINE const T* weight(uint64_t offset) const {
    return reinterpret_cast<const T*>(run.weights + offset);
  }
  /// Returns the context for a kernel that computes `count` rows.
  LLMC_INLINE KernelContext rows(uint32_t count) const { return {&run, count, work}; }
};

/// Returns whether all `count` pointers are non-null. The array itself may be null if count is 0.
LLMC_INLINE bool all_there(const void* const* pointers, size_t count) {
  if (count == 0) return true;
  if (pointers == nullptr) return false;
  bool there = true;
  for (size_t i = 0; i < count; ++i) there &= pointers[i] != nullptr;
  return there;
}

/// Returns the weights in `file`, the content of NAME.weights.bin, or nullptr if its header does
/// not match `bytes` and `hash`, the size and hash of this model's weights. `file` must be at least
/// as large as the header.
LLMC_INLINE const unsigned char* weights_in(const void* file, uint64_t bytes, uint64_t hash) {
  llmc_weights_header header;
  __builtin_memcpy(&header, file, sizeof header);
  const bool ours = __builtin_memcmp(header.magic, LLMC_WEIGHTS_MAGIC, sizeof header.magic) == 0 &&
                    header.bytes == bytes && header.hash == hash;
  return ours ? static_cast<const unsigned char*>(file) + sizeof header : nullptr;
}

/// Limits and defaults of a function. `even_cores` is the target's default: whether the cores are
/// equally fast.
struct WorkerDefaults {
  uint32_t threads_max;
  bool even_cores;
};
/// Sets the workers of a call. Returns false if the options are invalid.
LLMC_INLINE bool set_workers(llmc_run& run, const llmc_run_options* options,
                             const WorkerDefaults& defaults) {
  const uint32_t threads_max = defaults.threads_max;
  run.threads = 1;
  run.uneven = defaults.even_cores ? 0 : 1;
  if (options == nullptr) return true;
  if (options->size != sizeof(llmc_run_options) || options->threads > threads_max ||
      options->cores > LLMC_CORES_UNEVEN)
    return false;
  if (options->cores != LLMC_CORES_OF_TARGET) run.uneven = options->cores == LLMC_CORES_UNEVEN;
  if (options->parallel_for == nullptr) return true;
  run.threads = options->threads == 0 ? threads_max : options->threads;
  run.parallel_for = options->parallel_for;
  run.user = options->parallel_user;
  return true;
}

/// Task that calls body(begin, end, worker) for disjoint ranges [begin, end) that cover [0, count).
template <class Body>
struct RangeTask {
  const Body& body;
  WorkPartition partition;
  void work(size_t slot) {
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next())
      body(static_cast<int64_t>(range.begin), static_cast<int64_t>(range.end),
           static_cast<int64_t>(slot));
  }
};
template <class Body>
LLMC_INLINE void in_parallel(const GraphCall& call, int64_t count, const Body& body) {
  RangeTask<Body> task{body,
                       WorkPartition(&call.run, static_cast<size_t>(count), call.run.threads)};
  for_each_worker(&call.run, task);
}

/// Like in_parallel(), for bodies that return false for invalid data. Returns false if any did.
template <class Body>
LLMC_INLINE bool all_in_parallel(const GraphCall& call, int64_t count, const Body& body) {
  bool valid = true;
  in_parallel(call, count, [&](int64_t begin, int64_t end, int64_t worker) {
    if (!body(begin, end, worker)) __atomic_store_n(&valid, false, __ATOMIC_RELAXED);
  });
  return valid;
}

}  // namespace LLMC_ISA
}  // namespace llmc
