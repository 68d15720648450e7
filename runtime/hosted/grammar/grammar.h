#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

/// A grammar over Unicode text as its sources describe it: GBNF files and JSON schemas.
namespace llmc::hosted::grammar {

struct CodePointRange {
  std::uint32_t first = 0, last = 0;  // both included
};

/// Characters, sorted and without overlaps; no surrogates, nothing above U+10FFFF.
using CodePointSet = std::vector<CodePointRange>;

inline constexpr std::uint32_t kMaxCodePoint = 0x10FFFF;
inline constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

/// Sorts, joins what touches, takes surrogates out.
CodePointSet normalized(CodePointSet set);
/// Every character that is not in `set`, which is normalized.
CodePointSet complement(const CodePointSet& set);
CodePointSet intersection(const CodePointSet& a, const CodePointSet& b);

/// The value of a hexadecimal digit of either case; -1 for other characters.
int hex_value(char c);

enum class ExprKind : std::uint8_t {
  kText,      // these bytes of UTF-8; empty: the empty text
  kSet,       // one character of a set
  kRule,      // what a rule matches
  kSequence,  // all parts, one after the other
  kChoice,    // any of the parts
  kRepeat,    // the one part, `least` to `most` times
};

struct Expr {
  ExprKind kind = ExprKind::kText;
  std::string text;
  CodePointSet set;
  std::uint32_t rule = 0;
  std::vector<Expr> parts;
  std::uint32_t min_count = 0, max_count = 0;
};

Expr text(std::string utf8);
Expr set(CodePointSet set);
Expr reference(std::uint32_t rule);
Expr sequence(std::vector<Expr> parts);
Expr choice(std::vector<Expr> parts);
/// Moves its arguments into a list; an initializer list would copy them.
template <class... Parts>
std::vector<Expr> list_of(Parts... parts) {
  std::vector<Expr> list;
  list.reserve(sizeof...(parts));
  (list.push_back(std::move(parts)), ...);
  return list;
}
template <class... Parts>
Expr sequence(Expr first, Expr second, Parts... rest) {
  return sequence(list_of(std::move(first), std::move(second), std::move(rest)...));
}
template <class... Parts>
Expr choice(Expr first, Expr second, Parts... rest) {
  return choice(list_of(std::move(first), std::move(second), std::move(rest)...));
}
Expr repeat(Expr part, std::uint32_t min_count, std::uint32_t max_count);
inline Expr optional(Expr part) {
  return repeat(std::move(part), 0, 1);
}
/// `least` to `most` decimal digits.
inline Expr digits(std::uint32_t min_count, std::uint32_t max_count) {
  return repeat(set({{'0', '9'}}), min_count, max_count);
}

struct Rule {
  std::string name;
  Expr body;
};

struct Grammar {
  std::vector<Rule> rules;
  std::uint32_t root = 0;  // index into rules
};

/// Most nested groups of a grammar, and most nested schemas.
inline constexpr std::uint32_t kMaxNesting = 100;

}  // namespace llmc::hosted::grammar
