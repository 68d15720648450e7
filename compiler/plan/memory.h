#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/program.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

namespace llmc::plan {

struct BufferPlace {
  std::uint64_t offset = 0;  // offset in scratch in bytes, a multiple of 64
  std::uint64_t bytes = 0;   // size, a multiple of 64; 0: not in scratch (logits) or never used
  /// First and last step of the flattened program that access the buffer. A buffer that a loop body
  /// reads from outside the loop, or carries between iterations, is live during the whole loop.
  std::uint32_t first = 0, last = 0;
};

/// Scratch memory of a program (of a decoder: forward pass and head): activations, then one work
/// area shared by all kernels. Sizes and offsets are in bytes.
struct MemoryPlan {
  std::vector<BufferPlace> buffers;  // same index as Program::buffers
  /// The work area follows the activations; its size is the maximum over all kernels.
  std::uint64_t work_offset = 0, work_bytes = 0;
  std::uint64_t scratch_bytes = 0;
};

struct MemoryOptions {
  std::uint32_t chunk = 32, batch = 1, ctx = 2048, threads_max = 8;
  KvFormats kv = {};
  std::uint64_t source_rows = 0;  // maximum number of rows of a source
};

/// Assigns offsets so that no two buffers with overlapping live ranges overlap in memory. For a
/// plain graph, `chunk` and `batch` must be 1. Fails with kBadInput if a buffer is larger than 2^48
/// bytes or the total overflows.
Result<MemoryPlan> plan_memory(const Program& program, const MemoryOptions& options);

}  // namespace llmc::plan
