#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/hosted/jinja/ast.h"
#include "runtime/hosted/jinja/lexer.h"

namespace llmc::hosted::jinja {

/// The tokens of a template and the current position, for the parsers of statements and
/// expressions.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token next() {
    Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text) const {
    return is(Token::Kind::kOperator) && peek().text == text;
  }
  bool is_name(std::string_view text) const {
    return is(Token::Kind::kName) && peek().text == text;
  }
  bool take_operator(std::string_view text) { return is_operator(text) && (next(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (next(), true); }
  void expect_operator(std::string_view text);
  void expect(Token::Kind kind, std::string_view what);
  /// Consumes and returns a name that is not a keyword.
  std::string expect_name();
  [[noreturn]] void fail(const std::string& message) const;
  /// Returns the text of the next token for messages.
  std::string shown() const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}
  /// Parses an expression. `conditional`: it may be A if B else C.
  ExpressionPtr parse(bool conditional = true);
  /// Parses an expression, or several that are separated by commas, which are a tuple.
  ExpressionPtr parse_tuple(bool conditional = true);

  /// Records that the template assigns a value to this name.
  void assigned(const std::string& name) { assigned_.insert(name); }
  /// Records that parsing enters or leaves the body of a macro.
  void inside_macro(bool inside) { macros_ += inside ? 1 : -1; }
  /// Throws TemplateError for unknown functions, and for the special variables of macros, that
  /// the template does not assign. Call it after parsing.
  void check_names() const;

 private:
  using Made = std::unique_ptr<Expression>;
  class Nested;

  Made make(Expression::Kind kind) const;
  /// Adds a child to `parent` and checks the depth of the tree.
  void add(Expression& parent, ExpressionPtr child) const;
  ExpressionPtr binary(std::string name, ExpressionPtr left, ExpressionPtr right) const;
  ExpressionPtr conditional();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters = true);
  ExpressionPtr primary();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr parenthesised();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr filter(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  void arguments(Expression& call);
  void check_call(const Expression& callee);
  void check_filter(const Expression& filter) const;
  void check_test(const Expression& test) const;

  struct Use {
    std::string name;
    std::uint32_t line = 0;
  };
  TokenStream& tokens_;
  std::set<std::string> assigned_, asked_for_;
  std::vector<Use> called_, of_macros_;
  int macros_ = 0;
  std::uint32_t nested_ = 0;
};

}  // namespace llmc::hosted::jinja
