#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/hosted/tokenizer/character_set.h"
#include "runtime/hosted/tokenizer/problem.h"

namespace llmc::hosted {

/// Reads the elements of a regular expression: characters, escapes, properties and bracketed
/// classes. Returns each as the set that it matches. After a problem, the rest of the expression is
/// empty.
class RegexReader {
 public:
  explicit RegexReader(std::string_view text) : rest_(text) {}

  const Problem& problem() const { return problem_; }
  void fail(const std::string& what);
  void refuse(const std::string& what);

  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  bool starts_with(std::string_view text) const { return rest_.starts_with(text); }
  /// Consumes `text` if it comes next. Returns whether it did.
  bool take(std::string_view text);
  /// Reads {n}, {n,}, {,m} or {n,m}. Returns false and consumes nothing for other text, which is
  /// literal.
  bool interval(std::uint32_t& min_count, std::uint32_t& max_count);

  bool ignores_case() const { return ignores_case_; }
  void set_ignores_case(bool ignores) { ignores_case_ = ignores; }

  /// Reads one literal, escape, property, '.' or class. `literal` becomes the code point of a
  /// literal, else 0.
  CharacterSet character(std::uint32_t& literal);

 private:
  /// Reads a literal character, or an escape that represents one.
  std::uint32_t code_point();
  std::uint32_t escaped_code_point();
  std::uint32_t hexadecimal(std::size_t digits);
  /// Reads \s, \d, \w, their complements, \p{...} or \P{...}. Returns false for other text.
  bool escaped_set(bool in_brackets, CharacterSet& out);
  CharacterSet property();
  /// Reads the rest of [...] after '['.
  CharacterSet bracketed(int depth);
  /// With ignores_case(), returns the set with all characters that differ from its members only in
  /// case; refuses sets for which this needs case mappings outside ASCII.
  CharacterSet folded(CharacterSet set);

  std::string_view rest_;
  Problem problem_;
  bool ignores_case_ = false;
};

}  // namespace llmc::hosted
