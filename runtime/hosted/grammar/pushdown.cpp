#include "runtime/hosted/grammar/pushdown.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "runtime/hosted/grammar/components.h"
#include "runtime/hosted/grammar/dfa.h"
#include "runtime/hosted/grammar/failure.h"
#include "runtime/hosted/grammar/rules.h"
#include "runtime/hosted/grammar/sorted.h"

namespace llmc::hosted::grammar {
namespace {

class PushdownBuilder {
 public:
  PushdownBuilder(const Grammar& grammar, const PushdownLimits& limits)
      : grammar_(grammar), limits_(limits) {}

  Pushdown build() {
    facts_ = analyze_rules(grammar_, limits_.nodes);
    build_automata();
    reject_nonterminating();
    number_states();
    check_left_recursion();
    make_edges();
    return reachable_states();
  }

 private:
  /// A list of frames: the lowest frame, and the list of the frames above it. Lists may share their
  /// upper parts.
  struct Cell {
    std::uint32_t state = 0, rest = 0;  // rest: index in cells_
    std::uint32_t length = 0;
  };
  static constexpr std::uint32_t kNoFrames = 0;  // index of the empty list

  Failure too_large(std::uint32_t rule, const std::string& what, std::string hint = {}) const {
    return unsupported(concat("the grammar is too large: rule '",
                              printable(grammar_.rules[rule].name), "' ", what),
                       std::move(hint));
  }

  /// Builds an automaton for the root, and for each rule that it calls, directly or indirectly.
  void build_automata() {
    automata_.resize(grammar_.rules.size());
    std::vector<std::uint32_t> pending{grammar_.root};
    std::vector<bool> known(grammar_.rules.size());
    known[grammar_.root] = true;
    std::size_t states = 0;
    while (!pending.empty()) {
      const std::uint32_t rule = pending.back();
      pending.pop_back();
      const auto dfa =
          determinize(build_nfa(grammar_, facts_, rule), limits_.states - states, limits_.members);
      if (!dfa) {
        throw too_large(
            rule,
            concat("needs more than ", limits_.states, " states, or sets of more than ",
                   limits_.members, " nodes to find them"),
            "smaller counts in {m,n}, minLength, maxItems, fewer optional properties help most");
      }
      automata_[rule] = minimized(*dfa);
      states += automata_[rule].states.size();
      for (const Dfa::State& state : automata_[rule].states) {
        for (const Dfa::Edge& edge : state.edges) {
          if (edge.low < Nfa::kCall || known[edge.low - Nfa::kCall]) continue;
          known[edge.low - Nfa::kCall] = true;
          pending.push_back(edge.low - Nfa::kCall);
        }
      }
    }
    called_.clear();
    for (std::uint32_t i = 0; i < known.size(); ++i)
      if (known[i]) called_.push_back(i);
  }

  /// Throws for rules that match no text, because generation would never end in them.
  void reject_nonterminating() {
    std::vector<bool> ends(grammar_.rules.size());
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::uint32_t rule : called_) {
        if (ends[rule] || !can_end(automata_[rule], ends)) continue;
        ends[rule] = changed = true;
      }
    }
    for (const std::uint32_t rule : called_) {
      if (ends[rule]) continue;
      throw malformed(concat("rule '", printable(grammar_.rules[rule].name),
                             "' can never end: every way through it needs itself again"),
                      "give it an alternative without itself");
    }
  }
  /// Returns whether an accepting state can be reached without calls of rules that may not
  /// terminate.
  static bool can_end(const Dfa& dfa, const std::vector<bool>& ends) {
    std::vector<bool> seen(dfa.states.size());
    std::vector<std::uint32_t> pending;
    if (!dfa.states.empty()) pending.push_back(dfa.start);
    while (!pending.empty()) {
      const std::uint32_t s = pending.back();
      pending.pop_back();
      if (dfa.states[s].accepts) return true;
      if (seen[s]) continue;
      seen[s] = true;
      for (const Dfa::Edge& edge : dfa.states[s].edges)
        if (edge.low < Nfa::kCall || ends[edge.low - Nfa::kCall]) pending.push_back(edge.target);
    }
    return false;
  }

