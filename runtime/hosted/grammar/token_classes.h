#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/hosted/grammar/reachable_bytes.h"
#include "runtime/hosted/grammar/vocabulary.h"

namespace llmc::hosted::grammar {

/// Tokens by whether a state allows them. Tokens in neither list are never allowed.
struct TokenClasses {
  struct Below;
  std::vector<std::uint32_t> allowed;     // sorted ids of tokens that are allowed with every stack
  std::vector<std::uint32_t> dependents;  // sorted ids of tokens that are allowed with some stacks
  // If there are many dependents: the classes for each frame that can be on top of the stack.
  std::vector<Below> below;
};
struct TokenClasses::Below {
  std::uint32_t frame = 0;  // in ascending order
  TokenClasses classes;     // `allowed` includes the tokens that are allowed with every stack
};

/// Classifies all tokens for one state at a time.
class TokenClassifier {
 public:
  /// Requires below == frames_below(pushdown). Keeps references to the arguments.
  TokenClassifier(const Pushdown& pushdown, const FramesBelow& below,
                  const ReachableBytes& reachable, const TokenTree& tree);

  /// Returns the classes for a state; nullopt if a token is so ambiguous that reading it needs more
  /// than kMaxPaths paths. `reached`: StackDemandFinder::reached() of the state, or null if it is
  /// not known.
  std::optional<TokenClasses> classify(std::uint32_t state,
                                       const std::vector<std::uint32_t>* reached = nullptr);

  /// Returns the number of steps of all calls, a measure of time.
  std::uint64_t steps() const { return steps_; }

  static constexpr std::size_t kMaxPaths = 512;

 private:
  struct Frame {
    std::uint32_t state = 0;
    std::uint32_t below = 0;  // index in frames_, or kBottom
  };
  struct Below;
  /// The nodes of the tree by class, in ascending order.
  struct NodeClasses {
    std::vector<std::uint32_t> allowed;    // allowed with every stack
    std::vector<std::uint32_t> dependent;  // allowed with some stacks
    std::vector<Below> below;              // by next frame, if the frames were tried one by one
  };
  struct Below {
    std::uint32_t frame = 0;
    NodeClasses nodes;  // classes of the nodes that are dependent if the frame is not known
  };

  NodeClasses examine(std::uint32_t state, const std::vector<std::uint32_t>& context,
                      const std::vector<std::uint32_t>* subset);
  TokenClasses classes_of(const NodeClasses& nodes,
                          const std::vector<std::uint32_t>& allowed) const;
  std::size_t tokens_of(const std::vector<std::uint32_t>& nodes) const;
  std::vector<std::uint32_t> ids_of(const std::vector<std::uint32_t>& nodes) const;
  NodeClasses walk(std::uint32_t state, const std::vector<std::vector<std::uint32_t>>& contexts,
                   const std::vector<std::uint32_t>* subset);
  bool step(std::size_t from, std::size_t to, std::uint8_t byte);
  void add(std::size_t from, std::uint32_t target, std::span<const std::uint32_t> pushed,
           std::uint32_t below);

  const Pushdown& pushdown_;
  const FramesBelow& below_;
  const ReachableBytes& reachable_;
  const TokenTree& tree_;
  std::vector<Frame> frames_;  // frames of all stacks of the current walk
  std::vector<Frame> paths_;   // by level of the tree: states with their stacks
  std::vector<std::uint8_t> selected_;
  std::uint64_t steps_ = 0;
  const std::vector<std::uint32_t>* reached_ = nullptr;
  std::size_t walks_ = 0;  // number of walks for the current state
  bool too_many_ = false;
};

}  // namespace llmc::hosted::grammar
