#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/hosted/tokenizer/character_set.h"
#include "runtime/hosted/tokenizer/problem.h"

namespace llmc::hosted {

/// Reads a regular expression: characters, escapes, properties and bracketed classes, each as the
/// set that it matches. After a problem the rest is empty.
class RegexReader {
 public:
  explicit RegexReader(std::string_view text) : rest_(text) {}

  const Problem& problem() const { return problem_; }
  void fail(const std::string& what);
  void refuse(const std::string& what);

  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  bool starts_with(std::string_view text) const { return rest_.starts_with(text); }
  /// Consumes exactly this text, if it is next.
  bool take(std::string_view text);
  /// Reads {n}, {n,}, {,m} or {n,m}; does not consume anything else, which is literal text.
  bool interval(std::uint32_t& min_count, std::uint32_t& max_count);

  bool ignores_case() const { return ignores_case_; }
  void set_ignores_case(bool ignores) { ignores_case_ = ignores; }

  /// Reads one literal, escape, property, '.' or class; `literal`: the code point of a literal,
  /// else 0.
  CharacterSet character(std::uint32_t& literal);

 private:
  /// Reads a literal character or an escape for one.
  std::uint32_t code_point();
  std::uint32_t escaped_code_point();
  std::uint32_t hexadecimal(std::size_t digits);
  /// Reads \s \d \w and their complements, or \p{...}; returns false for anything else.
  bool escaped_set(bool in_brackets, CharacterSet& out);
  CharacterSet property();
  /// Reads the content of [...] after '['.
  CharacterSet bracketed(int depth);
  /// Adds characters that differ only in case.
  CharacterSet folded(CharacterSet set);

  std::string_view rest_;
  Problem problem_;
  bool ignores_case_ = false;
};

}  // namespace llmc::hosted
