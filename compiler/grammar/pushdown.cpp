#include "compiler/grammar/pushdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "compiler/grammar/dfa.h"
#include "compiler/grammar/rules.h"

namespace llmc::grammar {
namespace {

class Builder {
 public:
  Builder(const Grammar& grammar, const PushdownLimits& limits)
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
  struct Leading {  // an edge of a called rule's start, with the frames of the calls to get there
    Pushdown::Edge edge;
    std::vector<std::uint32_t> frames;
  };

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
      const auto dfa = determinize(build_nfa(grammar_, facts_, rule), limits_.states - states);
      if (!dfa) {
        return failure(ErrorKind::kUnsupported,
                       fmt::format("the grammar is too large: rule '{}' needs more than {} states",
                                   printable(grammar_.rules[rule].name), limits_.states),
                       "smaller counts in {m,n}, minLength, maxItems and the like help most");
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

  std::uint32_t frame_list(const std::vector<std::uint32_t>& frames) {
    const auto [it, added] =
        lists_.try_emplace(frames, static_cast<std::uint32_t>(result_.frame_lists.size()));
    if (added) result_.frame_lists.push_back(frames);
    return it->second;
  }

  /// Whether nothing is left to do in a state but to pop.
  bool only_returns(std::uint32_t state) const {
    return result_.states[state].accepts && source_[state]->edges.empty();
  }

  /// All first bytes from a state: its own edges and those of the rules it calls.
  std::vector<Leading> leading(std::uint32_t state,
                               const std::vector<std::vector<Leading>>& of_rules) const {
    std::vector<Leading> result;
    for (const Dfa::Edge& edge : source_[state]->edges) {
      const std::uint32_t target = base_[state] + edge.target;
      if (edge.low < Nfa::kCall) {
        result.push_back(
            {{static_cast<std::uint8_t>(edge.low), static_cast<std::uint8_t>(edge.high), target, 0},
             {}});
        continue;
      }
      for (Leading inner : of_rules[edge.low - Nfa::kCall]) {
        // A frame that would only be popped again is not pushed: lists written with right
        // recursion do not fill the stack.
        if (!only_returns(target)) inner.frames.insert(inner.frames.begin(), target);
        result.push_back(std::move(inner));
      }
    }
    return result;
  }

  Status make_edges() {
    frame_list({});
    std::vector<std::vector<Leading>> of_rules(grammar_.rules.size());
    std::size_t edges = 0;
    const auto too_many = [&] {
      return failure(ErrorKind::kUnsupported, fmt::format("the grammar is too large: more than {} "
                                                          "edges",
                                                          limits_.edges));
    };
    for (const std::uint32_t rule : leading_order_) {
      of_rules[rule] = leading(entry_[rule], of_rules);
      if ((edges += of_rules[rule].size()) > limits_.edges) return too_many();
    }
    for (std::uint32_t s = 0; s < result_.states.size(); ++s) {
      std::vector<Pushdown::Edge>& all = result_.states[s].edges;
      for (Leading& one : leading(s, of_rules)) {
        one.edge.frames = frame_list(one.frames);
        all.push_back(one.edge);
      }
      if ((edges += all.size()) > limits_.edges) return too_many();
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
  Pushdown used_states() {
    std::vector<std::uint32_t> number(result_.states.size(), UINT32_MAX);
    std::vector<std::uint32_t> order{result_.start};
    number[result_.start] = 0;
    const auto use = [&](std::uint32_t state) {
      if (number[state] != UINT32_MAX) return;
      number[state] = static_cast<std::uint32_t>(order.size());
      order.push_back(state);
    };
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const Pushdown::Edge& edge : result_.states[order[i]].edges) {
        use(edge.target);
        for (const std::uint32_t frame : result_.frame_lists[edge.frames]) use(frame);
      }
    }
    Pushdown used;
    std::vector<std::uint32_t> list_number(result_.frame_lists.size(), UINT32_MAX);
    for (const std::uint32_t old : order) {
      used.states.push_back(std::move(result_.states[old]));
      for (Pushdown::Edge& edge : used.states.back().edges) {
        edge.target = number[edge.target];
        std::uint32_t& list = list_number[edge.frames];
        if (list == UINT32_MAX) {
          list = static_cast<std::uint32_t>(used.frame_lists.size());
          used.frame_lists.push_back(result_.frame_lists[edge.frames]);
          for (std::uint32_t& frame : used.frame_lists.back()) frame = number[frame];
        }
        edge.frames = list;
      }
    }
    return used;
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
  std::map<std::vector<std::uint32_t>, std::uint32_t> lists_;
  Pushdown result_;
};

}  // namespace

Result<Pushdown> build_pushdown(const Grammar& grammar, const PushdownLimits& limits) {
  return Builder(grammar, limits).build();
}

std::vector<std::vector<std::uint32_t>> frames_below(const Pushdown& pushdown) {
  // Pairs (state, frame) spread until nothing is new: along edges that push nothing, and from a
  // state to the lowest of the frames it pushes.
  std::vector<std::set<std::uint32_t>> below(pushdown.states.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pending;
  const auto add = [&](std::uint32_t state, std::uint32_t frame) {
    if (below[state].insert(frame).second) pending.emplace_back(state, frame);
  };
  add(pushdown.start, kBottom);
  for (const Pushdown::State& state : pushdown.states) {
    for (const Pushdown::Edge& edge : state.edges) {
      const std::vector<std::uint32_t>& frames = pushdown.frame_lists[edge.frames];
      for (std::size_t i = 1; i < frames.size(); ++i) add(frames[i], frames[i - 1]);
      if (!frames.empty()) add(edge.target, frames.back());
    }
  }
  while (!pending.empty()) {
    const auto [state, frame] = pending.back();
    pending.pop_back();
    for (const Pushdown::Edge& edge : pushdown.states[state].edges) {
      const std::vector<std::uint32_t>& frames = pushdown.frame_lists[edge.frames];
      add(frames.empty() ? edge.target : frames.front(), frame);
    }
  }
  std::vector<std::vector<std::uint32_t>> result;
  for (const auto& frames : below) result.emplace_back(frames.begin(), frames.end());
  return result;
}

}  // namespace llmc::grammar
