#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/hosted/grammar/reachable_bytes.h"
#include "runtime/hosted/grammar/vocabulary.h"

namespace llmc::hosted::grammar {

/// Upper bounds of what reading any token needs from one path, with any stack: simultaneous paths,
/// and frames that all of them push.
struct StackDemand {
  std::uint32_t paths = 1, frames = 0;
};

/// Computes the demand of one state after another by reading all tokens. When a path pops the last
/// known frame, each frame that can be below is assumed in turn; paths and frames are counted per
/// assumed stack.
class StackDemandFinder {
 public:
  /// Keeps references to the arguments. Requires below == frames_below(pushdown).
  StackDemandFinder(const Pushdown& pushdown, const FramesBelow& below,
                    const ReachableBytes& reachable, const TokenTree& tree);

  /// nullopt if the number of paths, stacks, frames or steps exceeds its limit.
  std::optional<StackDemand> find(std::uint32_t state);

  /// A superset of the tree's nodes that the last state can reach with some stack, in ascending
  /// order. Requires that the last find() returned a value.
  const std::vector<std::uint32_t>& reached() const { return reached_; }

  /// Number of steps of all calls, a measure of time.
  std::uint64_t steps() const { return steps_; }

 private:
  /// Assumed frames of a stack, below those that the path pushed.
  struct Stack {
    std::uint32_t above = 0;    // index of the same stack without its deepest frame
    std::uint32_t deepest = 0;  // that frame; of stack 0 the start state
  };
  struct Frame {
    std::uint32_t state = 0;
    std::uint32_t below = 0;  // index into frames_, or kStacks + index of a stack
    std::uint32_t stack = 0;  // index of the stack below all pushed frames
  };
  static constexpr std::uint32_t kStacks = std::uint32_t{1} << 31;

  void step(std::size_t from, std::size_t to, std::uint8_t byte);
  void read(const Frame& top, std::size_t to, std::uint8_t byte, std::uint32_t assumed);
  void add(std::size_t from, std::uint32_t target, std::span<const std::uint32_t> pushed,
           const Frame& popped);
  std::uint32_t max_per_stack(std::span<const Frame> counted);

  const Pushdown& pushdown_;
  const FramesBelow& below_;
  const ReachableBytes& reachable_;
  const TokenTree& tree_;
  bool stackless_ = true;         // no frames are pushed and all states are deterministic
  std::uint32_t max_pushed_ = 0;  // maximum over all edges
  std::vector<Stack> stacks_;
  std::vector<Frame> frames_;  // pushed on the paths to the current node
  std::vector<Frame> paths_;   // by level of the tree: states with their stacks
  std::vector<std::uint32_t> own_, best_, reached_;
  std::uint64_t steps_ = 0;
  bool found_duplicate_ = false;  // a dropped duplicate path had pushed frames
  bool too_many_ = false;
};

}  // namespace llmc::hosted::grammar
