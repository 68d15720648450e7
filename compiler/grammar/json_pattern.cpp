#include <fmt/format.h>

#include <optional>

#include "compiler/grammar/json_text.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::grammar {
namespace {

constexpr std::uint32_t kMaxPatternRepeat = 10000;

const CodePointSet kDigits = {{'0', '9'}};
const CodePointSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// ECMA 262: WhiteSpace and LineTerminator.
const CodePointSet kSpace = {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                             {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodePointSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/// A regular expression whose characters are those of a JSON string, escaped as there.
class PatternParser {
 public:
  explicit PatternParser(std::string_view pattern) : pattern_(pattern) {}

  Result<Expr> parse() {
    std::vector<Expr> choices;
    bool anchors = false;
    // Anchors stand at the very ends only; what is between is searched for otherwise.
    const bool starts = take('^');
    do {
      LLMC_TRY(Expr part, parse_sequence(0));
      choices.push_back(std::move(part));
      anchors = anchors || starts || ends_;
    } while (take('|'));
    if (at_ < pattern_.size()) return unsupported(fmt::format("'{}' here", pattern_[at_]));
    // ^a|b$ anchors one side of each alternative.
    if (choices.size() > 1 && anchors)
      return unsupported("an anchor beside '|': put the alternatives in a group, ^(a|b)$");
    std::vector<Expr> parts;
    parts.push_back(text("\""));
    if (!starts) parts.push_back(repeat(json_characters(complement({})), 0, kUnbounded));
    parts.push_back(choice(std::move(choices)));
    if (!ends_) parts.push_back(repeat(json_characters(complement({})), 0, kUnbounded));
    parts.push_back(text("\""));
    return sequence(std::move(parts));
  }

 private:
  Diagnostic unsupported(const std::string& what) const {
    return failure(ErrorKind::kUnsupported,
                   fmt::format("pattern '{}': not supported: {}", printable(pattern_, 80), what),
                   "literals, classes, '.', \\d \\w \\s, groups, '|' and repetitions are");
  }
  char peek() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }
  bool more() const { return at_ < pattern_.size(); }
  bool take(char c) {
    if (!more() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Expr> parse_sequence(std::uint32_t depth) {
    std::vector<Expr> parts;
    while (more() && peek() != '|' && peek() != ')') {
      if (peek() == '$' && at_ + 1 == pattern_.size() && depth == 0) {
        ++at_;
        ends_ = true;
        break;
      }
      LLMC_TRY(Expr item, parse_item(depth));
      LLMC_TRY(item, parse_repeats(std::move(item)));
      parts.push_back(std::move(item));
    }
    if (parts.empty()) return text("");
    return sequence(std::move(parts));
  }

  Result<Expr> parse_item(std::uint32_t depth) {
    const char c = peek();
    if (c == '(') return parse_group(depth);
    if (c == '[') {
      LLMC_TRY(const CodePointSet members, parse_class());
      return json_characters(members);
    }
    if (c == '.') {
      ++at_;
      return json_characters(complement(kLineEnds));
    }
    if (std::string_view("^$*+?{}])").find(c) != std::string_view::npos)
      return unsupported(fmt::format("'{}' at this place", c));
    LLMC_TRY(const CodePointSet members, parse_atom(false));
    return json_characters(members);
  }

  Result<Expr> parse_group(std::uint32_t depth) {
    if (depth >= kMaxNesting) return unsupported("so many groups in one another");
    ++at_;
    if (take('?') && !take(':')) return unsupported("'(?' with anything but ':'");
    std::vector<Expr> choices;
    do {
      LLMC_TRY(Expr part, parse_sequence(depth + 1));
      choices.push_back(std::move(part));
    } while (take('|'));
    if (!take(')')) return unsupported("a group without ')'");
    return choice(std::move(choices));
  }

  Result<Expr> parse_repeats(Expr item) {
    std::uint32_t least = 0, most = kUnbounded;
    if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      LLMC_TRY(least, parse_count());
      most = least;
      if (take(',')) {
        most = kUnbounded;
        if (peek() != '}') {
          LLMC_TRY(most, parse_count());
        }
      }
      if (!take('}') || most < least) return unsupported("a repetition like this");
    } else if (!take('*')) {
      return item;
    }
    take('?');  // a lazy repetition matches the same strings
    if (more() && std::string_view("*+?{").find(peek()) != std::string_view::npos)
      return unsupported(fmt::format("'{}' behind a repetition", peek()));
    return repeat(std::move(item), least, most);
  }
  Result<std::uint32_t> parse_count() {
    std::uint32_t value = 0;
    const std::size_t start = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (value > kMaxPatternRepeat)
        return unsupported(fmt::format("more than {} times", kMaxPatternRepeat));
    }
    if (at_ == start) return unsupported("a repetition like this");
    return value;
  }

  /// One character, or the class an escape stands for.
  Result<CodePointSet> parse_atom(bool in_class) {
    if (!take('\\')) {
      const hosted::Utf8Char character = hosted::decode_utf8(pattern_.substr(at_));
      if (character.bytes == 0) return unsupported("bytes that are no UTF-8");
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
    return unsupported(fmt::format("\\{}", printable(std::string_view(&c, c == '\0' ? 0 : 1))));
  }
  Result<CodePointSet> parse_hex(int count) {
    std::uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return unsupported("an escape with too few digits");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    if (value >= 0xD800 && value <= 0xDFFF) return unsupported("halves of surrogate pairs");
    return CodePointSet{{value, value}};
  }

  Result<CodePointSet> parse_class() {
    ++at_;
    const bool negated = take('^');
    CodePointSet members;
    while (!take(']')) {
      if (!more()) return unsupported("a class without ']'");
      LLMC_TRY(const CodePointSet first, parse_atom(true));
      const bool single = first.size() == 1 && first[0].first == first[0].last;
      const bool range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!range) {
        members.insert(members.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      LLMC_TRY(const CodePointSet last, parse_atom(true));
      if (!single || last.size() != 1 || last[0].first != last[0].last ||
          last[0].first < first[0].first)
        return unsupported("a range like this");
      members.push_back({first[0].first, last[0].last});
    }
    members = normalized(std::move(members));
    if (negated) members = complement(members);
    if (members.empty()) return unsupported("a class without any character");
    return members;
  }

  const std::string_view pattern_;
  std::size_t at_ = 0;
  bool ends_ = false;
};

}  // namespace

Result<Expr> json_pattern(std::string_view pattern) {
  return PatternParser(pattern).parse();
}

}  // namespace llmc::grammar
