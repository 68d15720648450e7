#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/grammar/grammar.h"
#include "compiler/support/result.h"

namespace llmc::grammar {

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
  };
  std::vector<State> states;
  std::uint32_t start = 0;
  std::vector<std::vector<std::uint32_t>> frame_lists;  // states; the last of a list is the top
};

struct PushdownLimits {
  std::size_t nodes = 400'000;    // of automata before they are made deterministic
  std::size_t states = 200'000;   // of all automata together
  std::size_t edges = 4'000'000;  // with those of called rules
};

/// Errors: kBadInput for left recursion and for rules that can never end, named; kUnsupported when
/// a limit is exceeded.
Result<Pushdown> build_pushdown(const Grammar& grammar, const PushdownLimits& limits = {});

/// For each state what may lie on top of the stack while it is the current one or a frame itself;
/// kBottom: nothing. Sorted. More than what is possible, never less.
inline constexpr std::uint32_t kBottom = UINT32_MAX;
std::vector<std::vector<std::uint32_t>> frames_below(const Pushdown& pushdown);

}  // namespace llmc::grammar
