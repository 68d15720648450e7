#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

/// The syntax tree of a grammar over Unicode text: the result of parsing a GBNF file or a JSON
/// schema.
namespace llmc::hosted::grammar {

struct CodePointRange {
  std::uint32_t first = 0, last = 0;  // inclusive
};

/// Ranges in ascending order that do not touch each other, without surrogates, at most U+10FFFF.
using CodePointSet = std::vector<CodePointRange>;

inline constexpr std::uint32_t kMaxCodePoint = 0x10FFFF;
inline constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

/// Sorts the ranges, joins ranges that touch or overlap, and removes surrogates.
CodePointSet normalized(CodePointSet set);
/// Returns the characters that are not in `set`, which must be normalized.
CodePointSet complement(const CodePointSet& set);
CodePointSet intersection(const CodePointSet& a, const CodePointSet& b);

/// Returns the value of a hexadecimal digit, upper or lower case; -1 for other characters.
int hex_value(char c);

enum class ExprKind : std::uint8_t {
  kText,      // `text`, in UTF-8; may be empty
  kSet,       // one character of `set`
  kRule,      // a text that matches `rule`
  kSequence,  // all of `parts` in order
  kChoice,    // one of `parts`
  kRepeat,    // parts[0], `min_count` to `max_count` times
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
/// Returns a vector of the arguments, which it moves; an initializer list would copy them.
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
/// Returns an expression for `min_count` to `max_count` decimal digits.
inline Expr digits(std::uint32_t min_count, std::uint32_t max_count) {
  return repeat(set({{'0', '9'}}), min_count, max_count);
}

struct Rule {
  std::string name;
  Expr body;
};

struct Grammar {
  std::vector<Rule> rules;
  std::uint32_t root = 0;  // index into `rules`
};

/// Maximum nesting of groups and of schemas.
inline constexpr std::uint32_t kMaxNesting = 100;

}  // namespace llmc::hosted::grammar