  /// Numbers the states of all automata. If the start state of a rule accepts, calls begin in a
  /// copy of it that does not accept, because the caller's automaton has a jump for the empty text.
  void number_states() {
    first_.assign(grammar_.rules.size(), 0);
    entry_.assign(grammar_.rules.size(), 0);
    for (const std::uint32_t rule : called_) {
      const Dfa& dfa = automata_[rule];
      first_[rule] = static_cast<std::uint32_t>(result_.states.size());
      for (const Dfa::State& state : dfa.states) {
        result_.states.emplace_back();
        result_.states.back().accepts = state.accepts;
        result_.states.back().rule = rule;
        source_.push_back(&state);
        base_.push_back(first_[rule]);
      }
      entry_[rule] = first_[rule] + dfa.start;
      if (rule == grammar_.root) result_.start = entry_[rule];
      if (!result_.states[entry_[rule]].accepts) continue;
      source_.push_back(source_[entry_[rule]]);
      base_.push_back(first_[rule]);
      entry_[rule] = static_cast<std::uint32_t>(result_.states.size());
      result_.states.emplace_back();
      result_.states.back().rule = rule;
    }
  }

  void check_left_recursion() {
    enum : std::uint8_t { kNew, kOpen, kDone };
    std::vector<std::uint8_t> mark(grammar_.rules.size(), kNew);
    struct Visit {
      std::uint32_t rule;
      std::size_t next;
    };
    for (const std::uint32_t root : called_) {
      std::vector<Visit> path;
      if (mark[root] == kNew) path.push_back({root, 0});
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        mark[rule] = kOpen;
        const std::vector<Dfa::Edge>& edges = source_[entry_[rule]]->edges;
        while (next < edges.size() && edges[next].low < Nfa::kCall) ++next;
        if (next == edges.size()) {
          mark[rule] = kDone;
          leading_order_.push_back(rule);
          path.pop_back();
          continue;
        }
        const std::uint32_t called = edges[next++].low - Nfa::kCall;
        if (mark[called] == kNew) path.push_back({called, 0});
        if (mark[called] != kOpen) continue;
        std::string circle;
        bool inside = false;
        for (const Visit& visit : path) {
          inside = inside || visit.rule == called;
          if (inside) circle += printable(grammar_.rules[visit.rule].name) + " -> ";
        }
        throw malformed(concat("left recursion: ", circle, printable(grammar_.rules[called].name)),
                        "a rule must not start with itself; write a repetition: x (op x)*");
      }
    }
  }

  /// Returns the list with `state` at the bottom and `rest` above it.
  std::uint32_t cell(std::uint32_t state, std::uint32_t rest) {
    const auto [it, added] = known_cells_.try_emplace(std::uint64_t{state} << 32 | rest,
                                                      static_cast<std::uint32_t>(cells_.size()));
    if (added) cells_.push_back({state, rest, cells_[rest].length + 1});
    return it->second;
  }

  /// Returns whether a state can only pop a frame.
  bool only_returns(std::uint32_t state) const {
    return result_.states[state].accepts && source_[state]->edges.empty();
  }

  /// Returns the edges that read a byte in a state: its own edges, and those of the rules that it
  /// calls, with the frames that the calls push (Edge::frames: index in cells_).
  std::vector<Pushdown::Edge> leading_edges(
      std::uint32_t state, const std::vector<std::vector<Pushdown::Edge>>& of_rules) {
    std::vector<Pushdown::Edge> result;
    for (const Dfa::Edge& edge : source_[state]->edges) {
      const std::uint32_t target = base_[state] + edge.target;
      if (edge.low < Nfa::kCall) {
        result.push_back({static_cast<std::uint8_t>(edge.low), static_cast<std::uint8_t>(edge.high),
                          target, kNoFrames});
        continue;
      }
      for (Pushdown::Edge inner : of_rules[edge.low - Nfa::kCall]) {
        // Do not push frames that can only pop (tail calls), so that right recursion needs no
        // stack.
        if (!only_returns(target)) inner.frames = cell(target, inner.frames);
        result.push_back(inner);
      }
    }
    return result;
  }

  void make_edges() {
    cells_.push_back({});
    std::vector<std::vector<Pushdown::Edge>> of_rules(grammar_.rules.size());
    std::size_t count = 0;
    const auto check = [&](const std::vector<Pushdown::Edge>& edges, std::uint32_t rule) -> void {
      for (const Pushdown::Edge& edge : edges) {
        if (cells_[edge.frames].length <= limits_.pushed) continue;
        throw too_large(rule, concat("starts with more than ", limits_.pushed,
                                     " nested rules that all continue after it"));
      }
      count += edges.size();
      if (count <= limits_.edges) return;
      throw too_large(rule,
                      concat("makes the automaton exceed ", limits_.edges,
                             " edges, including in each rule those of the rules it starts with"));
    };
    for (const std::uint32_t rule : leading_order_) {
      of_rules[rule] = leading_edges(entry_[rule], of_rules);
      check(of_rules[rule], rule);
    }
    for (std::uint32_t s = 0; s < result_.states.size(); ++s) {
      std::vector<Pushdown::Edge>& all = result_.states[s].edges;
      all = leading_edges(s, of_rules);
      check(all, result_.states[s].rule);
      const auto key = [](const Pushdown::Edge& e) {
        return std::tuple(e.low, e.high, e.target, e.frames);
      };
      std::ranges::sort(all, {}, key);
      all.erase(std::ranges::unique(all, {}, key).begin(), all.end());
    }
  }

  /// Returns the automaton without unreachable states. Most of these are start states of rules,
  /// whose edges have been copied to the callers.
  Pushdown reachable_states() {
    std::vector<std::uint32_t> number(result_.states.size(), UINT32_MAX);
    std::vector<std::uint32_t> order{result_.start};
    number[result_.start] = 0;
    const auto use = [&](std::uint32_t state) {
      if (number[state] != UINT32_MAX) return;
      number[state] = static_cast<std::uint32_t>(order.size());
      order.push_back(state);
    };
    std::vector<bool> seen(cells_.size());  // by list: whether its frames are in `order`
    std::vector<std::uint32_t> list_number(cells_.size(), UINT32_MAX), lists;
    Pushdown used;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (Pushdown::Edge& edge : result_.states[order[i]].edges) {
        use(edge.target);
        for (std::uint32_t c = edge.frames; c != kNoFrames && !seen[c]; c = cells_[c].rest) {
          seen[c] = true;
          use(cells_[c].state);
        }
        std::uint32_t& list = list_number[edge.frames];
        if (list == UINT32_MAX) {
          list = static_cast<std::uint32_t>(lists.size());
          lists.push_back(edge.frames);
        }
        edge.frames = list;
      }
    }
    for (const std::uint32_t old : order) {
      used.states.push_back(std::move(result_.states[old]));
      for (Pushdown::Edge& edge : used.states.back().edges) edge.target = number[edge.target];
    }
    lay_out_frames(used, lists, number);
    return used;
  }

  /// Stores the frame lists, the longest first, so that a shorter list can be the end of a longer
  /// one.
  void lay_out_frames(Pushdown& used, const std::vector<std::uint32_t>& lists,
                      const std::vector<std::uint32_t>& number) const {
    std::vector<std::uint32_t> by_length(lists.size());
    for (std::uint32_t i = 0; i < lists.size(); ++i) by_length[i] = i;
    std::ranges::sort(by_length, [&](std::uint32_t a, std::uint32_t b) {
      const std::uint32_t of_a = cells_[lists[a]].length, of_b = cells_[lists[b]].length;
      return of_a != of_b ? of_a > of_b : a < b;
    });
    std::vector<std::uint32_t> place(cells_.size(), UINT32_MAX);
    used.frame_lists.resize(lists.size());
    for (const std::uint32_t i : by_length) {
      const std::uint32_t list = lists[i];
      if (place[list] == UINT32_MAX) {
        if (used.frames.size() + cells_[list].length > limits_.frames) {
          throw too_large(used.states[number[cells_[list].state]].rule,
                          concat("is where lists of rules in one another get more than ",
                                 limits_.frames, " entries"));
        }
        for (std::uint32_t c = list; c != kNoFrames; c = cells_[c].rest) {
          if (place[c] == UINT32_MAX) place[c] = static_cast<std::uint32_t>(used.frames.size());
          used.frames.push_back(number[cells_[c].state]);
        }
        if (list == kNoFrames) place[list] = 0;
      }
      used.frame_lists[i] = {place[list], cells_[list].length};
    }
  }

  const Grammar& grammar_;
  const PushdownLimits limits_;
  RuleFacts facts_;
  std::vector<Dfa> automata_;                 // by rule; empty if the rule is not called
  std::vector<std::uint32_t> called_;         // rules that have automata
  std::vector<std::uint32_t> first_;          // by rule: number of its first state
  std::vector<std::uint32_t> entry_;          // by rule: the state in which a call begins
  std::vector<const Dfa::State*> source_;     // by state: its state in the automaton
  std::vector<std::uint32_t> base_;           // by state: first_ of its rule
  std::vector<std::uint32_t> leading_order_;  // rules; each comes after those with which it can
                                              // begin
  std::vector<Cell> cells_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_cells_;
  Pushdown result_;
};

}  // namespace

