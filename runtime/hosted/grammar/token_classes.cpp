#include "runtime/hosted/grammar/token_classes.h"

#include <algorithm>
#include <iterator>

#include "runtime/hosted/grammar/sorted.h"
#include "runtime/hosted/grammar/stack.h"

namespace llmc::hosted::grammar {
namespace {

/// Maximum number of known frames. Tokens that depend on deeper frames are classified at run time.
constexpr std::size_t kMaxContext = 2;
/// Maximum number of possible frames that are tried one by one; kMaxTopFrames applies to the top
/// frame if there are many dependents. If there are more frames, they are tried together,
/// kFramesAtOnce in each walk, to find the tokens that no frame allows.
constexpr std::size_t kMaxFrames = 8, kMaxTopFrames = 64;
/// Number of dependents whose cost at run time is negligible.
constexpr std::size_t kFewDependents = 16;
/// Maximum number of walks for one state.
constexpr std::size_t kMaxWalks = 128;
constexpr std::size_t kFramesAtOnce = TokenClassifier::kMaxPaths / 8;

}  // namespace

TokenClassifier::TokenClassifier(const Pushdown& pushdown, const FramesBelow& below,
                                 const ReachableBytes& reachable, const TokenTree& tree)
    : pushdown_(pushdown),
      below_(below),
      reachable_(reachable),
      tree_(tree),
      selected_(tree.nodes.size()) {}

std::optional<TokenClasses> TokenClassifier::classify(std::uint32_t state,
                                                      const std::vector<std::uint32_t>* reached) {
  reached_ = reached;
  walks_ = 0;
  const NodeClasses nodes = examine(state, {}, nullptr);
  if (too_many_) return std::nullopt;
  return classes_of(nodes, {});
}

/// Converts nodes to ids. `allowed`: ids of tokens that are allowed with every stack.
TokenClasses TokenClassifier::classes_of(const NodeClasses& nodes,
                                         const std::vector<std::uint32_t>& allowed) const {
  TokenClasses classes;
  classes.allowed = merged(allowed, ids_of(nodes.allowed));
  classes.dependents = ids_of(nodes.dependent);
  if (classes.dependents.size() <= kFewDependents) return classes;
  for (const Below& below : nodes.below)
    classes.below.push_back({below.frame, classes_of(below.nodes, classes.allowed)});
  return classes;
}

std::size_t TokenClassifier::tokens_of(const std::vector<std::uint32_t>& nodes) const {
  std::size_t count = 0;
  for (const std::uint32_t node : nodes)
    count += tree_.nodes[node].past_token - tree_.nodes[node].first_token;
  return count;
}

std::vector<std::uint32_t> TokenClassifier::ids_of(const std::vector<std::uint32_t>& nodes) const {
  std::vector<std::uint32_t> ids;
  for (const std::uint32_t node : nodes) {
    const TokenTree::Node& at = tree_.nodes[node];
    ids.insert(ids.end(), tree_.tokens.begin() + at.first_token,
               tree_.tokens.begin() + at.past_token);
  }
  std::ranges::sort(ids);
  return ids;
}

/// Classifies nodes. `context`: the known frames, the deepest first. `subset`: the nodes to
/// classify; null: all.
TokenClassifier::NodeClasses TokenClassifier::examine(std::uint32_t state,
                                                      const std::vector<std::uint32_t>& context,
                                                      const std::vector<std::uint32_t>* subset) {
  NodeClasses nodes = walk(state, {context}, subset);
  if (context.empty() && reached_ != nullptr) {
    std::vector<std::uint32_t> left;
    std::ranges::set_intersection(nodes.dependent, *reached_, std::back_inserter(left));
    nodes.dependent = std::move(left);
  }
  if (nodes.dependent.empty() || context.size() == kMaxContext || walks_ > kMaxWalks || too_many_)
    return nodes;
  const std::vector<std::uint32_t>& frames = below_[context.empty() ? state : context.front()];
  const bool many = context.empty() && tokens_of(nodes.dependent) > kFewDependents;
  if (frames.size() > (many ? kMaxTopFrames : kMaxFrames)) {
    std::vector<std::vector<std::uint32_t>> contexts;
    std::vector<std::uint32_t> some;
    for (std::size_t i = 0; i < frames.size() && !too_many_; ++i) {
      if (frames[i] != kBottom) {  // with kBottom, the text can only end
        contexts.push_back({frames[i]});
        contexts.back().insert(contexts.back().end(), context.begin(), context.end());
      }
      if (contexts.size() < kFramesAtOnce && i + 1 < frames.size()) continue;
      const NodeClasses any = walk(state, contexts, &nodes.dependent);
      some = merged(some, merged(any.allowed, any.dependent));
      contexts.clear();
    }
    nodes.dependent = std::move(some);
    return nodes;
  }
  std::vector<std::uint32_t> all = nodes.dependent, some;
  for (const std::uint32_t frame : frames) {
    NodeClasses one;
    if (frame != kBottom) {
      std::vector<std::uint32_t> deeper{frame};
      deeper.insert(deeper.end(), context.begin(), context.end());
      one = examine(state, deeper, &nodes.dependent);
    }
    std::vector<std::uint32_t> left;
    std::ranges::set_intersection(all, one.allowed, std::back_inserter(left));
    all = std::move(left);
    some = merged(some, merged(one.allowed, one.dependent));
    if (frame != kBottom) nodes.below.push_back({frame, std::move(one)});
  }
  nodes.dependent.clear();
  std::ranges::set_difference(some, all, std::back_inserter(nodes.dependent));
  nodes.allowed = merged(nodes.allowed, all);
  return nodes;
}

/// Reads all tokens from `state` with each of the stacks `contexts`, below which no frames are
/// known. A node is `allowed` if it can be read within a context, and `dependent` if this may be
/// possible after a whole context is popped.
TokenClassifier::NodeClasses TokenClassifier::walk(
    std::uint32_t state, const std::vector<std::vector<std::uint32_t>>& contexts,
    const std::vector<std::uint32_t>* subset) {
  ++walks_;
  if (subset != nullptr) {
    steps_ += subset->size();
    for (std::uint32_t node : *subset)
      for (; selected_[node] == 0; node = tree_.nodes[node].parent) selected_[node] = 1;
  }
  struct Level {
    std::size_t paths, frames;  // sizes up to and including this level
    bool leaves;                // whether a path popped its whole context before this byte
  };
  frames_.clear();
  paths_.clear();
  std::vector<Level> levels;
  for (const std::vector<std::uint32_t>& context : contexts) {
    std::uint32_t below = kBottom;
    for (const std::uint32_t frame : context) {
      frames_.push_back({frame, below});
      below = static_cast<std::uint32_t>(frames_.size() - 1);
    }
    paths_.push_back({state, below});
  }
  levels.push_back({paths_.size(), frames_.size(), false});

  NodeClasses nodes;
  const auto count = static_cast<std::uint32_t>(tree_.nodes.size());
  for (std::uint32_t i = 1; i < count && !too_many_;) {
    const TokenTree::Node& node = tree_.nodes[i];
    if (subset != nullptr && selected_[i] == 0) {
      i = node.end;
      continue;
    }
    levels.resize(node.depth);
    const Level up = levels.back();
    paths_.resize(up.paths);
    frames_.resize(up.frames);
    const std::size_t from = levels.size() > 1 ? levels[levels.size() - 2].paths : 0;
    const bool leaves = step(from, up.paths, node.byte) || up.leaves;
    levels.push_back({paths_.size(), frames_.size(), leaves});
    ++steps_;
    const bool tokens = node.first_token != node.past_token;
    if (paths_.size() > up.paths) {
      if (tokens) nodes.allowed.push_back(i);
      ++i;
    } else if (leaves) {
      if (tokens) nodes.dependent.push_back(i);
      ++i;
    } else {
      i = node.end;
    }
  }
  if (subset != nullptr) {
    for (std::uint32_t node : *subset)
      for (; selected_[node] != 0; node = tree_.nodes[node].parent) selected_[node] = 0;
    // Remove inner nodes that are not in the subset.
    const auto keep = [&](std::vector<std::uint32_t>& list) {
      std::vector<std::uint32_t> kept;
      std::ranges::set_intersection(list, *subset, std::back_inserter(kept));
      list = std::move(kept);
    };
    keep(nodes.allowed);
    keep(nodes.dependent);
  }
  return nodes;
}

/// Reads a byte with the paths paths_[from .. to) and appends the resulting paths. Returns whether
/// a path pops its last known frame and the byte can be read below it.
bool TokenClassifier::step(std::size_t from, std::size_t to, std::uint8_t byte) {
  bool leaves = false;
  for (std::size_t path = from; path < to; ++path) {
    Frame top = paths_[path];
    for (;;) {
      ++steps_;
      const Pushdown::State& state = pushdown_.states[top.state];
      for (const Pushdown::Edge& edge : state.edges) {
        if (edge.low > byte) break;
        if (edge.high >= byte) add(to, edge.target, pushdown_.pushed(edge), top.below);
      }
      if (!state.accepts) break;
      if (top.below == kBottom) {
        leaves = leaves || reachable_.below(top.state, byte);
        break;
      }
      top = frames_[top.below];
    }
  }
  if (paths_.size() - to > kMaxPaths) too_many_ = true;
  return leaves;
}

/// Appends a path unless paths_[from ..) contains it.
void TokenClassifier::add(std::size_t from, std::uint32_t target,
                          std::span<const std::uint32_t> pushed, std::uint32_t below) {
  if (paths_.size() - from > kMaxPaths) return;
  const std::size_t frames = frames_.size();
  for (const std::uint32_t frame : pushed) {
    frames_.push_back({frame, below});
    below = static_cast<std::uint32_t>(frames_.size() - 1);
  }
  for (std::size_t i = from; i < paths_.size(); ++i) {
    if (paths_[i].state != target || !same_stack(frames_, paths_[i].below, below)) continue;
    frames_.resize(frames);
    return;
  }
  paths_.push_back({target, below});
}

}  // namespace llmc::hosted::grammar
