#include "runtime/hosted/grammar/rules.h"

#include <algorithm>

#include "runtime/hosted/grammar/components.h"
#include "runtime/hosted/grammar/failure.h"

namespace llmc::hosted::grammar {
namespace {

/// A use of a rule. `last`: whether it is at the end of the rule that uses it.
struct Use {
  std::uint32_t rule = 0;
  bool last = false;
};

void collect_uses(const Expr& expr, bool last, std::vector<Use>& uses) {
  if (expr.kind == ExprKind::kRule) uses.push_back({expr.rule, last});
  for (const Expr& part : expr.parts) {
    const bool part_is_last = expr.kind == ExprKind::kSequence ? &part == &expr.parts.back()
                              : expr.kind == ExprKind::kRepeat ? expr.max_count == 1
                                                               : true;
    collect_uses(part, last && part_is_last, uses);
  }
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
      return expr.min_count == 0 || part_is(expr.parts.front());
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
  std::vector<std::uint32_t> rules;  // used rules precede the rules that use them, except in cycles
  std::vector<bool> recursive;       // by rule: whether it is in a cycle
};

Order ordered_rules(const std::vector<std::vector<Use>>& uses) {
  std::vector<std::vector<std::uint32_t>> used(uses.size());
  Order result{{}, std::vector<bool>(uses.size())};
  for (std::uint32_t i = 0; i < uses.size(); ++i) {
    for (const Use& use : uses[i]) {
      used[i].push_back(use.rule);
      if (use.rule == i) result.recursive[i] = true;
    }
  }
  Components found = components(used);
  std::vector<std::uint32_t> members(found.count);
  for (const std::uint32_t component : found.of) ++members[component];
  for (std::uint32_t i = 0; i < uses.size(); ++i)
    if (members[found.of[i]] > 1) result.recursive[i] = true;
  result.rules = std::move(found.nodes);
  return result;
}

/// Returns, for each rule, the rule with which it is copied. If all uses of a rule are at the ends
/// of rules that are copied with the same rule, build_nfa() shares the copies, so that a copy of
/// that rule contains this one only once. Otherwise the result is the rule itself.
std::vector<std::uint32_t> enclosing_rules(const std::vector<std::vector<Use>>& uses,
                                           const Order& order, const std::vector<bool>& called) {
  constexpr std::uint32_t kUnknown = UINT32_MAX;
  std::vector<std::uint32_t> enclosing(uses.size(), kUnknown);
  for (std::size_t i = order.rules.size(); i-- > 0;) {  // rules that use others first
    const std::uint32_t rule = order.rules[i];
    if (called[rule] || enclosing[rule] == kUnknown) enclosing[rule] = rule;
    for (const Use& use : uses[rule]) {
      std::uint32_t& known = enclosing[use.rule];
      if (!use.last || (known != kUnknown && known != enclosing[rule])) {
        known = use.rule;
      } else {
        known = enclosing[rule];
      }
    }
  }
  return enclosing;
}

}  // namespace

RuleFacts analyze_rules(const Grammar& grammar, std::size_t max_nodes) {
  const std::size_t count = grammar.rules.size();
  std::vector<std::vector<Use>> uses(count);
  std::vector<std::uint32_t> users(count);
  for (std::size_t i = 0; i < count; ++i) {
    collect_uses(grammar.rules[i].body, true, uses[i]);
    for (const Use& use : uses[i]) ++users[use.rule];
  }
  const Order order = ordered_rules(uses);
  RuleFacts facts;
  facts.nullable = nullable_rules(grammar, order.rules);
  std::vector<bool> needed = order.recursive;
  needed[grammar.root] = true;
  const std::vector<std::uint32_t> enclosing = enclosing_rules(uses, order, needed);

  // Copies need no stack, and their masks are exact; calls need fewer states. Copy as many rules as
  // possible while the total stays small.
  constexpr std::uint64_t kEnough = 20'000;
  std::uint64_t total = 0;
  for (const std::uint64_t copied_size :
       {kTooLarge, std::uint64_t{4096}, std::uint64_t{512}, std::uint64_t{64}, std::uint64_t{8}}) {
    facts.called = needed;
    std::vector<std::uint64_t> sizes(count);  // 0 if the rule is copied with another one
    std::vector<std::uint64_t> parts(count);
    total = 0;
    for (const std::uint32_t i : order.rules) {
      const std::uint64_t own = nfa_size(grammar.rules[i].body, facts, sizes) + 2;
      if (enclosing[i] != i) {
        parts[enclosing[i]] = std::min(kTooLarge, parts[enclosing[i]] + own);
        continue;
      }
      sizes[i] = std::min(kTooLarge, own + parts[i]);
      if (users[i] > 1 && sizes[i] > copied_size) facts.called[i] = true;
      if (facts.called[i]) total = std::min(kTooLarge, total + sizes[i]);
    }
    if (total <= kEnough) return facts;
  }
  if (total <= max_nodes) return facts;
  throw unsupported(
      concat("the grammar is too large: its automata need more than ", max_nodes, " nodes"),
      "smaller counts in {m,n}, minLength, maxItems and the like help most");
}

}  // namespace llmc::hosted::grammar
