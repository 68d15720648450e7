#include "runtime/hosted/grammar/grammar.h"

#include <algorithm>

namespace llmc::hosted::grammar {
namespace {

constexpr std::uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

}  // namespace

CodePointSet normalized(CodePointSet set) {
  CodePointSet parts;
  for (const CodePointRange& range : set) {
    const std::uint32_t last = std::min(range.last, kMaxCodePoint);
    if (range.first < kFirstSurrogate && range.first <= last)
      parts.push_back({range.first, std::min(last, kFirstSurrogate - 1)});
    if (last > kLastSurrogate && range.first <= last)
      parts.push_back({std::max(range.first, kLastSurrogate + 1), last});
  }
  std::ranges::sort(parts, {}, &CodePointRange::first);
  CodePointSet result;
  for (const CodePointRange& range : parts) {
    if (!result.empty() && range.first <= result.back().last + 1) {
      result.back().last = std::max(result.back().last, range.last);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

CodePointSet complement(const CodePointSet& set) {
  CodePointSet result;
  std::uint32_t next = 0;
  for (const CodePointRange& range : set) {
    if (range.first > next) result.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) result.push_back({next, kMaxCodePoint});
  return normalized(std::move(result));
}

CodePointSet intersection(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet result;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const std::uint32_t first = std::max(a[i].first, b[k].first);
    const std::uint32_t last = std::min(a[i].last, b[k].last);
    if (first <= last) result.push_back({first, last});
    a[i].last < b[k].last ? ++i : ++k;
  }
  return result;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Expr text(std::string utf8) {
  Expr expr;
  expr.text = std::move(utf8);
  return expr;
}

Expr set(CodePointSet set) {
  Expr expr;
  expr.kind = ExprKind::kSet;
  expr.set = normalized(std::move(set));
  return expr;
}

Expr reference(std::uint32_t rule) {
  Expr expr;
  expr.kind = ExprKind::kRule;
  expr.rule = rule;
  return expr;
}

Expr sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Expr expr;
  expr.kind = ExprKind::kSequence;
  expr.parts = std::move(parts);
  return expr;
}

Expr choice(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Expr expr;
  expr.kind = ExprKind::kChoice;
  expr.parts = std::move(parts);
  return expr;
}

Expr repeat(Expr part, std::uint32_t min_count, std::uint32_t max_count) {
  Expr expr;
  expr.kind = ExprKind::kRepeat;
  expr.parts.push_back(std::move(part));
  expr.min_count = min_count;
  expr.max_count = max_count;
  return expr;
}

}  // namespace llmc::hosted::grammar
