#include "compiler/grammar/pushdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "compiler/grammar/components.h"
#include "compiler/grammar/dfa.h"
#include "compiler/grammar/rules.h"
#include "compiler/grammar/sorted.h"

namespace llmc::grammar {
namespace {

class PushdownBuilder {
 public:
  PushdownBuilder(const Grammar& grammar, const PushdownLimits& limits)
      : grammar_(grammar), limits_(limits) {}

  Result<Pushdown> build() {
    LLMC_TRY(facts_, examine_rules(grammar_, limits_.nodes));
    LLMC_RETURN_IF_ERROR(build_automata());
    LLMC_RETURN_IF_ERROR(drop_endless());
    place_states();
    LLMC_RETURN_IF_ERROR(check_left_recursion());
    LLMC_RETURN_IF_ERROR(make_edges());
    return used_states();
  }

 private:
  /// A list of frames: one at the bottom, the rest above it. Lists share their rests.
  struct Cell {
    std::uint32_t state = 0, rest = 0;  // rest: of cells_, before this one
    std::uint32_t length = 0;
  };
  static constexpr std::uint32_t kNoFrames = 0;  // of cells_: the empty list

  Diagnostic too_large(std::uint32_t rule, const std::string& what, std::string hint = {}) const {
    return failure(ErrorKind::kUnsupported,
                   fmt::format("the grammar is too large: rule '{}' {}",
                               printable(grammar_.rules[rule].name), what),
                   std::move(hint));
  }

  /// Rules that are called from root, over others or not, get an automaton.
  Status build_automata() {
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
        return too_large(
            rule,
            fmt::format("needs more than {} states, or sets of more than {} nodes to find them",
                        limits_.states, limits_.members),
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
    return ok_status();
  }

  /// Rules that need themselves to end match nothing; a text must never be led into them.
  Status drop_endless() {
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
      return failure(ErrorKind::kBadInput,
                     fmt::format("rule '{}' can never end: every way through it needs itself again",
                                 printable(grammar_.rules[rule].name)),
                     "give it an alternative without itself");
    }
    return ok_status();
  }
  /// Without calls of rules that are not known to end.
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

  /// Numbers all states; a called rule begins in a state of its own that does not accept: where it
  /// may be empty, the caller steps over it.
  void place_states() {
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

  Status check_left_recursion() {
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
        return failure(
            ErrorKind::kBadInput,
            fmt::format("left recursion: {}{}", circle, printable(grammar_.rules[called].name)),
            "a rule must not begin with itself; write a repetition: x (op x)*");
      }
    }
    return ok_status();
  }

  /// The list of `state` with `rest` above it.
  std::uint32_t cell(std::uint32_t state, std::uint32_t rest) {
    const auto [it, added] = known_cells_.try_emplace(std::uint64_t{state} << 32 | rest,
                                                      static_cast<std::uint32_t>(cells_.size()));
    if (added) cells_.push_back({state, rest, cells_[rest].length + 1});
    return it->second;
  }

  /// Whether nothing is left to do in a state but to pop.
  bool only_returns(std::uint32_t state) const {
    return result_.states[state].accepts && source_[state]->edges.empty();
  }

  /// All first bytes from a state: its own edges and those of the rules it calls, with the frames
  /// of the calls to get there (Edge::frames: of cells_).
  std::vector<Pushdown::Edge> leading(std::uint32_t state,
                                      const std::vector<std::vector<Pushdown::Edge>>& of_rules) {
    std::vector<Pushdown::Edge> result;
    for (const Dfa::Edge& edge : source_[state]->edges) {
      const std::uint32_t target = base_[state] + edge.target;
      if (edge.low < Nfa::kCall) {
        result.push_back({static_cast<std::uint8_t>(edge.low), static_cast<std::uint8_t>(edge.high),
                          target, kNoFrames});
        continue;
      }
      for (Pushdown::Edge inner : of_rules[edge.low - Nfa::kCall]) {
        // A frame that would only be popped again is not pushed: lists written with right
        // recursion do not fill the stack.
        if (!only_returns(target)) inner.frames = cell(target, inner.frames);
        result.push_back(inner);
      }
    }
    return result;
  }

