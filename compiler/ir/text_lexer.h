#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace llmc::ir {

enum class TokenKind : std::uint8_t {
  kEnd,
  kName,          // bare name, keyword or symbol
  kString,        // quoted string; `text` is its unescaped content
  kValue,         // %name; `text` is the name
  kUnnamedValue,  // %12; `text` is the digits
  kNumber,        // unsigned, as written
  kPunct,         // one character
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  std::size_t line = 1, column = 1;

  bool is(char punct) const { return kind == TokenKind::kPunct && text[0] == punct; }
  bool is_word(std::string_view word) const { return kind == TokenKind::kName && text == word; }
};

/// Splits IR text into tokens, with one token of lookahead. `//` begins a comment.
class Lexer {
 public:
  /// `file` is the file name used in errors.
  Lexer(std::string_view text, std::string file);

  const Token& peek() const { return token_; }
  /// Returns the current token and advances. Fails if the next token is malformed.
  Result<Token> take();
  /// Consumes the current token if it is the character `punct`. Returns whether it did.
  Result<bool> take_if(char punct);
  /// Consume the current token, and fail if it is another token.
  Status expect(char punct);
  Status expect_word(std::string_view word);

  /// Reads the first token. Must be called before all other functions.
  Status start() { return advance(); }

  /// Return an error at the current token and at a given token.
  Diagnostic error(std::string message) const { return error_at(token_, std::move(message)); }
  Diagnostic error_at(const Token& token, std::string message) const;
  /// Returns an error that `what` was expected instead of the current token.
  Diagnostic expected(std::string_view what) const;

 private:
  Status advance();
  void skip_space();
  void consume(std::size_t bytes);

  std::string_view rest_;
  std::string file_;
  std::size_t line_ = 1, column_ = 1;
  Token token_;
};

}  // namespace llmc::ir
