#include <optional>

#include "runtime/hosted/grammar/failure.h"
#include "runtime/hosted/grammar/json_text.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::grammar {
namespace {

constexpr std::uint32_t kMaxPatternRepeat = 10000;

const CodePointSet kDigits = {{'0', '9'}};
const CodePointSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// WhiteSpace and LineTerminator of ECMA 262.
const CodePointSet kSpace = {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                             {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodePointSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/// Parses a regular expression over the characters of a JSON string.
class PatternParser {
 public:
  explicit PatternParser(std::string_view pattern) : pattern_(pattern) {}

  Expr parse() {
    std::vector<Expr> choices;
    bool anchors = false;
    // Anchors are supported only at the two ends. Without an anchor, any text may precede or
    // follow.
    const bool starts = take('^');
    do {
      choices.push_back(parse_sequence(0));
      anchors = anchors || starts || ends_;
    } while (take('|'));
    if (at_ < pattern_.size()) throw unsupported(concat("'", pattern_[at_], "' here"));
    // In ^a|b$ each anchor belongs to only one of the alternatives.
    if (choices.size() > 1 && anchors)
      throw unsupported("an anchor next to '|': put the alternatives in a group, ^(a|b)$");
    const Expr anything = repeat(json_characters(complement({})), 0, kUnbounded);
    std::vector<Expr> parts = list_of(text("\""));
    if (!starts) parts.push_back(anything);
    parts.push_back(choice(std::move(choices)));
    if (!ends_) parts.push_back(anything);
    parts.push_back(text("\""));
    return sequence(std::move(parts));
  }

 private:
  Failure unsupported(const std::string& what) const {
    return grammar::unsupported(
        concat("pattern '", printable(pattern_, 80), "': not supported: ", what),
        "literals, classes, '.', \\d \\w \\s, groups, '|' and repetitions are");
  }
  char peek() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }
  bool more() const { return at_ < pattern_.size(); }
  bool take(char c) {
    if (!more() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }

  Expr parse_sequence(std::uint32_t depth) {
    std::vector<Expr> parts;
    while (more() && peek() != '|' && peek() != ')') {
      if (peek() == '$' && at_ + 1 == pattern_.size() && depth == 0) {
        ++at_;
        ends_ = true;
        break;
      }
      parts.push_back(parse_repeats(parse_item(depth)));
    }
    if (parts.empty()) return text("");
    return sequence(std::move(parts));
  }

  Expr parse_item(std::uint32_t depth) {
    const char c = peek();
    if (c == '(') return parse_group(depth);
    if (c == '[') return json_characters(parse_class());
    if (c == '.') {
      ++at_;
      return json_characters(complement(kLineEnds));
    }
    if (std::string_view("^$*+?{}])").find(c) != std::string_view::npos)
      throw unsupported(concat("'", c, "' at this place"));
    return json_characters(parse_atom(false));
  }

  Expr parse_group(std::uint32_t depth) {
    if (depth >= kMaxNesting) throw unsupported("so many groups in one another");
    ++at_;
    if (take('?') && !take(':')) throw unsupported("'(?' other than '(?:'");
    std::vector<Expr> choices;
    do {
      choices.push_back(parse_sequence(depth + 1));
    } while (take('|'));
    if (!take(')')) throw unsupported("a group without ')'");
    return choice(std::move(choices));
  }

  Expr parse_repeats(Expr item) {
    std::uint32_t min_count = 0, max_count = kUnbounded;
    if (take('+')) {
      min_count = 1;
    } else if (take('?')) {
      max_count = 1;
    } else if (take('{')) {
      min_count = parse_count();
      max_count = min_count;
      if (take(',')) {
        max_count = kUnbounded;
        if (peek() != '}') max_count = parse_count();
      }
      if (!take('}') || max_count < min_count) throw unsupported("a repetition like this");
    } else if (!take('*')) {
      return item;
    }
    take('?');  // a lazy repetition matches the same strings
    if (more() && std::string_view("*+?{").find(peek()) != std::string_view::npos)
      throw unsupported(concat("'", peek(), "' after a repetition"));
    return repeat(std::move(item), min_count, max_count);
  }
  std::uint32_t parse_count() {
    std::uint32_t value = 0;
    const std::size_t start = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (value > kMaxPatternRepeat)
        throw unsupported(concat("more than ", kMaxPatternRepeat, " times"));
    }
    if (at_ == start) throw unsupported("a repetition like this");
    return value;
  }

  /// Parses a character, or an escape, which may be a class.
  CodePointSet parse_atom(bool in_class) {
    if (!take('\\')) {
      const Utf8Char character = decode_utf8(pattern_.substr(at_));
      if (character.bytes == 0) throw unsupported("invalid UTF-8");
      at_ += character.bytes;
      return CodePointSet{{character.code_point, character.code_point}};
    }
    const auto one = [](char c) {
      const auto code = static_cast<std::uint32_t>(c);
      return CodePointSet{{code, code}};
    };
    const char c = peek();
    if (more()) ++at_;
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      default:
        break;
    }
    const bool symbol = std::string_view("^$\\.*+?()[]{}|/").find(c) != std::string_view::npos;
    if (c != '\0' && (symbol || (c == '-' && in_class))) return one(c);
    throw unsupported(concat("\\", printable(std::string_view(&c, c == '\0' ? 0 : 1))));
  }
  CodePointSet parse_hex(int count) {
    std::uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const int digit = hex_value(peek());
      if (digit < 0) throw unsupported("an escape with too few digits");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    if (value >= 0xD800 && value <= 0xDFFF) throw unsupported("halves of surrogate pairs");
    return CodePointSet{{value, value}};
  }

  CodePointSet parse_class() {
    ++at_;
    const bool negated = take('^');
    CodePointSet members;
    while (!take(']')) {
      if (!more()) throw unsupported("a class without ']'");
      const CodePointSet first = parse_atom(true);
      const bool single = first.size() == 1 && first[0].first == first[0].last;
      const bool range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!range) {
        members.insert(members.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      const CodePointSet last = parse_atom(true);
      if (!single || last.size() != 1 || last[0].first != last[0].last ||
          last[0].first < first[0].first)
        throw unsupported("a range like this");
      members.push_back({first[0].first, last[0].last});
    }
    members = normalized(std::move(members));
    if (negated) members = complement(members);
    if (members.empty()) throw unsupported("a class without any character");
    return members;
  }

  const std::string_view pattern_;
  std::size_t at_ = 0;
  bool ends_ = false;
};

}  // namespace

Expr json_pattern(std::string_view pattern) {
  return PatternParser(pattern).parse();
}

}  // namespace llmc::hosted::grammar
