#include "runtime/hosted/grammar/token_room.h"

#include <algorithm>

#include "runtime/hosted/grammar/stack.h"

namespace llmc::hosted::grammar {
namespace {

/// More ways than a text may be read in at once (runtime/core/grammar_tables.h) are as good as any
/// number of them.
constexpr std::size_t kMostWays = 256, kMostStacks = 256, kMostFrames = 2048;
/// Frames popped by one byte: what is read may end rules that end others, and so on.
constexpr std::uint32_t kMostSupposed = 64;
constexpr std::uint64_t kMostSteps = 50'000'000;  // for a state

}  // namespace

TokenRooms::TokenRooms(const Pushdown& pushdown, const FramesBelow& below, const Readable& readable,
                       const TokenTree& tree)
    : pushdown_(pushdown), below_(below), readable_(readable), tree_(tree) {
  for (const Pushdown::FrameList& list : pushdown.frame_lists)
    most_pushed_ = std::max(most_pushed_, list.count);
  plain_ = most_pushed_ == 0;
  for (const Pushdown::State& state : pushdown.states) {
    for (std::size_t i = 1; i < state.edges.size(); ++i)
      plain_ = plain_ && state.edges[i].low > state.edges[i - 1].high;
  }
}

std::optional<TokenRoom> TokenRooms::find(std::uint32_t state) {
  reached_.clear();
  if (plain_) return TokenRoom{};  // nothing is below that could be read
  struct Level {
    std::size_t paths, frames, stacks;  // how many there are up to this level
  };
  stacks_ = {{0, state}};
  frames_.clear();
  paths_ = {{state, kStacks, 0}};
  too_many_ = found_again_ = false;
  const std::uint64_t begun = steps_;
  std::vector<Level> levels{{1, 0, 1}};
  TokenRoom room;
  const auto count = static_cast<std::uint32_t>(tree_.nodes.size());
  for (std::uint32_t i = 1; i < count;) {
    const TokenTree::Node& node = tree_.nodes[i];
    levels.resize(node.depth);
    const Level up = levels.back();
    paths_.resize(up.paths);
    frames_.resize(up.frames);
    stacks_.resize(up.stacks);
    step(levels.size() > 1 ? levels[levels.size() - 2].paths : 0, up.paths, node.byte);
    if (too_many_ || steps_ - begun > kMostSteps) return std::nullopt;
    levels.push_back({paths_.size(), frames_.size(), stacks_.size()});
    if (paths_.size() == up.paths) {
      i = node.end;
      continue;
    }
    reached_.push_back(i);
    room.ways = std::max(room.ways, most_of_a_stack(std::span(paths_).subspan(up.paths)));
    room.frames = std::max(room.frames, most_of_a_stack(frames_));
    ++i;
  }
  if (found_again_) room.frames += most_pushed_;
  return room;
}

/// How many of `counted` one and the same stack can have.
std::uint32_t TokenRooms::most_of_a_stack(std::span<const Frame> counted) {
  steps_ += (counted.size() + stacks_.size()) / 8;
  if (stacks_.size() == 1) return static_cast<std::uint32_t>(counted.size());
  own_.assign(stacks_.size(), 0);
  best_.assign(stacks_.size(), 0);
  for (const Frame& frame : counted) ++own_[frame.stack];
  for (std::size_t i = stacks_.size() - 1; i > 0; --i) {  // a stack is behind the one above it
    std::uint32_t& above = best_[stacks_[i].above];
    above = std::max(above, own_[i] + best_[i]);
  }
  return own_[0] + best_[0];
}

/// Reads a byte in paths_[from .. to), which get their successors behind them.
void TokenRooms::step(std::size_t from, std::size_t to, std::uint8_t byte) {
  for (std::size_t path = from; path < to && !too_many_; ++path) {
    const Frame top = paths_[path];  // paths_ grows
    read(top, to, byte, 0);
  }
}

/// `supposed`: frames of the stack that were supposed for this byte so far.
void TokenRooms::read(const Frame& top, std::size_t to, std::uint8_t byte, std::uint32_t supposed) {
  ++steps_;
  const Pushdown::State& state = pushdown_.states[top.state];
  for (const Pushdown::Edge& edge : state.edges) {
    if (edge.low > byte) break;
    if (edge.high >= byte) add(to, edge.target, pushdown_.pushed(edge), top);
  }
  if (!state.accepts || too_many_) return;
  if (top.below < kStacks) return read(Frame(frames_[top.below]), to, byte, supposed);
  if (!readable_.below(top.state, byte)) return;
  const std::vector<std::uint32_t>& frames = below_[top.state];
  steps_ += frames.size() / 8;
  for (const std::uint32_t frame : frames) {
    if (frame == kBottom || !readable_.by_frame(frame, byte)) continue;  // nothing follows there
    if (supposed == kMostSupposed) {
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
    const std::size_t ways = paths_.size(), stacks = stacks_.size();
    read({frame, kStacks + stack, stack}, to, byte, supposed + 1);
    if (made && paths_.size() == ways && stacks_.size() == stacks) stacks_.pop_back();
    if (stacks_.size() > kMostStacks) too_many_ = true;
    if (too_many_) return;
  }
}

/// Adds a path above what is below `popped` unless it is among those from `from` on.
void TokenRooms::add(std::size_t from, std::uint32_t target, std::span<const std::uint32_t> pushed,
                     const Frame& popped) {
  const std::size_t frames = frames_.size();
  std::uint32_t below = popped.below;
  for (const std::uint32_t frame : pushed) {
    frames_.push_back({frame, below, popped.stack});
    below = static_cast<std::uint32_t>(frames_.size() - 1);
  }
  for (std::size_t i = from; i < paths_.size(); ++i) {
    if (paths_[i].state != target || !same_stack(frames_, paths_[i].below, below)) continue;
    found_again_ = found_again_ || !pushed.empty();
    frames_.resize(frames);
    return;
  }
  paths_.push_back({target, below, popped.stack});
  if (paths_.size() - from > kMostWays || frames_.size() > kMostFrames) too_many_ = true;
}

}  // namespace llmc::hosted::grammar
