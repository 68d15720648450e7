#include "runtime/hosted/grammar/dfa.h"

#include <algorithm>
#include <array>
#include <map>

namespace llmc::hosted::grammar {
namespace {

using Nodes = std::vector<std::uint32_t>;  // sorted, without duplicates

/// Returns the first byte of each interval of bytes that no arc distinguishes, and 256.
std::vector<std::uint32_t> byte_classes(const Nfa& nfa) {
  std::array<bool, 257> begins{};
  begins[0] = true;
  for (const Nfa::Node& node : nfa.nodes) {
    for (const Nfa::Arc& arc : node.arcs) {
      if (arc.low >= Nfa::kCall) continue;
      begins[arc.low] = true;
      begins[arc.high + 1] = true;
    }
  }
  std::vector<std::uint32_t> result;
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    if (begins[byte]) result.push_back(byte);
  result.push_back(256);
  return result;
}

/// Appends an edge. If its bytes are adjacent to those of the last edge and the targets are equal,
/// extends the last edge instead.
void append_edge(std::vector<Dfa::Edge>& edges, const Dfa::Edge& edge) {
  if (edge.low < Nfa::kCall && !edges.empty() && edges.back().target == edge.target &&
      edges.back().high + 1 == edge.low) {
    edges.back().high = edge.high;
  } else {
    edges.push_back(edge);
  }
}

class Subsets {
 public:
  explicit Subsets(const Nfa& nfa)
      : nfa_(nfa), begins_(byte_classes(nfa)), seen_(nfa.nodes.size()) {
    class_of_.resize(256);
    for (std::uint32_t c = 0; c + 1 < begins_.size(); ++c)
      for (std::uint32_t byte = begins_[c]; byte < begins_[c + 1]; ++byte) class_of_[byte] = c;
  }

  std::optional<Dfa> build(std::size_t max_states, std::size_t max_members) {
    state({nfa_.start});
    for (std::size_t i = 0; i < dfa_.states.size(); ++i) {
      if (dfa_.states.size() > max_states || members_ > max_members) return std::nullopt;
      expand(i);
    }
    return std::move(dfa_);
  }

 private:
  /// Returns the state for these nodes and all nodes that can be reached from them by jumps.
  std::uint32_t state(Nodes nodes) {
    Nodes pending = std::move(nodes), found;
    ++round_;
    while (!pending.empty()) {
      const std::uint32_t node = pending.back();
      pending.pop_back();
      if (seen_[node] == round_) continue;
      seen_[node] = round_;
      // Nodes that have only jumps do not distinguish subsets.
      if (!nfa_.nodes[node].arcs.empty() || node == nfa_.end) found.push_back(node);
      pending.insert(pending.end(), nfa_.nodes[node].jumps.begin(), nfa_.nodes[node].jumps.end());
    }
    std::ranges::sort(found);
    const auto next = static_cast<std::uint32_t>(dfa_.states.size());
    const auto [it, added] = ids_.try_emplace(std::move(found), next);
    if (added) {
      dfa_.states.emplace_back();
      dfa_.states.back().accepts = std::ranges::binary_search(it->first, nfa_.end);
      sets_.push_back(&it->first);
      members_ += it->first.size();
    }
    return it->second;
  }

  void expand(std::size_t from) {
    std::map<std::uint32_t, Nodes> targets;  // by interval of bytes or called rule
    for (const std::uint32_t node : *sets_[from]) {
      for (const Nfa::Arc& arc : nfa_.nodes[node].arcs) {
        if (arc.low >= Nfa::kCall) {
          targets[arc.low].push_back(arc.target);
          continue;
        }
        for (std::uint32_t c = class_of_[arc.low]; c <= class_of_[arc.high]; ++c)
          targets[c].push_back(arc.target);
      }
    }
    std::vector<Dfa::Edge> edges;
    for (auto& [label, nodes] : targets) {
      const std::uint32_t target = state(std::move(nodes));
      const bool call = label >= Nfa::kCall;
      append_edge(edges,
                  {call ? label : begins_[label], call ? label : begins_[label + 1] - 1, target});
    }
    dfa_.states[from].edges = std::move(edges);
  }

