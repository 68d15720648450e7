#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/program.h"

namespace llmc::target {
struct Device;
}

/// The division of a decoder's forward pass between the CPU and an accelerator.
namespace llmc::plan {

/// Successive stages that the device computes as one unit. A region in a loop body is executed once
/// per iteration.
struct Region {
  std::uint32_t count = 1;  // executions per chunk
  std::uint32_t stages = 0;
  std::vector<std::string> products = {};             // labels of the weights: "gate_up", "down"
  std::uint64_t multiply_adds = 0, weight_bytes = 0;  // of its products: per row; per execution
  /// Buffers that it reads, and buffers that it writes for other stages or its next execution.
  std::vector<BufferId> inputs = {}, outputs = {};
};

/// Rows that are copied between CPU and device for one step. Not needed if they share memory.
struct Crossing {
  std::uint32_t step = 0;  // number of a step that the device computes
  BufferId buffer;
  bool from_device = false;  // after the step; otherwise before it
  friend auto operator<=>(const Crossing&, const Crossing&) = default;
};

struct Partition {
  const target::Device* device = nullptr;
  std::vector<Region> regions;  // region 1 first; Stage::region is the index plus 1
  /// Number of steps of the forward pass (steps_of()).
  std::uint32_t steps = 0;
  /// Multiply-adds of matrix products per token of a prompt: in regions, and in the whole pass.
  std::uint64_t device_multiply_adds = 0, multiply_adds = 0;
  /// Bytes per token that one side computes and the other side reads.
  std::uint64_t bytes_to_device = 0, bytes_from_device = 0;
  std::vector<Crossing> crossings = {};  // by step
};

/// Divides the forward pass between the CPU and the device. A region consists of successive matrix
/// products, norms and elementwise operations. Lookups, attention, rotations, the cache, loop
/// nests, experts, products with weights in a format that the device does not support, and the head
/// stay on the CPU. A projection to q, k and v is split into a product, which the device computes,
/// and a stage that rotates and stores, which the CPU computes. A region stays on the CPU if its
/// time there is at most that of starting it on the device, copying its data and waiting for a
/// device that is slower than the CPU. Without shared memory, the CPU quantizes rows for products
/// on the device where it can, so that fewer bytes are copied. `chunk` is the number of tokens per
/// forward pass. Fails with kUnsupported if no region remains, or if the model has recurrent
/// states: a chunk cannot read them before the previous chunk has stored them.
Result<Partition> partition(Program& program, const target::Device& device, std::uint32_t chunk);

/// Returns the forward pass as text: the stages of each region and of the CPU, and the buffers that
/// each region reads and writes, with `chunk` rows.
std::string to_text(const Program& program, const Partition& partition, std::uint32_t chunk);

/// Successive stages of one region, or of the CPU: the range [begin, end) of a list.
struct Segment {
  std::size_t begin = 0, end = 0;
  std::uint32_t region = 0;
};
/// Returns the segments of a list of stages, in order. Each loop is a separate segment.
std::vector<Segment> segments_of(const std::vector<Stage>& stages);

/// A step of the forward pass (llmc_model.steps): one execution of a segment. `loop` is the loop
/// whose body has the segment, or nullptr.
struct Step {
  const std::vector<Stage>* stages = nullptr;
  Segment segment;
  const LoopStage* loop = nullptr;
  std::uint32_t iteration = 0;
};
/// Returns the steps in order. They point into `program`.
std::vector<Step> steps_of(const Program& program);

}  // namespace llmc::plan
