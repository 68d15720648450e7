#include "runtime/hosted/grammar/stack_demand.h"

#include <algorithm>

#include "runtime/hosted/grammar/stack.h"

namespace llmc::hosted::grammar {
namespace {

/// Limits of a demand. Demands above the capacity at run time (runtime/core/grammar_tables.h) need
/// not be exact.
constexpr std::size_t kMaxDemandPaths = 256, kMaxDemandStacks = 256, kMaxDemandFrames = 2048;
/// Maximum number of assumed frames that reading one byte may pop.
constexpr std::uint32_t kMaxAssumedFrames = 64;
constexpr std::uint64_t kMaxDemandSteps = 50'000'000;  // per state

}  // namespace

StackDemandFinder::StackDemandFinder(const Pushdown& pushdown, const FramesBelow& below,
                                     const ReachableBytes& reachable, const TokenTree& tree)
    : pushdown_(pushdown), below_(below), reachable_(reachable), tree_(tree) {
  for (const Pushdown::FrameList& list : pushdown.frame_lists)
    max_pushed_ = std::max(max_pushed_, list.count);
  stackless_ = max_pushed_ == 0;
  for (const Pushdown::State& state : pushdown.states) {
    for (std::size_t i = 1; i < state.edges.size(); ++i)
      stackless_ = stackless_ && state.edges[i].low > state.edges[i - 1].high;
  }
}

std::optional<StackDemand> StackDemandFinder::find(std::uint32_t state) {
  reached_.clear();
  if (stackless_) return StackDemand{};  // the stack is always empty
  struct Level {
    std::size_t paths, frames, stacks;  // sizes up to and including this level
  };
  stacks_ = {{0, state}};
  frames_.clear();
  paths_ = {{state, kStacks, 0}};
  too_many_ = found_duplicate_ = false;
  const std::uint64_t begun = steps_;
  std::vector<Level> levels{{1, 0, 1}};
  StackDemand demand;
  const auto count = static_cast<std::uint32_t>(tree_.nodes.size());
  for (std::uint32_t i = 1; i < count;) {
    const TokenTree::Node& node = tree_.nodes[i];
    levels.resize(node.depth);
    const Level up = levels.back();
    paths_.resize(up.paths);
    frames_.resize(up.frames);
    stacks_.resize(up.stacks);
    step(levels.size() > 1 ? levels[levels.size() - 2].paths : 0, up.paths, node.byte);
    if (too_many_ || steps_ - begun > kMaxDemandSteps) return std::nullopt;
    levels.push_back({paths_.size(), frames_.size(), stacks_.size()});
    if (paths_.size() == up.paths) {
      i = node.end;
      continue;
    }
    reached_.push_back(i);
    demand.paths = std::max(demand.paths, max_per_stack(std::span(paths_).subspan(up.paths)));
    demand.frames = std::max(demand.frames, max_per_stack(frames_));
    ++i;
  }
  if (found_duplicate_) demand.frames += max_pushed_;
  return demand;
}

/// Returns the maximum number of elements of `counted` that belong to one stack.
std::uint32_t StackDemandFinder::max_per_stack(std::span<const Frame> counted) {
  steps_ += (counted.size() + stacks_.size()) / 8;
  if (stacks_.size() == 1) return static_cast<std::uint32_t>(counted.size());
  own_.assign(stacks_.size(), 0);
  best_.assign(stacks_.size(), 0);
  for (const Frame& frame : counted) ++own_[frame.stack];
  // A stack comes after the stack that it extends.
  for (std::size_t i = stacks_.size() - 1; i > 0; --i) {
    std::uint32_t& above = best_[stacks_[i].above];
    above = std::max(above, own_[i] + best_[i]);
  }
  return own_[0] + best_[0];
}

/// Reads a byte in paths_[from .. to) and appends the resulting paths.
void StackDemandFinder::step(std::size_t from, std::size_t to, std::uint8_t byte) {
  for (std::size_t path = from; path < to && !too_many_; ++path) {
    const Frame top = paths_[path];  // a copy, because paths_ may be reallocated
    read(top, to, byte, 0);
  }
}

/// Reads a byte with the path `top`. `assumed`: number of frames assumed for this byte so far.
void StackDemandFinder::read(const Frame& top, std::size_t to, std::uint8_t byte,
                             std::uint32_t assumed) {
  ++steps_;
  const Pushdown::State& state = pushdown_.states[top.state];
  for (const Pushdown::Edge& edge : state.edges) {
    if (edge.low > byte) break;
    if (edge.high >= byte) add(to, edge.target, pushdown_.pushed(edge), top);
  }
  if (!state.accepts || too_many_) return;
  if (top.below < kStacks) return read(Frame(frames_[top.below]), to, byte, assumed);
  if (!reachable_.below(top.state, byte)) return;
  const std::vector<std::uint32_t>& frames = below_[top.state];
  steps_ += frames.size() / 8;
  for (const std::uint32_t frame : frames) {
    if (frame == kBottom || !reachable_.by_frame(frame, byte)) continue;  // cannot read the byte
    if (assumed == kMaxAssumedFrames) {
      too_many_ = true;
      return;
    }
    std::uint32_t stack = 1;
    while (stack < stacks_.size() &&
           (stacks_[stack].above != top.stack || stacks_[stack].deepest != frame))
      ++stack;
    steps_ += stack / 8;
    const bool made = stack == stacks_.size();
    if (made) stacks_.push_back({top.stack, frame});
    const std::size_t paths = paths_.size(), stacks = stacks_.size();
    read({frame, kStacks + stack, stack}, to, byte, assumed + 1);
    if (made && paths_.size() == paths && stacks_.size() == stacks) stacks_.pop_back();
    if (stacks_.size() > kMaxDemandStacks) too_many_ = true;
    if (too_many_) return;
  }
}

/// Appends the path to `target`, with `pushed` on the stack of `popped`, unless paths_[from ..)
/// contains it.
void StackDemandFinder::add(std::size_t from, std::uint32_t target,
                            std::span<const std::uint32_t> pushed, const Frame& popped) {
  const std::size_t frames = frames_.size();
  std::uint32_t below = popped.below;
  for (const std::uint32_t frame : pushed) {
    frames_.push_back({frame, below, popped.stack});
    below = static_cast<std::uint32_t>(frames_.size() - 1);
  }
  for (std::size_t i = from; i < paths_.size(); ++i) {
    if (paths_[i].state != target || !same_stack(frames_, paths_[i].below, below)) continue;
    found_duplicate_ = found_duplicate_ || !pushed.empty();
    frames_.resize(frames);
    return;
  }
  paths_.push_back({target, below, popped.stack});
  if (paths_.size() - from > kMaxDemandPaths || frames_.size() > kMaxDemandFrames) too_many_ = true;
}

}  // namespace llmc::hosted::grammar
