#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/program.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

namespace llmc::plan {

struct BufferPlace {
  std::uint64_t offset = 0;  // in scratch, a multiple of 64
  std::uint64_t bytes = 0;   // 0: not in scratch (logits) or never used
  /// First and last step of the flattened program that touch it; what a loop's body reads from
  /// outside, or carries, lives during the whole loop.
  std::uint32_t first = 0, last = 0;
};

/// Scratch of a forward pass and the head: activations, then one work area that all kernels share.
struct MemoryPlan {
  std::vector<BufferPlace> buffers;  // same index as Program::buffers
  std::uint64_t activations_bytes = 0;
  std::uint64_t work_offset = 0, work_bytes = 0;  // the largest any kernel asks for
  std::uint64_t scratch_bytes = 0;
};

struct MemoryOptions {
  std::uint32_t chunk = 32, batch = 1, ctx = 2048, threads_max = 8;
  KvFormats kv = {};
};

/// Places buffers so that no two that live at the same time overlap. kBadInput when sizes do not
/// fit 63 bits.
Result<MemoryPlan> plan_memory(const Program& program, const MemoryOptions& options);

}  // namespace llmc::plan
