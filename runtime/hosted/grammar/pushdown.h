#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

/// A grammar as an automaton over bytes with a stack, which reads a byte with every step: an edge
/// leads to a state and pushes where to go on later; a state that accepts may pop a frame instead
/// and go on there. Rules that do not contain themselves are copied to where they are used unless
/// that gets large, so a grammar without recursion has no frames as a rule.
struct Pushdown {
  struct Edge {
    std::uint8_t low = 0, high = 0;
    std::uint32_t target = 0;
    std::uint32_t frames = 0;  // index into frame_lists
  };
  struct State {
    std::vector<Edge> edges;  // sorted by low; they may overlap
    bool accepts = false;
    std::uint32_t rule = 0;  // of the grammar, that it belongs to
  };
  struct FrameList {
    std::uint32_t first = 0, count = 0;  // of frames
  };
  std::vector<State> states;
  std::uint32_t start = 0;
  std::vector<FrameList> frame_lists;
  std::vector<std::uint32_t> frames;  // states; the last of a list is the top. Lists that end alike
                                      // share what they have in common

  /// What an edge pushes.
  std::span<const std::uint32_t> pushed(const Edge& edge) const {
    const FrameList& list = frame_lists[edge.frames];
    return std::span(frames).subspan(list.first, list.count);
  }
};

struct PushdownLimits {
  std::size_t nodes = 400'000;       // of automata before they are made deterministic
  std::size_t states = 200'000;      // of all automata together
  std::size_t edges = 4'000'000;     // with those of called rules
  std::size_t members = 48'000'000;  // nodes in the sets that a deterministic automaton's states
                                     // stand for
  std::size_t pushed = 1024;         // frames of one edge: no more fit a grammar's state
  std::size_t frames = 16'000'000;   // of all lists of frames; of all sets of frames below a state
};

/// Throws for left recursion and for rules that can never end, named; and, as unsupported, when
/// a limit is exceeded, with the rule that does it.
Pushdown build_pushdown(const Grammar& grammar, const PushdownLimits& limits = {});

/// For each state what may lie on top of the stack while it is the current one or a frame itself;
/// kBottom: nothing. Sorted. More than what is possible, never less.
inline constexpr std::uint32_t kBottom = UINT32_MAX;
struct FramesBelow {
  std::vector<std::uint32_t> set_of;             // by state
  std::vector<std::vector<std::uint32_t>> sets;  // each once

  const std::vector<std::uint32_t>& operator[](std::uint32_t state) const {
    return sets[set_of[state]];
  }
};
/// Throws, with the rule, when the sets have more than limits.frames members.
FramesBelow frames_below(const Pushdown& pushdown, const Grammar& grammar,
                         const PushdownLimits& limits = {});

}  // namespace llmc::hosted::grammar
