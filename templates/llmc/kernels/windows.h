#pragma once

#include "llmc/kernels/linear_rows.h"

/// linear_rows(context, windows<K>(x, …), weight, epilogue) computes a layer for rows that are
/// windows of x, such as those of a convolution. Windows may overlap. Blocks of them are copied or
/// quantized at a time.
namespace llmc {
inline namespace LLMC_ISA {

/// Windows of x. `counts` are the dims of the grid of windows, and `steps` the distances, in
/// elements of x, between windows that are adjacent in each dim. Row i is window i of the grid in
/// row-major order. A row consists of runs of consecutive elements: `runs` are the dims of a row,
/// of which the last one is the length of a run, and `run_steps` the distances in x along the other
/// dims. The lists are Sizes or RuntimeSizes (function/types.h).
template <size_t K, class Counts, class Steps, class Runs, class RunSteps>
struct Windows {
  static constexpr size_t kColumns = K;
  static constexpr bool kCopied = true, kInBlocks = true;
  const float* x;
  Counts counts;
  Steps steps;
  Runs runs;
  RunSteps run_steps;
  size_t first = 0;  // index of the window of row 0

  LLMC_INLINE Windows from(size_t window) const {
    return {x, counts, steps, runs, run_steps, first + window};
  }
  LLMC_INLINE const float* row(size_t token, float* buffer) const {
    const float* from = x;
    size_t rest = first + token;
    for (size_t d = Counts::count; d-- > 0;) {
      const size_t count = static_cast<size_t>(counts.values[d]);
      from += static_cast<int64_t>(rest % count) * steps.values[d];
      rest /= count;
    }
    if constexpr (Runs::count == 1) {
      return from;
    } else {
      constexpr size_t kLast = Runs::count - 1;
      const size_t length = static_cast<size_t>(runs.values[kLast]);
      int64_t index[kLast] = {};
      for (size_t k = 0; k < K; k += length) {
        __builtin_memcpy(buffer + k, from, length * sizeof(float));
        for (size_t d = kLast; d-- > 0;) {
          from += run_steps.values[d];
          if (++index[d] < runs.values[d]) break;
          from -= index[d] * run_steps.values[d];
          index[d] = 0;
        }
      }
      return buffer;
    }
  }
};

template <size_t K, class Counts, class Steps, class Runs, class RunSteps>
LLMC_INLINE Windows<K, Counts, Steps, Runs, RunSteps> windows(const float* x, const Counts& counts,
                                                              const Steps& steps, const Runs& runs,
                                                              const RunSteps& run_steps) {
  return {x, counts, steps, runs, run_steps};
}

}  // namespace LLMC_ISA
}  // namespace llmc
