#include "runtime/hosted/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "runtime/hosted/jinja/strings.h"
#include "runtime/hosted/jinja/value.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::jinja {
namespace {

constexpr std::size_t kMaxTokens = 200'000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) data();
    add(Token::Kind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(message, line_); }

  void add(Token::Kind kind, std::string text) {
    if (tokens_.size() == kMaxTokens) fail("the template is too long");
    tokens_.push_back({kind, std::move(text), line_});
  }

  /// Consumes `bytes` bytes of the rest and counts their lines.
  std::string_view take(std::size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    line_ += static_cast<std::uint32_t>(std::ranges::count(taken, '\n'));
    if (!taken.empty()) line_start_ = taken.ends_with('\n');
    rest_.remove_prefix(taken.size());
    return taken;
  }

  /// Reads the text before the next tag, then the tag.
  void data() {
    std::size_t at = 0;
    for (;; ++at) {
      at = rest_.find('{', at);
      if (at == rest_.npos || at + 1 == rest_.size()) {
        at = rest_.size();
        break;
      }
      const char kind = rest_[at + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
    }
    const bool begins_line = line_start_;
    const std::uint32_t line = line_;
    std::string_view text = take(at);
    if (rest_.empty()) {
      if (!text.empty()) tokens_.push_back({Token::Kind::kData, std::string(text), line});
      return;
    }
    const char kind = rest_[1];
    const char sign = rest_.size() > 2 && (rest_[2] == '-' || rest_[2] == '+') ? rest_[2] : ' ';
    if (sign == '-') {
      text = strip(text, std::nullopt, Side::kRight);
    } else if (sign != '+' && kind != '{') {
      const std::size_t newline = text.rfind('\n');
      const std::size_t start = newline == text.npos ? 0 : newline + 1;
      if ((start > 0 || begins_line) && is_blank(text.substr(start))) text = text.substr(0, start);
    }
    if (!text.empty()) tokens_.push_back({Token::Kind::kData, std::string(text), line});
    take(sign == ' ' ? 2 : 3);
    if (kind == '#') return comment();
    add(kind == '{' ? Token::Kind::kOutputBegin : Token::Kind::kBlockBegin, {});
    tag(kind == '{' ? "}}" : "%}", kind == '{' ? Token::Kind::kOutputEnd : Token::Kind::kBlockEnd);
  }

  void comment() {
    const std::size_t end = rest_.find("#}");
    if (end == rest_.npos) fail("a comment without its end #}");
    const char sign = end > 0 ? rest_[end - 1] : ' ';
    take(end + 2);
    skip_whitespace_after_tag(sign == '-' || sign == '+' ? sign : ' ', true);
  }

  /// Handles whitespace after a tag that ended with `sign`.
  void skip_whitespace_after_tag(char sign, bool block) {
    if (sign == '-') {
      take(rest_.size() - strip(rest_, std::nullopt, Side::kLeft).size());
    } else if (sign == ' ' && block && rest_.starts_with('\n')) {
      take(1);
    }
  }

  /// Reads the tokens of a tag, until `end`.
  void tag(std::string_view end, Token::Kind end_kind) {
    std::string open;  // open brackets; inside them "}}" ends two dicts
    for (;;) {
      take(rest_.size() - strip(rest_, std::nullopt, Side::kLeft).size());
      if (rest_.empty()) fail("a tag without its end " + std::string(end));
      if (open.empty()) {
        const bool sign = rest_[0] == '-' || rest_[0] == '+';
        if (rest_.substr(sign ? 1 : 0).starts_with(end)) {
          const char s = sign ? rest_[0] : ' ';
          add(end_kind, {});
          take(sign ? 3 : 2);
          return skip_whitespace_after_tag(s, end_kind == Token::Kind::kBlockEnd);
        }
      }
      const char c = rest_[0];
      if (c == '"' || c == '\'') {
        string(c);
      } else if (is_digit(c)) {
        number();
      } else if (starts_name(c)) {
        std::size_t n = 1;
        while (n < rest_.size() && (starts_name(rest_[n]) || is_digit(rest_[n]))) ++n;
        add(Token::Kind::kName, std::string(rest_.substr(0, n)));
        take(n);
      } else {
        operator_(open);
      }
    }
  }

  void number() {
    std::size_t n = 0;
    const auto digits = [&] {
      while (n < rest_.size() && (is_digit(rest_[n]) || rest_[n] == '_')) ++n;
    };
    digits();
    bool whole = true;
    if (n + 1 < rest_.size() && rest_[n] == '.' && is_digit(rest_[n + 1])) {
      whole = false;
      ++n;
      digits();
    }
    if (n + 1 < rest_.size() && (rest_[n] == 'e' || rest_[n] == 'E')) {
      const std::size_t sign = rest_[n + 1] == '-' || rest_[n + 1] == '+' ? 1 : 0;
      if (n + 1 + sign < rest_.size() && is_digit(rest_[n + 1 + sign])) {
        whole = false;
        n += 1 + sign;
        digits();
      }
    }
    std::string text(rest_.substr(0, n));
    std::erase(text, '_');
    add(whole ? Token::Kind::kInteger : Token::Kind::kFloat, std::move(text));
    take(n);
  }

  /// Returns the code point with the `count` hexadecimal digits at rest_[at].
  std::uint32_t hexadecimal(std::size_t at, std::size_t count) const {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + count; ++i) {
      const char c = i < rest_.size() ? rest_[i] : ' ';
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("an escape in a string lacks hexadecimal digits");
      value = value << 4 | static_cast<std::uint32_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail("an escape in a string is not a valid character");
    return value;
  }

  void string(char quote) {
    std::string value;
    std::size_t i = 1;
    for (;; ++i) {
      if (i >= rest_.size()) fail("a string without its end");
      const char c = rest_[i];
      if (c == quote) break;
      if (c != '\\') {
        value += c;
        continue;
      }
      if (++i >= rest_.size()) fail("a string without its end");
      constexpr std::string_view kLetters = "ntr\\'\"bfva", kValues = "\n\t\r\\'\"\b\f\v\a";
      const char e = rest_[i];
      if (const std::size_t k = kLetters.find(e); k != kLetters.npos) {
        value += kValues[k];
      } else if (e == 'x' || e == 'u' || e == 'U') {
        const std::size_t count = e == 'x' ? 2 : e == 'u' ? 4 : 8;
        append_utf8(hexadecimal(i + 1, count), value);
        i += count;
      } else if (e >= '0' && e <= '7') {
        std::uint32_t code = 0;
        std::size_t n = 0;
        while (n < 3 && i + n < rest_.size() && rest_[i + n] >= '0' && rest_[i + n] <= '7')
          code = code * 8 + static_cast<std::uint32_t>(rest_[i + n++] - '0');
        append_utf8(code, value);
        i += n - 1;
      } else if (e == 'N') {
        fail("characters by name (\\N) are not supported in strings");
      } else if (e != '\n') {  // a backslash at the end of a line joins the line with the next one
        value += '\\';
        value += e;
      }
    }
    add(Token::Kind::kString, std::move(value));
    take(i + 1);
  }

  void operator_(std::string& open) {
    constexpr std::array<std::string_view, 25> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    const auto it = std::ranges::find_if(
        kOperators, [&](std::string_view known) { return rest_.starts_with(known); });
    if (it == kOperators.end()) {
      const std::string_view character = characters(rest_.substr(0, 4)).front();
      fail("the character '" + std::string(character) + "' has no meaning in a tag");
    }
    const char c = (*it)[0];
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(std::string("a ") + c + " that closes nothing");
      open.pop_back();
    }
    add(Token::Kind::kOperator, std::string(*it));
    take(it->size());
  }

  const std::string source_;
  std::string_view rest_;
  std::uint32_t line_ = 1;
  bool line_start_ = true;  // whether the consumed text ends with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  std::string normal;  // the source with \n for every kind of line end
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      normal += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      normal += source[i];
    }
  }
  if (normal.ends_with('\n')) normal.pop_back();
  return Lexer(std::move(normal)).run();
}

}  // namespace llmc::hosted::jinja
