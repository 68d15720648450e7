#include "runtime/hosted/grammar/nfa.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/hosted/grammar/utf8_ranges.h"

namespace llmc::hosted::grammar {
namespace {

std::uint64_t limited(std::uint64_t size) {
  return std::min(size, kTooLarge);
}

/// Builds the automaton from its end to its start: add() gets the node after an expression and
/// returns the expression's start node. Copies of a rule with the same node after them are shared.
/// A list of optional parts, each of which may be followed by any later part, therefore needs only
/// as many nodes as it has parts.
class NfaBuilder {
 public:
  NfaBuilder(const Grammar& grammar, const RuleFacts& facts) : grammar_(grammar), facts_(facts) {}

  Nfa build(std::uint32_t rule) {
    nfa_.end = node();
    nfa_.start = add(grammar_.rules[rule].body, nfa_.end);
    // A loop, not a recursion, because chains of rules may be long.
    while (!pending_.empty()) {
      const Copy copy = pending_.back();
      pending_.pop_back();
      jump(copy.begin, add(grammar_.rules[copy.rule].body, copy.to));
    }
    return std::move(nfa_);
  }

 private:
  struct Copy {
    std::uint32_t rule, begin, to;
  };

  std::uint32_t node() {
    nfa_.nodes.emplace_back();
    return static_cast<std::uint32_t>(nfa_.nodes.size() - 1);
  }
  void arc(std::uint32_t from, std::uint32_t low, std::uint32_t high, std::uint32_t to) {
    nfa_.nodes[from].arcs.push_back({low, high, to});
  }
  void jump(std::uint32_t from, std::uint32_t to) { nfa_.nodes[from].jumps.push_back(to); }

  /// Returns the start node of `expr` followed by `to`. Does not add arcs or jumps to existing
  /// nodes, because other nodes may lead to them.
  std::uint32_t add(const Expr& expr, std::uint32_t to) {
    switch (expr.kind) {
      case ExprKind::kText: {
        for (std::size_t i = expr.text.size(); i-- > 0;) {
          const std::uint32_t before = node();
          const auto byte = static_cast<std::uint8_t>(expr.text[i]);
          arc(before, byte, byte, to);
          to = before;
        }
        return to;
      }
      case ExprKind::kSet:
        return add_set(expr.set, to);
      case ExprKind::kRule:
        return add_rule(expr.rule, to);
      case ExprKind::kSequence:
        for (std::size_t i = expr.parts.size(); i-- > 0;) to = add(expr.parts[i], to);
        return to;
      case ExprKind::kChoice: {
        const std::uint32_t begin = node();
        for (const Expr& part : expr.parts) jump(begin, add(part, to));
        return begin;
      }
      case ExprKind::kRepeat:
        return add_repeat(expr, to);
    }
    return to;
  }

  std::uint32_t add_set(const CodePointSet& set, std::uint32_t to) {
    const std::uint32_t begin = node();
    // Sequences that end with the same bytes share nodes.
    std::map<std::vector<std::uint16_t>, std::uint32_t> tails;
    for (const Utf8Sequence& sequence : utf8_sequences(set)) {
      std::uint32_t next = to;
      std::vector<std::uint16_t> tail;
      for (std::size_t i = sequence.length; i-- > 1;) {
        const ByteRange range = sequence.bytes[i];
        tail.push_back(static_cast<std::uint16_t>(range.low << 8 | range.high));
        const auto [it, added] = tails.try_emplace(tail, 0);
        if (added) {
          it->second = node();
          arc(it->second, range.low, range.high, next);
        }
        next = it->second;
      }
      arc(begin, sequence.bytes[0].low, sequence.bytes[0].high, next);
    }
    return begin;
  }

  std::uint32_t add_rule(std::uint32_t rule, std::uint32_t to) {
    const auto [it, added] = begins_.try_emplace({rule, to}, 0);
    if (!added) return it->second;
    const std::uint32_t begin = it->second = node();
    if (!facts_.called[rule]) {
      pending_.push_back({rule, begin, to});
      return begin;
    }
    arc(begin, Nfa::kCall + rule, Nfa::kCall + rule, to);
    // A call never matches the empty text (PushdownBuilder::number_states); this jump does.
    if (facts_.nullable[rule]) jump(begin, to);
    return begin;
  }

  std::uint32_t add_repeat(const Expr& expr, std::uint32_t to) {
    const Expr& part = expr.parts.front();
    if (expr.max_count == kUnbounded) {
      const std::uint32_t loop = node();
      jump(loop, to);
      jump(loop, add(part, loop));
      to = loop;
    } else {
      const std::uint32_t end = to;
      for (std::uint32_t i = expr.min_count; i < expr.max_count; ++i) {
        const std::uint32_t begin = node();
        jump(begin, end);
        jump(begin, add(part, to));
        to = begin;
      }
    }
    for (std::uint32_t i = 0; i < expr.min_count; ++i) to = add(part, to);
    return to;
  }

  const Grammar& grammar_;
  const RuleFacts& facts_;
  Nfa nfa_;
  // Start nodes by rule and the node after the rule.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> begins_;
  std::vector<Copy> pending_;
};

}  // namespace

std::uint64_t nfa_size(const Expr& expr, const RuleFacts& facts,
                       const std::vector<std::uint64_t>& sizes) {
  std::uint64_t size = 0;
  switch (expr.kind) {
    case ExprKind::kText:
      return expr.text.size();
    case ExprKind::kSet:
      for (const Utf8Sequence& sequence : utf8_sequences(expr.set)) size += sequence.length;
      return size + 1;
    case ExprKind::kRule:
      return facts.called[expr.rule] ? 1 : sizes[expr.rule];
    case ExprKind::kSequence:
    case ExprKind::kChoice:
      for (const Expr& part : expr.parts) size = limited(size + nfa_size(part, facts, sizes) + 1);
      return size + 1;
    case ExprKind::kRepeat: {
      const std::uint64_t one = nfa_size(expr.parts.front(), facts, sizes) + 1;
      const std::uint64_t copies = std::max<std::uint64_t>(
          1, expr.max_count == kUnbounded ? expr.min_count + 1ull : expr.max_count);
      return one > kTooLarge / copies ? kTooLarge : limited(one * copies + 2);
    }
  }
  return size;
}

Nfa build_nfa(const Grammar& grammar, const RuleFacts& facts, std::uint32_t rule) {
  return NfaBuilder(grammar, facts).build(rule);
}

}  // namespace llmc::hosted::grammar
