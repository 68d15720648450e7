#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace llmc::ir {

enum class TokenKind : std::uint8_t {
  kEnd,
  kName,          // bare word: names, keywords, symbols
  kString,        // quoted, unescaped in `text`
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

/// Cuts IR text into tokens, one ahead. `//` begins a comment.
class Lexer {
 public:
  /// `file` is for errors.
  Lexer(std::string_view text, std::string file);

  const Token& peek() const { return token_; }
  /// The current token; moves on. Fails when the one after it is malformed.
  Result<Token> take();
  /// Whether the current token is this character, in which case it is taken.
  Result<bool> take_if(char punct);
  Status expect(char punct);
  Status expect_word(std::string_view word);

  /// Reads the first token. Call once before anything else.
  Status start() { return advance(); }

  /// An error at the current token, at a token, or that something else was expected.
  Diagnostic error(std::string message) const { return error_at(token_, std::move(message)); }
  Diagnostic error_at(const Token& token, std::string message) const;
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
