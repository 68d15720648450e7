#include "compiler/grammar/nfa.h"

#include <algorithm>
#include <map>

#include "compiler/grammar/utf8.h"

namespace llmc::grammar {
namespace {

std::uint64_t limited(std::uint64_t size) {
  return std::min(size, kTooLarge);
}

class Builder {
 public:
  Builder(const Grammar& grammar, const RuleFacts& facts) : grammar_(grammar), facts_(facts) {}

  Nfa build(std::uint32_t rule) {
    nfa_.start = node();
    nfa_.end = add(grammar_.rules[rule].body, nfa_.start);
    return std::move(nfa_);
  }

 private:
  std::uint32_t node() {
    nfa_.nodes.emplace_back();
    return static_cast<std::uint32_t>(nfa_.nodes.size() - 1);
  }
  void arc(std::uint32_t from, std::uint32_t low, std::uint32_t high, std::uint32_t to) {
    nfa_.nodes[from].arcs.push_back({low, high, to});
  }
  void jump(std::uint32_t from, std::uint32_t to) { nfa_.nodes[from].jumps.push_back(to); }

  /// What `expr` matches, from `from` on; returns where it ends.
  std::uint32_t add(const Expr& expr, std::uint32_t from) {
    switch (expr.kind) {
      case ExprKind::kText: {
        for (const char c : expr.text) {
          const std::uint32_t next = node();
          const auto byte = static_cast<std::uint8_t>(c);
          arc(from, byte, byte, next);
          from = next;
        }
        return from;
      }
      case ExprKind::kSet:
        return add_set(expr.set, from);
      case ExprKind::kRule:
        return add_rule(expr.rule, from);
      case ExprKind::kSequence:
        for (const Expr& part : expr.parts) from = add(part, from);
        return from;
      case ExprKind::kChoice: {
        const std::uint32_t end = node();
        for (const Expr& part : expr.parts) {
          // A node of its own: a part may lead back to where it begins.
          const std::uint32_t begin = node();
          jump(from, begin);
          jump(add(part, begin), end);
        }
        return end;
      }
      case ExprKind::kRepeat:
        return add_repeat(expr, from);
    }
    return from;
  }

  std::uint32_t add_set(const CodePointSet& set, std::uint32_t from) {
    const std::uint32_t end = node();
    // Sequences share what they end with: few nodes for large sets.
    std::map<std::vector<std::uint16_t>, std::uint32_t> tails;
    for (const Utf8Sequence& sequence : utf8_sequences(set)) {
      std::uint32_t next = end;
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
      arc(from, sequence.bytes[0].low, sequence.bytes[0].high, next);
    }
    return end;
  }

  std::uint32_t add_rule(std::uint32_t rule, std::uint32_t from) {
    if (!facts_.called[rule]) return add(grammar_.rules[rule].body, from);
    const std::uint32_t end = node();
    arc(from, Nfa::kCall + rule, Nfa::kCall + rule, end);
    // A called rule matches no empty text (Pushdown); where it may be empty it is stepped over.
    if (facts_.nullable[rule]) jump(from, end);
    return end;
  }

  std::uint32_t add_repeat(const Expr& expr, std::uint32_t from) {
    const Expr& part = expr.parts.front();
    for (std::uint32_t i = 0; i < expr.least; ++i) from = add(part, from);
    const std::uint32_t end = node();
    if (expr.most == kUnbounded) {
      const std::uint32_t loop = node();
      jump(from, loop);
      jump(add(part, loop), loop);
      jump(loop, end);
      return end;
    }
    for (std::uint32_t i = expr.least; i < expr.most; ++i) {
      jump(from, end);
      const std::uint32_t begin = node();
      jump(from, begin);
      from = add(part, begin);
    }
    jump(from, end);
    return end;
  }

  const Grammar& grammar_;
  const RuleFacts& facts_;
  Nfa nfa_;
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
      const std::uint64_t copies =
          std::max<std::uint64_t>(1, expr.most == kUnbounded ? expr.least + 1ull : expr.most);
      return one > kTooLarge / copies ? kTooLarge : limited(one * copies + 2);
    }
  }
  return size;
}

Nfa build_nfa(const Grammar& grammar, const RuleFacts& facts, std::uint32_t rule) {
  return Builder(grammar, facts).build(rule);
}

}  // namespace llmc::grammar