  Status make_edges() {
    cells_.push_back({});
    std::vector<std::vector<Pushdown::Edge>> of_rules(grammar_.rules.size());
    std::size_t count = 0;
    const auto check = [&](const std::vector<Pushdown::Edge>& edges, std::uint32_t rule) -> Status {
      for (const Pushdown::Edge& edge : edges) {
        if (cells_[edge.frames].length <= limits_.pushed) continue;
        return too_large(rule, fmt::format("begins with more than {} rules in one another, each of "
                                           "which goes on behind it",
                                           limits_.pushed));
      }
      count += edges.size();
      if (count <= limits_.edges) return ok_status();
      return too_large(rule, fmt::format("is where the automaton gets more than {} edges, those of "
                                         "the rules that rules begin with counted in each",
                                         limits_.edges));
    };
    for (const std::uint32_t rule : leading_order_) {
      of_rules[rule] = leading(entry_[rule], of_rules);
      LLMC_RETURN_IF_ERROR(check(of_rules[rule], rule));
    }
    for (std::uint32_t s = 0; s < result_.states.size(); ++s) {
      std::vector<Pushdown::Edge>& all = result_.states[s].edges;
      all = leading(s, of_rules);
      LLMC_RETURN_IF_ERROR(check(all, result_.states[s].rule));
      const auto key = [](const Pushdown::Edge& e) {
        return std::tuple(e.low, e.high, e.target, e.frames);
      };
      std::ranges::sort(all, {}, key);
      all.erase(std::ranges::unique(all, {}, key).begin(), all.end());
    }
    return ok_status();
  }

  /// Leaves out states that no text leads to: mostly starts of rules, whose edges are their
  /// callers'.
  Result<Pushdown> used_states() {
    std::vector<std::uint32_t> number(result_.states.size(), UINT32_MAX);
    std::vector<std::uint32_t> order{result_.start};
    number[result_.start] = 0;
    const auto use = [&](std::uint32_t state) {
      if (number[state] != UINT32_MAX) return;
      number[state] = static_cast<std::uint32_t>(order.size());
      order.push_back(state);
    };
    std::vector<bool> seen(cells_.size());  // with its rest
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
    LLMC_RETURN_IF_ERROR(place_frames(used, lists, number));
    return used;
  }

  /// Writes the lists of frames, the longest first: shorter ones are the ends of longer ones.
  Status place_frames(Pushdown& used, const std::vector<std::uint32_t>& lists,
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
          return too_large(
              used.states[number[cells_[list].state]].rule,
              fmt::format("is where lists of rules in one another get more than {} entries",
                          limits_.frames));
        }
        for (std::uint32_t c = list; c != kNoFrames; c = cells_[c].rest) {
          if (place[c] == UINT32_MAX) place[c] = static_cast<std::uint32_t>(used.frames.size());
          used.frames.push_back(number[cells_[c].state]);
        }
        if (list == kNoFrames) place[list] = 0;
      }
      used.frame_lists[i] = {place[list], cells_[list].length};
    }
    return ok_status();
  }

  const Grammar& grammar_;
  const PushdownLimits limits_;
  RuleFacts facts_;
  std::vector<Dfa> automata_;                 // by rule; empty unless called
  std::vector<std::uint32_t> called_;         // rules with automata
  std::vector<std::uint32_t> first_;          // of a rule's states
  std::vector<std::uint32_t> entry_;          // where a call of a rule begins
  std::vector<const Dfa::State*> source_;     // by state
  std::vector<std::uint32_t> base_;           // by state: first_ of its rule
  std::vector<std::uint32_t> leading_order_;  // rules, what they begin with before them
  std::vector<Cell> cells_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_cells_;
  Pushdown result_;
};

}  // namespace

Result<Pushdown> build_pushdown(const Grammar& grammar, const PushdownLimits& limits) {
  return PushdownBuilder(grammar, limits).build();
}

Result<FramesBelow> frames_below(const Pushdown& pushdown, const Grammar& grammar,
                                 const PushdownLimits& limits) {
  // What lies below a state lies below those it leads to: the target of an edge that pushes
  // nothing, the lowest frame that one pushes. Circles of states have one set, and a state that has
  // nothing to add shares its predecessor's.
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
    tidy(next[s]);
  }
  const Components found = components(next);
  FramesBelow result;
  result.set_of.resize(count);
  result.sets.emplace_back();
  std::map<std::vector<std::uint32_t>, std::uint32_t> known{{{}, 0}};
  std::vector<std::vector<std::uint32_t>> before(found.count);  // sets of who leads to a component
  std::size_t members = 0;
  for (std::size_t past = count; past > 0;) {  // who leads to a component before it
    const std::uint32_t component = found.of[found.nodes[past - 1]];
    std::size_t first = past;
    std::vector<std::uint32_t> all;
    while (first > 0 && found.of[found.nodes[first - 1]] == component) {
      std::vector<std::uint32_t>& of_state = own[found.nodes[--first]];
      all.insert(all.end(), of_state.begin(), of_state.end());
      of_state = {};
    }
    tidy(before[component]);
    std::uint32_t set = 0;
    if (all.empty() && before[component].size() == 1) {
      set = before[component].front();
    } else {
      for (const std::uint32_t other : before[component]) {
        const std::vector<std::uint32_t>& set_before = result.sets[other];
        all.insert(all.end(), set_before.begin(), set_before.end());
      }
      tidy(all);
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
      return failure(
          ErrorKind::kUnsupported,
          fmt::format("the grammar is too large: rule '{}' is used in too many places of "
                      "rules that contain themselves",
                      printable(grammar.rules[rule].name)));
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

}  // namespace llmc::grammar