Pushdown build_pushdown(const Grammar& grammar, const PushdownLimits& limits) {
  return PushdownBuilder(grammar, limits).build();
}

FramesBelow frames_below(const Pushdown& pushdown, const Grammar& grammar,
                         const PushdownLimits& limits) {
  // The frames below a state are also below its successors. A successor is the target of an edge
  // without frames, or the lowest frame of an edge with frames. All states of a cycle have the same
  // set. A state that adds no frames and whose predecessors have only one set shares that set.
  const std::size_t count = pushdown.states.size();
  std::vector<std::vector<std::uint32_t>> next(count), own(count);
  own[pushdown.start].push_back(kBottom);
  for (std::size_t s = 0; s < count; ++s) {
    for (const Pushdown::Edge& edge : pushdown.states[s].edges) {
      const std::span<const std::uint32_t> frames = pushdown.pushed(edge);
      for (std::size_t i = 1; i < frames.size(); ++i) own[frames[i]].push_back(frames[i - 1]);
      if (!frames.empty()) own[edge.target].push_back(frames.back());
      next[s].push_back(frames.empty() ? edge.target : frames.front());
    }
    sort_unique(next[s]);
  }
  const Components found = components(next);
  FramesBelow result;
  result.set_of.resize(count);
  result.sets.emplace_back();
  std::map<std::vector<std::uint32_t>, std::uint32_t> known{{{}, 0}};
  std::vector<std::vector<std::uint32_t>> before(
      found.count);  // sets of the predecessors, by component
  std::size_t members = 0;
  for (std::size_t past = count; past > 0;) {  // predecessors first
    const std::uint32_t component = found.of[found.nodes[past - 1]];
    std::size_t first = past;
    std::vector<std::uint32_t> all;
    while (first > 0 && found.of[found.nodes[first - 1]] == component) {
      std::vector<std::uint32_t>& of_state = own[found.nodes[--first]];
      all.insert(all.end(), of_state.begin(), of_state.end());
      of_state = {};
    }
    sort_unique(before[component]);
    std::uint32_t set = 0;
    if (all.empty() && before[component].size() == 1) {
      set = before[component].front();
    } else {
      for (const std::uint32_t other : before[component]) {
        const std::vector<std::uint32_t>& set_before = result.sets[other];
        all.insert(all.end(), set_before.begin(), set_before.end());
      }
      sort_unique(all);
      const auto [it, added] =
          known.try_emplace(all, static_cast<std::uint32_t>(result.sets.size()));
      set = it->second;
      if (added) {
        members += all.size();
        result.sets.push_back(std::move(all));
      }
    }
    if (members > limits.frames) {
      const std::uint32_t rule = pushdown.states[found.nodes[first]].rule;
      throw unsupported(concat("the grammar is too large: rule '",
                               printable(grammar.rules[rule].name),
                               "' is used too often in recursive rules"));
    }
    before[component] = {};
    for (; past > first; --past) {
      const std::uint32_t state = found.nodes[past - 1];
      result.set_of[state] = set;
      for (const std::uint32_t to : next[state])
        if (found.of[to] != component) before[found.of[to]].push_back(set);
    }
  }
  return result;
}

}  // namespace llmc::hosted::grammar