  const Nfa& nfa_;
  const std::vector<std::uint32_t> begins_;
  std::vector<std::uint32_t> class_of_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t round_ = 0;
  std::map<Nodes, std::uint32_t> ids_;
  std::vector<const Nodes*> sets_;
  std::size_t members_ = 0;  // total number of nodes in all subsets
  Dfa dfa_;
};

/// A partition of 0 .. size - 1, which is refined by marking elements and calling split().
class Partition {
 public:
  explicit Partition(std::uint32_t size)
      : elements(size), place_(size), set_of(size), marked_(size + 1) {
    for (std::uint32_t i = 0; i < size; ++i) elements[i] = place_[i] = i;
    if (size > 0) {
      first.push_back(0);
      past.push_back(size);
    }
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(first.size()); }

  /// Creates one set per key, in ascending order of keys.
  template <class Key>
  void group(const Key& key) {
    std::ranges::sort(elements, {}, key);
    first.clear();
    past.clear();
    for (std::uint32_t i = 0; i < elements.size(); ++i) {
      if (i == 0 || key(elements[i]) != key(elements[i - 1])) {
        if (i > 0) past.push_back(i);
        first.push_back(i);
      }
      set_of[elements[i]] = count() - 1;
      place_[elements[i]] = i;
    }
    if (!elements.empty()) past.push_back(static_cast<std::uint32_t>(elements.size()));
  }
  void mark(std::uint32_t element) {
    const std::uint32_t s = set_of[element];
    const std::uint32_t from = place_[element], to = first[s] + marked_[s];
    if (from < to) return;  // already marked
    elements[from] = elements[to];
    place_[elements[from]] = from;
    elements[to] = element;
    place_[element] = to;
    if (marked_[s]++ == 0) touched_.push_back(s);
  }
  /// Splits each set into its marked and its unmarked elements. The smaller part becomes a new set.
  void split() {
    while (!touched_.empty()) {
      const std::uint32_t s = touched_.back();
      touched_.pop_back();
      const std::uint32_t border = first[s] + marked_[s];
      const std::uint32_t marks = marked_[s];
      marked_[s] = 0;
      if (border == past[s]) continue;
      if (marks <= past[s] - border) {
        first.push_back(first[s]);
        past.push_back(border);
        first[s] = border;
      } else {
        first.push_back(border);
        past.push_back(past[s]);
        past[s] = border;
      }
      for (std::uint32_t i = first.back(); i < past.back(); ++i) set_of[elements[i]] = count() - 1;
    }
  }

  std::vector<std::uint32_t> elements, first, past;

 private:
  std::vector<std::uint32_t> place_;

 public:
  std::vector<std::uint32_t> set_of;

