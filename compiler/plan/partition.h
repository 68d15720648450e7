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

/// Successive stages that the device computes as one unit. If they are in the body of a loop, every
/// iteration computes them once.
struct Region {
  std::uint32_t count = 1;  // executions per chunk
  std::uint32_t stages = 0;
  std::vector<std::string> products = {};             // labels of the weights: "gate_up", "down"
  std::uint64_t multiply_adds = 0, weight_bytes = 0;  // of products; per row, per execution
  std::vector<BufferId> inputs = {}, outputs = {};    // what it reads and leaves for others
};

/// Rows that cross the border of a region in a step, if the device does not share the memory of the
/// CPU.
struct Crossing {
  std::uint32_t step = 0;  // of the device
  BufferId buffer;
  bool from_device = false;  // after the step; otherwise before it
  friend auto operator<=>(const Crossing&, const Crossing&) = default;
};

struct Partition {
  const target::Device* device = nullptr;
  std::vector<Region> regions;  // region 1 first; Stage::region is the index plus 1
  /// Number of steps of the forward pass: regions, and the CPU's stages between them, in order.
  std::uint32_t steps = 0;
  /// Multiply-adds of matrix products per token of a prompt: those of regions, and all.
  std::uint64_t device_multiply_adds = 0, multiply_adds = 0;
  /// Bytes per token that cross the border because one side computes what the other one reads.
  std::uint64_t bytes_to_device = 0, bytes_from_device = 0;
  std::vector<Crossing> crossings = {};  // by step
};

/// Divides a decoder. A stage gets a region if the device takes it: matrix products, and the
/// operations of single rows before, between and after them. Attention, rotations, the cache, loop
/// nests, chosen experts and the head stay on the CPU. A projection to q, k and v becomes a
/// product, which the device takes, and a stage that rotates and stores, which it does not. A
/// region whose products would save less time than its data takes to cross the border stays on the
/// CPU. `chunk`: tokens of a forward pass. Fails with kUnsupported if the model has recurrent
/// states, which another chunk may not read before they are stored, or if no region remains.
Result<Partition> partition(Program& program, const target::Device& device, std::uint32_t chunk);

/// Returns the forward pass as a list of stages by place, and the shapes that cross the borders of
/// regions, with the static number of rows of a chunk.
std::string to_text(const Program& program, const Partition& partition, std::uint32_t chunk);

/// Stages with the same place: the range [begin, end) of a list.
struct Segment {
  std::size_t begin = 0, end = 0;
  std::uint32_t region = 0;
};
/// Returns the segments of a list of stages, in order. A loop is a segment of its own.
std::vector<Segment> segments_of(const std::vector<Stage>& stages);

/// A step of the forward pass (llmc_model.steps): a segment of a list of stages, in an iteration of
/// `loop` if the list is its body.
struct Step {
  const std::vector<Stage>* stages = nullptr;
  Segment segment;
  const LoopStage* loop = nullptr;
  std::uint32_t iteration = 0;
};
/// Returns the steps in order. They refer to the program.
std::vector<Step> steps_of(const Program& program);

}  // namespace llmc::plan
