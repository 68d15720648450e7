#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/hosted/tokenizer/character_set.h"
#include "runtime/hosted/tokenizer/problem.h"

/// Parses the regular expressions of tokenizer files, with the syntax and meaning of Oniguruma, the
/// engine that Hugging Face's tokenizers use.
namespace llmc::hosted {

enum class RegexKind : std::uint8_t {
  kEmpty,
  kSet,       // one character of `set`
  kSequence,  // all parts in sequence
  kChoice,    // the first of the parts after which the rest also matches
  kRepeat,    // parts[0], min_count to max_count times
  /// `parts[0]` matches after this position or, if `lookbehind` is set, before it; consumes
  /// nothing.
  kLook,
  kAnchor,
};

enum class Greed : std::uint8_t { kGreedy, kLazy, kPossessive };

enum class Anchor : std::uint8_t {
  kLineBegin,          // ^
  kLineEnd,            // $
  kTextBegin,          // \A
  kTextEnd,            // \z
  kTextOrLastLineEnd,  // \Z
  kWordBoundary,       // \b
  kNoWordBoundary,     // \B
};

inline constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;

struct RegexNode {
  RegexKind kind = RegexKind::kEmpty;
  std::uint32_t set = 0;  // index into Regex::sets
  std::uint32_t min_count = 0, max_count = 0;
  Greed greed = Greed::kGreedy;
  bool lookbehind = false, negated = false;  // kLook
  Anchor anchor = Anchor::kLineBegin;
  std::vector<RegexNode> parts;
};

struct Regex {
  RegexNode root;
  /// All different; the first one is the set of word characters of \b.
  std::vector<CharacterSet> sets;
};

/// Parses an expression. Returns what is wrong with it, or what cannot be matched exactly as
/// Oniguruma does.
Problem parse_regex(std::string_view expression, Regex& out);

/// Returns whether the node may match the empty string.
bool is_nullable(const RegexNode& node);

}  // namespace llmc::hosted