 private:
  std::vector<std::uint32_t> marked_, touched_;
};

struct Transition {
  std::uint32_t tail = 0, label = 0, head = 0;
};

/// Returns the automaton with only the states that are reachable and can reach an accepting state,
/// renumbered.
Dfa trimmed(const Dfa& dfa) {
  const std::size_t count = dfa.states.size();
  std::vector<std::vector<std::uint32_t>> back(count);
  std::vector<bool> reached(count), ends(count);
  std::vector<std::uint32_t> pending;
  if (count > 0) pending.push_back(dfa.start);
  while (!pending.empty()) {
    const std::uint32_t s = pending.back();
    pending.pop_back();
    if (reached[s]) continue;
    reached[s] = true;
    for (const Dfa::Edge& edge : dfa.states[s].edges) {
      back[edge.target].push_back(s);
      pending.push_back(edge.target);
    }
  }
  for (std::uint32_t s = 0; s < count; ++s)
    if (reached[s] && dfa.states[s].accepts) pending.push_back(s);
  while (!pending.empty()) {
    const std::uint32_t s = pending.back();
    pending.pop_back();
    if (ends[s]) continue;
    ends[s] = true;
    pending.insert(pending.end(), back[s].begin(), back[s].end());
  }
  Dfa result;
  if (count == 0 || !ends[dfa.start]) return result;
  std::vector<std::uint32_t> number(count);
  std::uint32_t next = 0;
  for (std::uint32_t s = 0; s < count; ++s)
    if (ends[s]) number[s] = next++;
  for (std::uint32_t s = 0; s < count; ++s) {
    if (!ends[s]) continue;
    Dfa::State state;
    state.accepts = dfa.states[s].accepts;
    for (const Dfa::Edge& edge : dfa.states[s].edges)
      if (ends[edge.target]) state.edges.push_back({edge.low, edge.high, number[edge.target]});
    result.states.push_back(std::move(state));
  }
  result.start = number[dfa.start];
  return result;
}

}  // namespace

std::optional<Dfa> determinize(const Nfa& nfa, std::size_t max_states, std::size_t max_members) {
  return Subsets(nfa).build(max_states, max_members);
}

Dfa minimized(const Dfa& given) {
  const Dfa dfa = trimmed(given);
  const auto count = static_cast<std::uint32_t>(dfa.states.size());
  if (count == 0) return dfa;
  // Labels: intervals of bytes that no edge distinguishes, then calls.
  std::vector<std::uint32_t> begins{0, 256};
  for (const Dfa::State& state : dfa.states) {
    for (const Dfa::Edge& edge : state.edges) {
      if (edge.low >= Nfa::kCall) continue;
      begins.push_back(edge.low);
      begins.push_back(edge.high + 1);
    }
  }
  std::ranges::sort(begins);
  begins.erase(std::ranges::unique(begins).begin(), begins.end());
  std::vector<Transition> transitions;
  for (std::uint32_t s = 0; s < count; ++s) {
    for (const Dfa::Edge& edge : dfa.states[s].edges) {
      if (edge.low >= Nfa::kCall) {
        transitions.push_back({s, edge.low, edge.target});
        continue;
      }
      for (auto it = std::ranges::lower_bound(begins, edge.low); *it <= edge.high; ++it)
        transitions.push_back({s, *it, edge.target});
    }
  }
  std::vector<std::uint32_t> first_in(count + 1), into(transitions.size());
  for (const Transition& t : transitions) ++first_in[t.head];
  for (std::uint32_t s = 0; s < count; ++s) first_in[s + 1] += first_in[s];
  for (auto t = static_cast<std::uint32_t>(transitions.size()); t-- > 0;)
    into[--first_in[transitions[t].head]] = t;

  Partition blocks(count), cords(static_cast<std::uint32_t>(transitions.size()));
  for (std::uint32_t s = 0; s < count; ++s)
    if (dfa.states[s].accepts) blocks.mark(s);
  blocks.split();
  cords.group([&](std::uint32_t t) { return transitions[t].label; });
  for (std::uint32_t block = 1, cord = 0; cord < cords.count(); ++cord) {
    for (std::uint32_t i = cords.first[cord]; i < cords.past[cord]; ++i)
      blocks.mark(transitions[cords.elements[i]].tail);
    blocks.split();
    for (; block < blocks.count(); ++block) {
      for (std::uint32_t i = blocks.first[block]; i < blocks.past[block]; ++i) {
        const std::uint32_t s = blocks.elements[i];
        for (std::uint32_t k = first_in[s]; k < first_in[s + 1]; ++k) cords.mark(into[k]);
      }
      cords.split();
    }
  }

  // Number the blocks by their first states, so that the result does not depend on the order of
  // splits.
  std::vector<std::uint32_t> number(blocks.count(), UINT32_MAX);
  Dfa result;
  std::vector<std::uint32_t> sample;
  for (std::uint32_t s = 0; s < count; ++s) {
    if (number[blocks.set_of[s]] != UINT32_MAX) continue;
    number[blocks.set_of[s]] = static_cast<std::uint32_t>(sample.size());
    sample.push_back(s);
  }
  for (const std::uint32_t s : sample) {
    Dfa::State state;
    state.accepts = dfa.states[s].accepts;
    for (const Dfa::Edge& edge : dfa.states[s].edges)
      append_edge(state.edges, {edge.low, edge.high, number[blocks.set_of[edge.target]]});
    result.states.push_back(std::move(state));
  }
  result.start = number[blocks.set_of[dfa.start]];
  return result;
}

}  // namespace llmc::hosted::grammar
