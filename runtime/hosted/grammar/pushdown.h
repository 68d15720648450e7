#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

/// A pushdown automaton over bytes. An edge reads a byte, goes to its target, and pushes frames,
/// which are the states to return to. An accepting state may pop a frame and continue in its state
/// without reading a byte. Rules that are not recursive are copied to each place of use if the
/// copies are small, so that most grammars without recursion push no frames.
struct Pushdown {
  struct Edge {
    std::uint8_t low = 0, high = 0;
    std::uint32_t target = 0;
    std::uint32_t frames = 0;  // index into frame_lists
  };
  struct State {
    std::vector<Edge> edges;  // sorted by `low`; they may overlap
    bool accepts = false;
    std::uint32_t rule = 0;  // rule of the grammar
  };
  struct FrameList {
    std::uint32_t first = 0, count = 0;  // range of `frames`
  };
  std::vector<State> states;
  std::uint32_t start = 0;
  std::vector<FrameList> frame_lists;
  /// The states of all lists. The last one of a list becomes the top of the stack. A list that
  /// equals the end of another list is stored as a part of it.
  std::vector<std::uint32_t> frames;

  /// Returns the frames that an edge pushes.
  std::span<const std::uint32_t> pushed(const Edge& edge) const {
    const FrameList& list = frame_lists[edge.frames];
    return std::span(frames).subspan(list.first, list.count);
  }
};

struct PushdownLimits {
  std::size_t nodes = 400'000;    // nodes of the nondeterministic automata
  std::size_t states = 200'000;   // states of all deterministic automata
  std::size_t edges = 4'000'000;  // edges, including those of called rules
  /// Nodes in the subsets that the states of one deterministic automaton represent.
  std::size_t members = 48'000'000;
  /// Frames that one edge pushes; no more than the stack of the runtime can hold.
  std::size_t pushed = 1024;
  std::size_t frames = 16'000'000;  // maximum total of all frame lists, and of all sets of
                                    // FramesBelow
};

/// Builds the automaton of a grammar. Throws for left recursion, for rules that cannot terminate,
/// and if a limit is exceeded. The message names the rule, except for the limit on nodes.
Pushdown build_pushdown(const Grammar& grammar, const PushdownLimits& limits = {});

/// Represents the empty stack in place of the frame below a state.
inline constexpr std::uint32_t kBottom = UINT32_MAX;
/// For each state, a sorted superset of the frames that can be directly below it on the stack, or
/// kBottom.
struct FramesBelow {
  std::vector<std::uint32_t> set_of;             // by state: index in `sets`
  std::vector<std::vector<std::uint32_t>> sets;  // all different

  const std::vector<std::uint32_t>& operator[](std::uint32_t state) const {
    return sets[set_of[state]];
  }
};
/// Computes the sets. Throws if they have more than limits.frames members in total; the message
/// names the rule.
FramesBelow frames_below(const Pushdown& pushdown, const Grammar& grammar,
                         const PushdownLimits& limits = {});

}  // namespace llmc::hosted::grammar
