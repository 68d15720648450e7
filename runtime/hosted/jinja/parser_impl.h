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

/// Token cursor shared by the parsers of statements and expressions.
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
  /// Consumes a name that is not a keyword.
  std::string expect_name();
  [[noreturn]] void fail(const std::string& message) const;
  /// Returns the next token's text for messages.
  std::string shown() const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}
  /// `conditional`: an `if` may follow.
  ExpressionPtr parse(bool conditional = true);
  /// Same, but commas make a tuple.
  ExpressionPtr parse_tuple(bool conditional = true);

  /// Records that the template assigns to this name somewhere.
  void assigned(const std::string& name) { assigned_.insert(name); }
  /// Marks that parsing enters or leaves a macro's body.
  void inside_macro(bool inside) { macros_ += inside ? 1 : -1; }
  /// Call after parsing: throws TemplateError for names that are never defined.
  void check_names() const;

 private:
  using Made = std::unique_ptr<Expression>;
  class Nested;

  Made make(Expression::Kind kind) const;
  /// Adds a child and checks the depth of the tree.
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
