#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/hosted/grammar/reachable_bytes.h"
#include "runtime/hosted/grammar/vocabulary.h"

namespace llmc::hosted::grammar {

/// What a state says of every token before the stack is known.
struct TokenClasses {
  struct Below;
  std::vector<std::uint32_t> allowed;     // ids, sorted: whatever is on the stack
  std::vector<std::uint32_t> dependents;  // ids, sorted: it depends on the stack
  // Where dependents are many: the same once the next frame of the stack is known.
  std::vector<Below> below;
};
struct TokenClasses::Below {
  std::uint32_t frame = 0;  // sorted by it
  TokenClasses classes;     // `allowed` has what is allowed without the frame, too
};

/// Sorts the tokens for one state after the other.
class TokenClassifier {
 public:
  /// All must outlive it; `below` is frames_below(pushdown).
  TokenClassifier(const Pushdown& pushdown, const FramesBelow& below,
                  const ReachableBytes& reachable, const TokenTree& tree);

  /// nullopt when the grammar is so ambiguous in some token that more than kMaxPaths ways through
  /// it are open at once.
  /// `reached`: nodes of the tree that can be read at all, in order; null: not known.
  std::optional<TokenClasses> classify(std::uint32_t state,
                                       const std::vector<std::uint32_t>* reached = nullptr);

  /// Steps made so far: a measure of the time it takes.
  std::uint64_t steps() const { return steps_; }

  static constexpr std::size_t kMaxPaths = 512;

 private:
  struct Frame {
    std::uint32_t state = 0;
    std::uint32_t below = 0;  // index into frames_, or kBottom
  };
  struct Below;
  /// Nodes of the tree, in order.
  struct NodeClasses {
    std::vector<std::uint32_t> allowed;    // allowed in every context
    std::vector<std::uint32_t> dependent;  // allowed in some
    std::vector<Below> below;  // of the frames that can come next, where they were tried
  };
  struct Below {
    std::uint32_t frame = 0;
    NodeClasses nodes;  // of what was open without the frame
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
  std::vector<Frame> frames_;  // of all stacks of the walk
  std::vector<Frame> paths_;   // current states with their stacks, level behind level
  std::vector<std::uint8_t> selected_;
  std::uint64_t steps_ = 0;
  const std::vector<std::uint32_t>* reached_ = nullptr;
  std::size_t walks_ = 0;  // for the current state
  bool too_many_ = false;
};

}  // namespace llmc::hosted::grammar
