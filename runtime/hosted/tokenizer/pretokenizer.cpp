#include "runtime/hosted/tokenizer/pretokenizer.h"

#include <algorithm>
#include <iterator>

#include "runtime/hosted/tokenizer/unicode_ranges.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

template <std::size_t N>
bool in_ranges(const CodePointRange (&ranges)[N], std::uint32_t code_point) {
  const auto* after = std::upper_bound(
      std::begin(ranges), std::end(ranges), code_point,
      [](std::uint32_t c, const CodePointRange& range) { return c < range.first; });
  return after != std::begin(ranges) && code_point <= std::prev(after)->last;
}

enum class Class { kEnd, kLetter, kNumber, kNewline, kSpace, kOther };

struct Character {
  Class kind;
  std::size_t bytes;
};

Character character_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {Class::kEnd, 0};
  const Utf8Char c = decode_utf8(text.substr(at));
  if (c.bytes == 0) return {Class::kOther, 1};
  if (c.code_point == '\r' || c.code_point == '\n') return {Class::kNewline, 1};
  if (is_space(c.code_point)) return {Class::kSpace, c.bytes};
  if (is_letter(c.code_point)) return {Class::kLetter, c.bytes};
  if (is_number(c.code_point)) return {Class::kNumber, c.bytes};
  return {Class::kOther, c.bytes};
}

/// End of the run of characters of `kind` that starts at `at`.
std::size_t run_end(std::string_view text, std::size_t at, Class kind) {
  for (Character c = character_at(text, at); c.kind == kind; c = character_at(text, at))
    at += c.bytes;
  return at;
}

/// Bytes of 's, 't, 're, … at the start of `text`; 0: none.
std::size_t contraction(std::string_view text, bool either_case) {
  if (text[0] != '\'') return 0;
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    const std::string_view there = text.substr(1, ending.size());
    const bool same = std::equal(there.begin(), there.end(), ending.begin(), ending.end(),
                                 [&](char a, char b) { return (either_case ? a | 0x20 : a) == b; });
    if (same) return 1 + ending.size();
  }
  return 0;
}

/// The last three alternatives: `text` starts with white space.
std::size_t white_space(std::string_view text) {
  std::size_t end = 0, last = 0, after_newline = 0;
  for (Character c = character_at(text, 0); c.kind == Class::kSpace || c.kind == Class::kNewline;
       c = character_at(text, end)) {
    last = end;
    end += c.bytes;
    if (c.kind == Class::kNewline) after_newline = end;
  }
  if (after_newline > 0) return after_newline;
  if (end == text.size() || last == 0) return end;
  return last;  // the last space belongs to the word that follows
}

/// \s+(?!\S) | \s+, where `text` starts with white space: the last character before a word is left
/// to stand alone.
std::size_t plain_white_space(std::string_view text) {
  std::size_t end = 0, last = 0;
  for (Character c = character_at(text, 0); c.kind == Class::kSpace || c.kind == Class::kNewline;
       c = character_at(text, end)) {
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == 0 ? end : last;
}

std::size_t first_gpt2_word(std::string_view text) {
  if (const std::size_t bytes = contraction(text, false)) return bytes;
  const std::size_t begin = text[0] == ' ' ? 1 : 0;
  const Class kind = character_at(text, begin).kind;
  if (kind == Class::kLetter || kind == Class::kNumber || kind == Class::kOther)
    return run_end(text, begin, kind);
  return plain_white_space(text);
}

/// Up to `most` numbers at the start of `text`.
std::size_t number_run(std::string_view text, int most) {
  std::size_t end = 0;
  for (int i = 0; i < most; ++i) {
    const Character c = character_at(text, end);
    if (c.kind != Class::kNumber) break;
    end += c.bytes;
  }
  return end;
}

}  // namespace

bool is_letter(std::uint32_t code_point) {
  return in_ranges(kLetterRanges, code_point);
}
bool is_number(std::uint32_t code_point) {
  return in_ranges(kNumberRanges, code_point);
}
bool is_space(std::uint32_t code_point) {
  return in_ranges(kSpaceRanges, code_point);
}

std::size_t first_word(std::string_view text, SplitPattern pattern) {
  if (pattern == SplitPattern::kGpt2) return first_gpt2_word(text);
  if (const std::size_t bytes = contraction(text, true)) return bytes;
  const Character first = character_at(text, 0);
  if (first.kind == Class::kLetter) return run_end(text, 0, Class::kLetter);
  if (first.kind == Class::kNumber)
    return number_run(text, pattern == SplitPattern::kLlama3 ? 3 : 1);
  const Character second = character_at(text, first.bytes);
  if (first.kind != Class::kNewline && second.kind == Class::kLetter)
    return run_end(text, first.bytes, Class::kLetter);
  const bool space_before_other = text[0] == ' ' && second.kind == Class::kOther;
  if (first.kind == Class::kOther || space_before_other) {
    const std::size_t end = run_end(text, space_before_other ? 1 : 0, Class::kOther);
    return run_end(text, end, Class::kNewline);
  }
  return white_space(text);
}

}  // namespace llmc::hosted
