#include "runtime/hosted/grammar/gbnf.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>

#include "runtime/hosted/grammar/failure.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::grammar {
namespace {

/// Maximum count in {m,n}.
constexpr std::uint32_t kMaxRepeat = 100000;
constexpr std::size_t kMaxRules = 20000;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Grammar parse(std::string_view root_name) {
    skip_blank(true);
    while (at_ < text_.size()) {
      parse_rule();
      if (grammar_.rules.size() > kMaxRules)
        throw unsupported(concat("more than ", kMaxRules, " rules"));
      skip_blank(true);
    }
    for (std::uint32_t i = 0; i < grammar_.rules.size(); ++i) {
      if (defined_[i]) continue;
      at_ = first_use_[i];
      const std::string& name = grammar_.rules[i].name;
      throw error_here(concat("rule '", name, "' is used and nowhere defined"),
                       concat("define it: ", name, " ::= …; put text in quotes"));
    }
    const auto root = rules_.find(root_name);
    if (root == rules_.end()) {
      at_ = text_.size();
      throw error_here(concat("the start rule '", root_name, "' is missing"),
                       concat("add a rule for the whole text: ", root_name, " ::= …"));
    }
    grammar_.root = root->second;
    return std::move(grammar_);
  }

 private:
  /// Returns a failure at at_. Lines and columns (in characters) are counted from 1.
  Failure error_here(const std::string& message, std::string hint = {}) const {
    const std::string_view before = text_.substr(0, at_);
    const std::string_view line = before.substr(before.rfind('\n') + 1);
    const auto column = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }) + 1;
    return malformed(
        concat("line ", std::ranges::count(before, '\n') + 1, ", column ", column, ": ", message),
        hint.empty() ? "docs/grammar.md explains the syntax" : std::move(hint));
  }
  Failure unsupported(const std::string& message, std::string hint = {}) const {
    Failure failure = error_here(message, std::move(hint));
    failure.unsupported = true;
    return failure;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  /// Skips spaces, tabs, comments and, if `lines` is set, line ends.
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

  void parse_rule() {
    const std::size_t start = at_;
    const std::string_view name = take_name();
    if (name.empty()) {
      throw error_here("expected a rule: name ::= …",
                       "to continue the previous rule, start the line with | or use ( )");
    }
    skip_blank(false);
    if (!text_.substr(at_).starts_with("::=")) {
      throw error_here(concat("'::=' must follow the rule's name '", name, "'"));
    }
    const std::size_t body = at_ + 3;
    at_ = start;
    const std::uint32_t rule = rule_index(name);
    if (defined_[rule]) {
      throw error_here(concat("rule '", name, "' is defined twice"),
                       "separate alternatives by |, or rename one of them");
    }
    defined_[rule] = true;
    at_ = body;
    skip_blank(true);
    grammar_.rules[rule].body = parse_choice(0);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      throw error_here(concat("'", printable(text_.substr(at_, 1)), "' does not belong here"));
  }

  /// Parses alternatives inside `depth` groups. Inside a group, line ends count as spaces.
  Expr parse_choice(std::uint32_t depth) {
    std::vector<Expr> parts;
    for (;;) {
      parts.push_back(parse_sequence(depth));
      // A line that begins with | continues the rule.
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

  Expr parse_sequence(std::uint32_t depth) {
    std::vector<Expr> parts;
    for (;;) {
      std::optional<Expr> item = parse_item(depth);
      if (!item) break;
      skip_blank(depth > 0);
      if (is_repeat()) {
        item = parse_repeat(*std::move(item));
        skip_blank(depth > 0);
        if (is_repeat())
          throw error_here("a repetition of a repetition", "put the inner one in ( )");
      }
      parts.push_back(*std::move(item));
    }
    if (parts.empty()) return text("");
    return sequence(std::move(parts));
  }

  /// Parses a literal, class, group, name or dot. Returns nullopt at the end of a sequence.
  std::optional<Expr> parse_item(std::uint32_t depth) {
    const char c = peek();
    if (is_name(c)) {
      const std::size_t start = at_;
      const std::string_view name = take_name();
      const std::size_t end = at_;
      skip_blank(depth > 0);
      const bool rule = text_.substr(at_).starts_with("::=");
      at_ = start;
      if (depth > 0 && rule) throw error_here("a ')' is missing before this rule");
      const std::uint32_t index = rule_index(name);  // also records the first use of the rule
      at_ = end;
      return reference(index);
    }
    switch (c) {
      case '"':
        return parse_literal();
      case '[':
        return parse_class();
      case '.':
        ++at_;
        return set({{0, kMaxCodePoint}});
      case '(': {
        if (depth >= kMaxNesting)
          throw unsupported(concat("more than ", kMaxNesting, " groups in one another"));
        ++at_;
        skip_blank(true);
        Expr inner = parse_choice(depth + 1);
        if (!take(')')) throw error_here("a ')' is missing");
        return inner;
      }
      case '<':
      case '!':
        throw unsupported("tokens as parts of a grammar (<…>) are not supported: only text",
                          "write the text of the token");
      case '*':
      case '+':
      case '?':
      case '{':
        throw error_here(concat("there is nothing before '", c, "' to repeat"),
                         "put the character itself in quotes");
      default:
        return std::nullopt;
    }
  }

  std::uint32_t parse_count() {
    std::uint32_t value = 0;
    const std::size_t start = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (value > kMaxRepeat) {
        throw unsupported(concat("a repetition of more than ", kMaxRepeat));
      }
    }
    if (at_ == start) throw error_here("expected a number: {m}, {m,} or {m,n}");
    return value;
  }

  Expr parse_repeat(Expr item) {
    std::uint32_t min_count = 0, max_count = kUnbounded;
    if (take('+')) {
      min_count = 1;
    } else if (take('?')) {
      max_count = 1;
    } else if (!take('*')) {
      ++at_;  // {
      skip_blank(false);
      min_count = parse_count();
      skip_blank(false);
      max_count = min_count;
      if (take(',')) {
        skip_blank(false);
        max_count = kUnbounded;
        if (peek() != '}') {
          max_count = parse_count();
          skip_blank(false);
        }
      }
      if (!take('}')) throw error_here("a '}' is missing");
      if (max_count < min_count)
        throw error_here(concat("{", min_count, ",", max_count, "} counts backwards"));
    }
    return repeat(std::move(item), min_count, max_count);
  }

  /// Parses one character, or an escape that represents one, of a literal or class.
  std::uint32_t parse_character() {
    if (!take('\\')) {
      const Utf8Char character = decode_utf8(text_.substr(at_));
      if (character.bytes == 0) throw error_here("invalid UTF-8");
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
        throw error_here(
            concat("unknown escape \\", printable(text_.substr(at_, 1))),
            "there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
    }
  }
  std::uint32_t parse_hex(int digits) {
    std::uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int digit = hex_value(peek());
      if (digit < 0) throw error_here(concat("expected ", digits, " hexadecimal digits"));
      value = value * 16 + static_cast<std::uint64_t>(digit);
    }
    if (value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF)) {
      std::array<char, 16> name;
      std::snprintf(name.data(), name.size(), "U+%04llX", static_cast<unsigned long long>(value));
      throw error_here(concat(name.data(), " is not a character"));
    }
    return static_cast<std::uint32_t>(value);
  }
  bool at_line_end() const { return at_ >= text_.size() || peek() == '\n' || peek() == '\r'; }

  Expr parse_literal() {
    ++at_;
    std::string literal;
    while (!take('"')) {
      if (at_line_end()) throw error_here("a '\"' is missing at the end of the literal");
      const std::uint32_t character = parse_character();
      append_utf8(character, literal);
    }
    return text(std::move(literal));
  }

  Expr parse_class() {
    ++at_;
    const bool negated = take('^');
    CodePointSet members;
    while (!take(']')) {
      if (at_line_end()) throw error_here("a ']' is missing at the end of the class");
      CodePointRange range;
      range.first = parse_character();
      range.last = range.first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        if (at_line_end()) throw error_here("a ']' is missing at the end of the class");
        range.last = parse_character();
        if (range.last < range.first)
          throw error_here("a range of characters that runs backwards",
                           "put a literal - last, or write \\-");
      }
      members.push_back(range);
    }
    members = normalized(std::move(members));
    if (negated) members = complement(members);
    if (members.empty()) throw error_here("a class without any character");
    return set(std::move(members));
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  Grammar grammar_;
  std::map<std::string, std::uint32_t, std::less<>> rules_;
  std::vector<bool> defined_;
  std::vector<std::size_t> first_use_;
};

}  // namespace

Outcome<Grammar> parse_gbnf(std::string_view text, std::string_view root) {
  return catch_failure([&] { return GbnfParser(text).parse(root); });
}

}  // namespace llmc::hosted::grammar
