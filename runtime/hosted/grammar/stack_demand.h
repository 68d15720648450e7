#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/hosted/grammar/reachable_bytes.h"
#include "runtime/hosted/grammar/vocabulary.h"

namespace llmc::hosted::grammar {

/// Upper bounds of the resources for reading any one token, starting with one path and any stack:
/// the number of simultaneous paths, and the number of frames that all of them push.
struct StackDemand {
  std::uint32_t paths = 1, frames = 0;
};

/// Computes the demand of one state at a time by reading all tokens. When a path pops its last
/// known frame, every frame that can be below is assumed in turn. Paths and frames are counted
/// separately for each assumed stack.
class StackDemandFinder {
 public:
  /// Requires below == frames_below(pushdown). Keeps references to the arguments.
  StackDemandFinder(const Pushdown& pushdown, const FramesBelow& below,
                    const ReachableBytes& reachable, const TokenTree& tree);

  /// Returns the demand of a state; nullopt if the number of paths, stacks, frames or steps exceeds
  /// its limit.
  std::optional<StackDemand> find(std::uint32_t state);

  /// Returns a superset of the tree's nodes that can be reached from the state of the last find()
  /// with some stack, in ascending order. Empty if no edge pushes frames and edges never overlap,
  /// because no token then depends on the stack. Requires that find() returned a value.
  const std::vector<std::uint32_t>& reached() const { return reached_; }

  /// Returns the number of steps of all calls, a measure of time.
  std::uint64_t steps() const { return steps_; }

 private:
  /// The assumed frames of a stack, which are below the frames that the path pushed.
  struct Stack {
    std::uint32_t above = 0;    // index of the stack that is the same without its deepest frame
    std::uint32_t deepest = 0;  // that frame; for stack 0 the start state
  };
  struct Frame {
    std::uint32_t state = 0;
    std::uint32_t below = 0;  // index in frames_, or kStacks + index of a stack
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
  std::uint32_t max_pushed_ = 0;  // maximum number of frames that an edge pushes
  std::vector<Stack> stacks_;
  std::vector<Frame> frames_;  // frames pushed on the paths to the current node
  std::vector<Frame> paths_;   // by level of the tree: states with their stacks
  std::vector<std::uint32_t> own_, best_, reached_;
  std::uint64_t steps_ = 0;
  bool found_duplicate_ = false;  // a duplicate path that was dropped had pushed frames
  bool too_many_ = false;
};

}  // namespace llmc::hosted::grammar
