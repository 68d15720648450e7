#include "compiler/grammar/rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc::grammar {
namespace {

void collect_references(const Expr& expr, std::vector<std::uint32_t>& rules) {
  if (expr.kind == ExprKind::kRule) rules.push_back(expr.rule);
  for (const Expr& part : expr.parts) collect_references(part, rules);
}

bool is_nullable(const Expr& expr, const std::vector<bool>& nullable) {
  const auto part_is = [&](const Expr& part) { return is_nullable(part, nullable); };
  switch (expr.kind) {
    case ExprKind::kText:
      return expr.text.empty();
    case ExprKind::kSet:
      return false;
    case ExprKind::kRule:
      return nullable[expr.rule];
    case ExprKind::kSequence:
      return std::ranges::all_of(expr.parts, part_is);
    case ExprKind::kChoice:
      return std::ranges::any_of(expr.parts, part_is);
    case ExprKind::kRepeat:
      return expr.least == 0 || part_is(expr.parts.front());
  }
  return false;
}

std::vector<bool> nullable_rules(const Grammar& grammar, const std::vector<std::uint32_t>& order) {
  std::vector<bool> nullable(grammar.rules.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::uint32_t i : order) {
      if (nullable[i] || !is_nullable(grammar.rules[i].body, nullable)) continue;
      nullable[i] = changed = true;
    }
  }
  return nullable;
}

struct Order {
  std::vector<std::uint32_t> rules;  // what a rule uses before it, cycles aside
  std::vector<bool> recursive;       // on a cycle
};

/// Tarjan's strongly connected components, without recursion.
Order ordered_rules(const std::vector<std::vector<std::uint32_t>>& uses) {
  const std::size_t count = uses.size();
  std::vector<std::uint32_t> order(count), low(count), stack;
  std::vector<bool> on_stack(count);
  Order result{{}, std::vector<bool>(count)};
  struct Visit {
    std::uint32_t rule;
    std::size_t next;
  };
  std::uint32_t clock = 0;
  for (std::uint32_t root = 0; root < count; ++root) {
    if (order[root] != 0) continue;
    std::vector<Visit> visits{{root, 0}};
    while (!visits.empty()) {
      auto& [rule, next] = visits.back();
      if (next == 0) {
        order[rule] = low[rule] = ++clock;
        stack.push_back(rule);
        on_stack[rule] = true;
      }
      if (next < uses[rule].size()) {
        const std::uint32_t used = uses[rule][next++];
        if (used == rule) result.recursive[rule] = true;
        if (order[used] == 0) {
          visits.push_back({used, 0});
        } else if (on_stack[used]) {
          low[rule] = std::min(low[rule], order[used]);
        }
        continue;
      }
      const std::uint32_t done = rule;
      visits.pop_back();
      if (!visits.empty()) low[visits.back().rule] = std::min(low[visits.back().rule], low[done]);
      if (low[done] != order[done]) continue;
      const bool alone = stack.back() == done;
      for (std::uint32_t member = UINT32_MAX; member != done;) {
        member = stack.back();
        stack.pop_back();
        on_stack[member] = false;
        result.rules.push_back(member);
        if (!alone) result.recursive[member] = true;
      }
    }
  }
  return result;
}

}  // namespace

Result<RuleFacts> examine_rules(const Grammar& grammar, std::size_t most_nodes) {
  const std::size_t count = grammar.rules.size();
  std::vector<std::vector<std::uint32_t>> uses(count);
  std::vector<std::uint32_t> users(count);
  for (std::size_t i = 0; i < count; ++i) {
    collect_references(grammar.rules[i].body, uses[i]);
    for (const std::uint32_t used : uses[i]) ++users[used];
  }
  const Order order = ordered_rules(uses);
  RuleFacts facts;
  facts.nullable = nullable_rules(grammar, order.rules);

  // Copies need no stack, and the tokens they allow are known ahead; calls save states. As much is
  // copied as keeps the whole small.
  constexpr std::uint64_t kEnough = 20'000;
  constexpr std::uint32_t kMaxHeight = 64;  // they are read by recursion
  std::uint64_t total = 0;
  for (const std::uint64_t copied_size :
       {kTooLarge, std::uint64_t{4096}, std::uint64_t{512}, std::uint64_t{64}, std::uint64_t{8}}) {
    facts.called = order.recursive;
    facts.called[grammar.root] = true;
    std::vector<std::uint64_t> sizes(count);
    std::vector<std::uint32_t> heights(count);  // rules copied into one another
    total = 0;
    for (const std::uint32_t i : order.rules) {
      sizes[i] = nfa_size(grammar.rules[i].body, facts, sizes) + 2;
      for (const std::uint32_t used : uses[i])
        if (!facts.called[used]) heights[i] = std::max(heights[i], heights[used] + 1);
      const bool large = users[i] > 1 && sizes[i] > copied_size;
      if (large || heights[i] >= kMaxHeight) facts.called[i] = true;
      if (facts.called[i]) total = std::min(kTooLarge, total + sizes[i]);
    }
    if (total <= kEnough) return facts;
  }
  if (total <= most_nodes) return facts;
  return Diagnostic{.kind = ErrorKind::kUnsupported,
                    .message = fmt::format("the grammar is too large: its automata need more than "
                                           "{} nodes",
                                           most_nodes),
                    .hint = "smaller counts in {m,n}, minLength, maxItems and the like help most"};
}

}  // namespace llmc::grammar
