#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/hosted/grammar/reachable_bytes.h"
#include "runtime/hosted/grammar/vocabulary.h"

namespace llmc::hosted::grammar {

/// The most that reading any token takes from one way on, whatever lies on its stack: ways that are
/// open at once, and frames that all of them push. More than what is possible, never less.
struct StackDemand {
  std::uint32_t paths = 1, frames = 0;
};

/// Finds it for one state after the other. Where a way pops the last frame that is known, each
/// frame that can lie below is supposed to be there, and those of one stack are counted together.
class StackDemandFinder {
 public:
  /// All must outlive it; `below` is frames_below(pushdown).
  StackDemandFinder(const Pushdown& pushdown, const FramesBelow& below,
                    const ReachableBytes& reachable, const TokenTree& tree);

  /// nullopt when there are more ways, stacks or frames than are followed.
  std::optional<StackDemand> find(std::uint32_t state);

  /// Nodes of the tree that the last state can be read up to with some stack, in order; more than
  /// what is possible, never less. Only when find() had an answer.
  const std::vector<std::uint32_t>& reached() const { return reached_; }

  /// Steps made so far: a measure of the time it takes.
  std::uint64_t steps() const { return steps_; }

 private:
  /// What is supposed of a stack: the frames from its bottom up to what the way pushed itself.
  struct Stack {
    std::uint32_t above = 0;    // the stack this one was before one more frame of it was needed
    std::uint32_t deepest = 0;  // that frame; of stack 0 the state that the walk began with
  };
  struct Frame {
    std::uint32_t state = 0;
    std::uint32_t below = 0;  // index into frames_, or kStacks + what is supposed of the stack
    std::uint32_t stack = 0;  // the same number: where the frames below this one end
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
  bool stackless_ = true;         // nothing is pushed and no two edges of a state share a byte
  std::uint32_t max_pushed_ = 0;  // by one edge
  std::vector<Stack> stacks_;
  std::vector<Frame> frames_;  // that were pushed on the way to the current node
  std::vector<Frame> paths_;   // current states with their stacks, level behind level
  std::vector<std::uint32_t> own_, best_, reached_;
  std::uint64_t steps_ = 0;
  bool found_duplicate_ = false;  // a way that is there already may have needed frames for a moment
  bool too_many_ = false;
};

}  // namespace llmc::hosted::grammar
