#include "compiler/ir/text_lexer.h"

#include "compiler/ir/quote.h"

namespace llmc::ir {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Returns the length of the unsigned number at the start of `text`: digits, fraction, signed
/// exponent. The caller converts it and checks its syntax.
std::size_t number_length(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size()) {
    const char c = text[n];
    const bool exponent_sign =
        (c == '+' || c == '-') && n > 0 && (text[n - 1] == 'e' || text[n - 1] == 'E');
    if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !exponent_sign) break;
    ++n;
  }
  return n;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string file) : rest_(text), file_(std::move(file)) {}

void Lexer::consume(std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (rest_[i] == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
  }
  rest_.remove_prefix(bytes);
}

void Lexer::skip_space() {
  while (!rest_.empty()) {
    const char c = rest_.front();
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      consume(1);
    } else if (rest_.substr(0, 2) == "//") {
      const auto end = rest_.find('\n');
      consume(end == std::string_view::npos ? rest_.size() : end);
    } else {
      break;
    }
  }
}

Status Lexer::advance() {
  skip_space();
  token_ = Token{TokenKind::kEnd, {}, line_, column_};
  if (rest_.empty()) return ok_status();
  auto after = rest_;
  const char c = rest_.front();
  if (c == '%') {
    after.remove_prefix(1);
    std::size_t digits = 0;
    while (digits < after.size() && is_digit(after[digits])) ++digits;
    if (digits > 0) {
      token_.kind = TokenKind::kUnnamedValue;
      token_.text = after.substr(0, digits);
      after.remove_prefix(digits);
    } else {
      auto name = take_name(after);
      if (!name || name->empty()) return error("malformed value name");
      token_.kind = TokenKind::kValue;
      token_.text = std::move(*name);
    }
  } else if (c == '"') {
    auto text = take_quoted(after);
    if (!text) return error("malformed or unterminated string");
    token_.kind = TokenKind::kString;
    token_.text = std::move(*text);
  } else if (auto name = take_name(after)) {
    token_.kind = TokenKind::kName;
    token_.text = std::move(*name);
  } else if (is_digit(c)) {
    token_.kind = TokenKind::kNumber;
    token_.text = rest_.substr(0, number_length(rest_));
    after.remove_prefix(token_.text.size());
  } else if (std::string_view("(){}[],:=@+-*").find(c) != std::string_view::npos) {
    token_.kind = TokenKind::kPunct;
    token_.text = c;
    after.remove_prefix(1);
  } else {
    return error("unexpected character '" + std::string(1, c) + "'");
  }
  consume(rest_.size() - after.size());
  return ok_status();
}

Result<Token> Lexer::take() {
  Token token = std::move(token_);
  LLMC_RETURN_IF_ERROR(advance());
  return token;
}

Result<bool> Lexer::take_if(char punct) {
  if (!token_.is(punct)) return false;
  LLMC_RETURN_IF_ERROR(advance());
  return true;
}

Status Lexer::expect(char punct) {
  if (!token_.is(punct)) return expected("'" + std::string(1, punct) + "'");
  return advance();
}

Status Lexer::expect_word(std::string_view word) {
  if (!token_.is_word(word)) return expected("'" + std::string(word) + "'");
  return advance();
}

Diagnostic Lexer::error_at(const Token& token, std::string message) const {
  return file_failure(
      ErrorKind::kBadInput, file_,
      std::to_string(token.line) + ":" + std::to_string(token.column) + ": " + std::move(message));
}

Diagnostic Lexer::expected(std::string_view what) const {
  std::string got = "the end";
  if (token_.kind != TokenKind::kEnd) {
    got = token_.kind == TokenKind::kValue || token_.kind == TokenKind::kUnnamedValue ? "%" : "";
    got = "'" + got + token_.text.substr(0, 60) + "'";
  }
  return error("expected " + std::string(what) + ", got " + got);
}

}  // namespace llmc::ir
