#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/hosted/tokenizer/character_classes.h"
#include "runtime/hosted/tokenizer/regex_syntax.h"

namespace llmc::hosted {

/// A compiled regular expression. It matches like Oniguruma, which tries alternatives in order, but
/// always in time linear in the text.
class SplitRegex {
 public:
  /// Compiles an expression. Returns what is wrong with it or not supported; empty on success.
  Problem compile(std::string_view expression);

 private:
  friend class RegexCompiler;
  friend class RegexMatcher;

  enum class Op : std::uint8_t {
    kAccept,
    kSet,     // one character of `set`
    kRun,     // `min_count` to `max_count` characters of `set`, as many as possible
    kChoice,  // `count` branches, beginning with branch `first`
    kLook,    // the program at `body`
    kAnchor,
  };
  struct Instruction {
    Op op = Op::kAccept;
    bool negated = false, lookbehind = false;
    Anchor anchor = Anchor::kLineBegin;
    std::uint32_t next = 0;
    std::uint32_t set = 0, body = 0;
    std::uint32_t min_count = 0, max_count = 0;
    std::uint32_t first = 0, count = 0;
    /// Choices, looks and runs: index among the instructions of the same kind.
    std::uint32_t memo = 0;
  };
  struct Branch {
    std::uint32_t entry = 0;
    /// Classes of the characters with which its match can begin.
    std::bitset<CharacterClasses::kMaxClasses> first;
  };

  CharacterClasses classes_;
  std::vector<Instruction> code_;
  std::vector<Branch> branches_;
  std::uint32_t entry_ = 0;
  std::uint32_t choices_ = 0, looks_ = 0, runs_ = 0;
};

/// Finds matches in a text. Results are memoized until the text changes.
class RegexMatcher {
 public:
  RegexMatcher(const SplitRegex& regex, bool byte_level) : regex_(regex), byte_level_(byte_level) {}

  void set_text(std::string_view text);
  /// Returns the size in bytes of the match that begins at `place`; 0: none.
  std::size_t match(std::size_t place);
  /// Returns the size in bytes of the character at `place`.
  std::size_t character(std::size_t place) const { return at(place).bytes; }

 private:
  static constexpr std::size_t kNoMatch = static_cast<std::size_t>(-1);
  struct Frame {
    std::uint32_t instruction = 0, branch = 0;  // `branch`: the next branch to try
    std::size_t place = 0;
  };
  struct KnownRun {
    std::size_t begin = 0, end = 0;
  };

  CharacterClasses::At at(std::size_t place) const {
    return regex_.classes_.at(text_, place, byte_level_);
  }
  CharacterClasses::Class before(std::size_t place) const;
  std::size_t run(std::uint32_t entry, std::size_t place, bool looking);
  bool holds(Anchor anchor, std::size_t place) const;
  bool looks(const SplitRegex::Instruction& look, std::size_t place);
  std::size_t end_of_run(const SplitRegex::Instruction& run, std::size_t place);

  static bool is_marked(const std::vector<bool>& marks, std::uint32_t count, std::uint32_t memo,
                        std::size_t place) {
    return !marks.empty() && marks[place * count + memo];
  }
  void mark(std::vector<bool>& marks, std::uint32_t count, std::uint32_t memo, std::size_t place) {
    if (marks.empty()) marks.resize(count * (text_.size() + 1));
    marks[place * count + memo] = true;
  }

  const SplitRegex& regex_;
  const bool byte_level_;
  std::string_view text_;
  std::vector<Frame> stack_;
  // By choice and position. failed_: no branch matches. succeeded_: inside a look, a branch
  // matches.
  std::vector<bool> failed_, succeeded_;
  // By look and position: whether the look is known not to match, or known to match.
  std::vector<bool> look_failed_, look_succeeded_;
  std::vector<KnownRun> known_runs_;
};

}  // namespace llmc::hosted
