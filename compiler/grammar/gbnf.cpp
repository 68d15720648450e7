#include "compiler/grammar/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::grammar {
namespace {

/// Counts in {m,n} beyond it are a mistake or an attack.
constexpr std::uint32_t kMaxRepeat = 100000;
constexpr std::size_t kMaxRules = 20000;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Result<Grammar> parse() {
    skip_blank(true);
    while (at_ < text_.size()) {
      LLMC_RETURN_IF_ERROR(parse_rule());
      if (grammar_.rules.size() > kMaxRules)
        return unsupported(fmt::format("more than {} rules", kMaxRules));
      skip_blank(true);
    }
    for (std::uint32_t i = 0; i < grammar_.rules.size(); ++i) {
      if (defined_[i]) continue;
      at_ = first_use_[i];
      const std::string& name = grammar_.rules[i].name;
      return wrong(fmt::format("rule '{}' is used and nowhere defined", name),
                   fmt::format("define it: {} ::= …; text stands in quotes", name));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) {
      at_ = text_.size();
      return wrong("there is no rule 'root', which the text starts with",
                   "name the rule of the whole text: root ::= …");
    }
    grammar_.root = root->second;
    return std::move(grammar_);
  }

 private:
  /// An error at at_. Columns count characters, from 1.
  Diagnostic wrong(const std::string& message, std::string hint = {},
                   ErrorKind kind = ErrorKind::kBadInput) const {
    const std::string_view before = text_.substr(0, at_);
    const std::string_view line = before.substr(before.rfind('\n') + 1);
    const auto column = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }) + 1;
    return failure(
        kind,
        fmt::format("line {}, column {}: {}", std::ranges::count(before, '\n') + 1, column,
                    message),
        hint.empty() ? "docs/grammar.md says what a grammar is made of" : std::move(hint));
  }
  Diagnostic unsupported(const std::string& message, std::string hint = {}) const {
    return wrong(message, std::move(hint), ErrorKind::kUnsupported);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  /// Blanks and comments; line ends too when `lines`.
  void skip_blank(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || ((c == '\n' || c == '\r') && lines)) {
        ++at_;
      } else {
        return;
      }
    }
  }
  std::string_view take_name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::uint32_t rule_index(std::string_view name) {
    const auto [it, added] =
        rules_.try_emplace(std::string(name), static_cast<std::uint32_t>(grammar_.rules.size()));
    if (added) {
      grammar_.rules.push_back({std::string(name), {}});
      defined_.push_back(false);
      first_use_.push_back(at_);
    }
    return it->second;
  }

  Status parse_rule() {
    const std::size_t start = at_;
    const std::string_view name = take_name();
    if (name.empty()) {
      return wrong("a rule must begin here: name ::= …",
                   "a line that goes on with the rule before begins with |, or stands in ( )");
    }
    skip_blank(false);
    if (!text_.substr(at_).starts_with("::=")) {
      return wrong(fmt::format("'::=' must follow the rule's name '{}'", name));
    }
    const std::size_t body = at_ + 3;
    at_ = start;
    const std::uint32_t rule = rule_index(name);
    if (defined_[rule]) {
      return wrong(fmt::format("rule '{}' is defined twice", name),
                   "put | between what it can be, or give one another name");
    }
    defined_[rule] = true;
    at_ = body;
    skip_blank(true);
    LLMC_TRY(grammar_.rules[rule].body, parse_choice(0));
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      return wrong(fmt::format("'{}' does not belong here", printable(text_.substr(at_, 1))));
    return ok_status();
  }

  /// Alternatives; `depth` groups around them, in which line ends are blanks.
  Result<Expr> parse_choice(std::uint32_t depth) {
    std::vector<Expr> parts;
    for (;;) {
      LLMC_TRY(Expr part, parse_sequence(depth));
      parts.push_back(std::move(part));
      // A line that begins with | goes on with the rule before.
      const std::size_t here = at_;
      skip_blank(true);
      if (!take('|')) {
        if (depth == 0) at_ = here;
        return choice(std::move(parts));
      }
      skip_blank(true);
    }
  }

  bool is_repeat() const {
    return at_ < text_.size() && std::string_view("*+?{").find(peek()) != std::string_view::npos;
  }

  Result<Expr> parse_sequence(std::uint32_t depth) {
    std::vector<Expr> parts;
    for (;;) {
      LLMC_TRY(std::optional<Expr> item, parse_item(depth));
      if (!item) break;
      skip_blank(depth > 0);
      if (is_repeat()) {
        LLMC_TRY(item, parse_repeat(*std::move(item)));
        skip_blank(depth > 0);
        if (is_repeat()) return wrong("a repetition of a repetition", "put the inner one in ( )");
      }
      parts.push_back(*std::move(item));
    }
    if (parts.empty()) return text("");
    return sequence(std::move(parts));
  }

  /// A literal, class, group, name or dot; nothing where a sequence ends.
  Result<std::optional<Expr>> parse_item(std::uint32_t depth) {
    const char c = peek();
    if (is_name(c)) {
      const std::size_t start = at_;
      const std::string_view name = take_name();
      const std::size_t end = at_;
      skip_blank(depth > 0);
      const bool rule = text_.substr(at_).starts_with("::=");
      at_ = start;
      if (depth > 0 && rule) return wrong("a ')' is missing before this rule");
      const std::uint32_t index = rule_index(name);  // notes where it is used first
      at_ = end;
      return std::optional<Expr>(reference(index));
    }
    switch (c) {
      case '"':
        return parse_literal();
      case '[':
        return parse_class();
      case '.':
        ++at_;
        return std::optional<Expr>(set({{0, kMaxCodePoint}}));
      case '(': {
        if (depth >= kMaxNesting)
          return unsupported(fmt::format("more than {} groups in one another", kMaxNesting));
        ++at_;
        skip_blank(true);
        LLMC_TRY(Expr inner, parse_choice(depth + 1));
        if (!take(')')) return wrong("a ')' is missing");
        return std::optional<Expr>(std::move(inner));
      }
      case '<':
      case '!':
        return unsupported("tokens as parts of a grammar (<…>) are not supported: only text",
                           "write the text that the token stands for");
      case '*':
      case '+':
      case '?':
      case '{':
        return wrong(fmt::format("there is nothing before '{}' to repeat", c),
                     "the character itself stands in quotes");
      default:
        return std::optional<Expr>();
    }
  }

  Result<std::uint32_t> parse_count() {
    std::uint32_t value = 0;
    const std::size_t start = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (value > kMaxRepeat) {
        return unsupported(fmt::format("a repetition of more than {}", kMaxRepeat));
      }
    }
    if (at_ == start) return wrong("a number must stand here: {m}, {m,} or {m,n}");
    return value;
  }

  Result<std::optional<Expr>> parse_repeat(Expr item) {
    std::uint32_t least = 0, most = kUnbounded;
    if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (!take('*')) {
      ++at_;  // {
      skip_blank(false);
      LLMC_TRY(least, parse_count());
      skip_blank(false);
      most = least;
      if (take(',')) {
        skip_blank(false);
        most = kUnbounded;
        if (peek() != '}') {
          LLMC_TRY(most, parse_count());
          skip_blank(false);
        }
      }
      if (!take('}')) return wrong("a '}' is missing");
      if (most < least) return wrong(fmt::format("{{{},{}}} counts backwards", least, most));
    }
    return std::optional<Expr>(repeat(std::move(item), least, most));
  }

  /// One character of a literal or class, escapes taken for what they stand for.
  Result<std::uint32_t> parse_character() {
    if (!take('\\')) {
      const hosted::Utf8Char character = hosted::decode_utf8(text_.substr(at_));
      if (character.bytes == 0) return wrong("bytes that are no UTF-8");
      at_ += character.bytes;
      return character.code_point;
    }
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return std::uint32_t{'\n'};
      case 'r':
        return std::uint32_t{'\r'};
      case 't':
        return std::uint32_t{'\t'};
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<std::uint32_t>(c);
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      default:
        --at_;
        return wrong(fmt::format("unknown escape \\{}", printable(text_.substr(at_, 1))),
                     "there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
    }
  }
  Result<std::uint32_t> parse_hex(int digits) {
    std::uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int digit = hex_value(peek());
      if (digit < 0) return wrong(fmt::format("{} hexadecimal digits must stand here", digits));
      value = value * 16 + static_cast<std::uint64_t>(digit);
    }
    if (value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF))
      return wrong(fmt::format("U+{:04X} is no character", value));
    return static_cast<std::uint32_t>(value);
  }
  bool at_line_end() const { return at_ >= text_.size() || peek() == '\n' || peek() == '\r'; }

  Result<std::optional<Expr>> parse_literal() {
    ++at_;
    std::string literal;
    while (!take('"')) {
      if (at_line_end()) return wrong("a '\"' is missing at the end of the literal");
      LLMC_TRY(const std::uint32_t character, parse_character());
      hosted::append_utf8(character, literal);
    }
    return std::optional<Expr>(text(std::move(literal)));
  }

  Result<std::optional<Expr>> parse_class() {
    ++at_;
    const bool negated = take('^');
    CodePointSet members;
    while (!take(']')) {
      if (at_line_end()) return wrong("a ']' is missing at the end of the class");
      CodePointRange range;
      LLMC_TRY(range.first, parse_character());
      range.last = range.first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        if (at_line_end()) return wrong("a ']' is missing at the end of the class");
        LLMC_TRY(range.last, parse_character());
        if (range.last < range.first)
          return wrong("a range of characters that runs backwards",
                       "a - that is meant stands last, or as \\-");
      }
      members.push_back(range);
    }
    members = normalized(std::move(members));
    if (negated) members = complement(members);
    if (members.empty()) return wrong("a class without any character");
    return std::optional<Expr>(set(std::move(members)));
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  Grammar grammar_;
  std::map<std::string, std::uint32_t, std::less<>> rules_;
  std::vector<bool> defined_;
  std::vector<std::size_t> first_use_;
};

}  // namespace

Result<Grammar> parse_gbnf(std::string_view text) {
  return GbnfParser(text).parse();
}

}  // namespace llmc::grammar
