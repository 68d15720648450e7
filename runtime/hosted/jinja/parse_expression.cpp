#include <charconv>

#include "runtime/hosted/jinja/parser.h"
#include "runtime/hosted/jinja/parser_impl.h"

namespace llmc::hosted::jinja {
namespace {

// Limits that are far above the needs of real templates and far below what the stack allows.
constexpr std::uint32_t kMaxDepth = 100, kMaxNested = 40;
constexpr std::size_t kMaxArguments = 64;

bool is_keyword(std::string_view name) {
  for (const std::string_view word :
       {"and", "or", "not", "in", "is", "if", "else", "elif", "for", "recursive"})
    if (name == word) return true;
  return false;
}

}  // namespace

void TokenStream::fail(const std::string& message) const {
  throw TemplateError(message, peek().line);
}

std::string TokenStream::shown() const {
  switch (peek().kind) {
    case Token::Kind::kOutputEnd:
    case Token::Kind::kBlockEnd:
      return "the end of the tag";
    case Token::Kind::kData:
    case Token::Kind::kOutputBegin:
    case Token::Kind::kBlockBegin:
    case Token::Kind::kEnd:
      return "the end of the template";
    default:
      return "'" + peek().text.substr(0, 40) + "'";
  }
}

void TokenStream::expect_operator(std::string_view text) {
  if (!take_operator(text)) fail("expected '" + std::string(text) + "', not " + shown());
}
void TokenStream::expect(Token::Kind kind, std::string_view what) {
  if (!is(kind)) fail("expected " + std::string(what) + ", not " + shown());
  next();
}
std::string TokenStream::expect_name() {
  if (!is(Token::Kind::kName) || is_keyword(peek().text)) fail("expected a name, not " + shown());
  return next().text;
}

/// Limits the depth of the parser's recursion.
class ExpressionParser::Nested {
 public:
  explicit Nested(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nested_ > kMaxNested) parser_.tokens_.fail("an expression is nested too deeply");
  }
  ~Nested() { --parser_.nested_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  ExpressionParser& parser_;
};

ExpressionParser::Made ExpressionParser::make(Expression::Kind kind) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = tokens_.peek().line;
  return made;
}

void ExpressionParser::add(Expression& parent, ExpressionPtr child) const {
  if (child) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kMaxDepth) tokens_.fail("an expression is nested too deeply");
  }
  parent.children.push_back(std::move(child));
}

ExpressionPtr ExpressionParser::binary(std::string name, ExpressionPtr left,
                                       ExpressionPtr right) const {
  auto made = make(Expression::Kind::kBinary);
  made->name = std::move(name);
  add(*made, std::move(left));
  add(*made, std::move(right));
  return made;
}

ExpressionPtr ExpressionParser::parse(bool with_conditional) {
  const Nested nested(*this);
  return with_conditional ? conditional() : disjunction();
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_conditional) {
  ExpressionPtr first = parse(with_conditional);
  if (!tokens_.is_operator(",")) return first;
  auto made = make(Expression::Kind::kList);
  made->name = "tuple";
  add(*made, std::move(first));
  while (tokens_.take_operator(",")) {
    if (tokens_.is(Token::Kind::kBlockEnd) || tokens_.is(Token::Kind::kOutputEnd) ||
        tokens_.is_operator(")"))
      break;
    add(*made, parse(with_conditional));
  }
  return made;
}

ExpressionPtr ExpressionParser::conditional() {
  ExpressionPtr value = disjunction();
  while (tokens_.take_name("if")) {
    auto made = make(Expression::Kind::kConditional);
    add(*made, std::move(value));
    add(*made, disjunction());
    add(*made, tokens_.take_name("else") ? parse() : nullptr);
    value = std::move(made);
  }
  return value;
}

ExpressionPtr ExpressionParser::disjunction() {
  ExpressionPtr left = conjunction();
  while (tokens_.take_name("or")) left = binary("or", std::move(left), conjunction());
  return left;
}

ExpressionPtr ExpressionParser::conjunction() {
  ExpressionPtr left = negation();
  while (tokens_.take_name("and")) left = binary("and", std::move(left), negation());
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!tokens_.take_name("not")) return comparison();
  const Nested nested(*this);
  auto made = make(Expression::Kind::kUnary);
  made->name = "not";
  add(*made, negation());
  return made;
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr left = sum();
  std::unique_ptr<Expression> made;
  for (;;) {
    std::string name;
    if (tokens_.is(Token::Kind::kOperator)) {
      for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="})
        if (tokens_.peek().text == known) name = known;
    } else if (tokens_.is_name("in")) {
      name = "in";
    } else if (tokens_.is_name("not") && tokens_.peek(1).kind == Token::Kind::kName &&
               tokens_.peek(1).text == "in") {
      name = "not in";
      tokens_.next();
    }
    if (name.empty()) break;
    tokens_.next();
    if (!made) {
      made = make(Expression::Kind::kCompare);
      add(*made, std::move(left));
    }
    made->operators.push_back(std::move(name));
    add(*made, sum());
  }
  if (made) return made;
  return left;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    std::string name = tokens_.next().text;
    left = binary(std::move(name), std::move(left), concatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr left = product();
  while (tokens_.take_operator("~")) left = binary("~", std::move(left), product());
  return left;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (tokens_.is_operator("*") || tokens_.is_operator("/") || tokens_.is_operator("//") ||
         tokens_.is_operator("%")) {
    std::string name = tokens_.next().text;
    left = binary(std::move(name), std::move(left), power());
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary();
  while (tokens_.take_operator("**")) left = binary("**", std::move(left), unary());
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  ExpressionPtr value;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const Nested nested(*this);
    auto made = make(Expression::Kind::kUnary);
    made->name = tokens_.next().text;
    add(*made, unary(false));
    value = std::move(made);
  } else {
    value = postfix(primary());
  }
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = tokens_.peek();
  auto made = make(Expression::Kind::kLiteral);
  switch (token.kind) {
    case Token::Kind::kString: {
      std::string text;
      while (tokens_.is(Token::Kind::kString)) text += tokens_.next().text;
      made->value = Value::text(std::move(text));
      return made;
    }
    case Token::Kind::kInteger:
    case Token::Kind::kFloat: {
      const std::string text = tokens_.next().text;
      const char* const end = text.data() + text.size();
      std::int64_t whole = 0;
      double number = 0;
      if (token.kind == Token::Kind::kInteger
              ? std::from_chars(text.data(), end, whole).ec != std::errc{}
              : std::from_chars(text.data(), end, number).ec != std::errc{})
        tokens_.fail("the number " + text.substr(0, 40) + " is too large");
      made->value = token.kind == Token::Kind::kInteger ? Value(whole) : Value(number);
      return made;
    }
    case Token::Kind::kName: {
      const std::string name = tokens_.peek().text;
      if (is_keyword(name)) tokens_.fail("expected a value, not '" + name + "'");
      tokens_.next();
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        made->value = Value(name[0] == 't' || name[0] == 'T');
      } else if (name == "none" || name == "None") {
        made->value = Value(None{});
      } else {
        made->kind = Expression::Kind::kName;
        made->name = name;
        if (macros_ > 0 && (name == "varargs" || name == "kwargs" || name == "caller"))
          of_macros_.push_back({name, made->line});
      }
      return made;
    }
    case Token::Kind::kOperator:
      if (token.text == "[") return list();
      if (token.text == "{") return dict();
      if (token.text == "(") return parenthesised();
      break;
    default:
      break;
  }
  tokens_.fail("expected a value, not " + tokens_.shown());
}

ExpressionPtr ExpressionParser::list() {
  auto made = make(Expression::Kind::kList);
  tokens_.next();
  while (!tokens_.is_operator("]")) {
    add(*made, parse());
    if (!tokens_.take_operator(",")) break;
  }
  tokens_.expect_operator("]");
  return made;
}

ExpressionPtr ExpressionParser::dict() {
  auto made = make(Expression::Kind::kDict);
  tokens_.next();
  while (!tokens_.is_operator("}")) {
    add(*made, parse());
    tokens_.expect_operator(":");
    add(*made, parse());
    if (!tokens_.take_operator(",")) break;
  }
  tokens_.expect_operator("}");
  return made;
}

ExpressionPtr ExpressionParser::parenthesised() {
  tokens_.next();
  if (tokens_.take_operator(")")) {
    auto empty = make(Expression::Kind::kList);
    empty->name = "tuple";
    return empty;
  }
  ExpressionPtr inner = parse_tuple();
  tokens_.expect_operator(")");
  return inner;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (;;) {
    if (tokens_.take_operator(".")) {
      if (tokens_.is(Token::Kind::kInteger)) {
        auto made = make(Expression::Kind::kIndex);
        add(*made, std::move(value));
        add(*made, primary());
        value = std::move(made);
        continue;
      }
      if (!tokens_.is(Token::Kind::kName)) tokens_.fail("expected a name after '.'");
      auto made = make(Expression::Kind::kAttribute);
      made->name = tokens_.next().text;
      if (value->kind == Expression::Kind::kName && value->name == "loop" &&
          !is_loop_attribute(made->name))
        tokens_.fail("loop." + made->name + " is not supported");
      add(*made, std::move(value));
      value = std::move(made);
    } else if (tokens_.take_operator("[")) {
      value = subscript(std::move(value));
    } else if (tokens_.is_operator("(")) {
      check_call(*value);
      auto made = make(Expression::Kind::kCall);
      add(*made, std::move(value));
      arguments(*made);
      value = std::move(made);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  ExpressionPtr parts[3];
  std::size_t at = 0;
  bool slice = false;
  if (!tokens_.is_operator(":")) parts[0] = parse();
  while (tokens_.take_operator(":")) {
    slice = true;
    if (++at > 2) tokens_.fail("a slice has at most three parts");
    if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) parts[at] = parse();
  }
  tokens_.expect_operator("]");
  auto made = make(slice ? Expression::Kind::kSlice : Expression::Kind::kIndex);
  add(*made, std::move(value));
  for (std::size_t i = 0; i < (slice ? 3u : 1u); ++i) add(*made, std::move(parts[i]));
  return made;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  for (;;) {
    if (tokens_.take_operator("|")) {
      value = filter(std::move(value));
    } else if (tokens_.take_name("is")) {
      value = test(std::move(value));
    } else if (tokens_.is_operator("(")) {
      value = postfix(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr value) {
  auto made = make(Expression::Kind::kFilter);
  made->name = tokens_.expect_name();
  if (!is_filter(made->name)) tokens_.fail("the filter '" + made->name + "' is not supported");
  add(*made, std::move(value));
  if (tokens_.is_operator("(")) arguments(*made);
  check_filter(*made);
  return made;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const bool negated = tokens_.take_name("not");
  auto made = make(Expression::Kind::kTest);
  // The names of two tests are keywords.
  made->name = tokens_.is_name("in") ? tokens_.next().text : tokens_.expect_name();
  if (!is_test(made->name)) tokens_.fail("the test '" + made->name + "' is not supported");
  add(*made, std::move(value));
  const Token& token = tokens_.peek();
  if (tokens_.is_operator("(")) {
    arguments(*made);
  } else if (token.kind == Token::Kind::kString || token.kind == Token::Kind::kInteger ||
             token.kind == Token::Kind::kFloat || tokens_.is_operator("[") ||
             tokens_.is_operator("{") ||
             (token.kind == Token::Kind::kName && !is_keyword(token.text))) {
    add(*made, postfix(primary()));
  }
  check_test(*made);
  if (made->children[0]->kind == Expression::Kind::kName)
    asked_for_.insert(made->children[0]->name);
  if (!negated) return made;
  auto inverted = make(Expression::Kind::kUnary);
  inverted->name = "not";
  add(*inverted, std::move(made));
  return inverted;
}

void ExpressionParser::arguments(Expression& call) {
  tokens_.expect_operator("(");
  while (!tokens_.is_operator(")")) {
    if (tokens_.is_operator("*") || tokens_.is_operator("**"))
      tokens_.fail("arguments out of a list or dict (*, **) are not supported");
    if (call.children.size() + call.keywords.size() > kMaxArguments)
      tokens_.fail("too many arguments");
    if (tokens_.is(Token::Kind::kName) && tokens_.peek(1).kind == Token::Kind::kOperator &&
        tokens_.peek(1).text == "=") {
      std::string name = tokens_.next().text;
      tokens_.next();
      ExpressionPtr value = parse();
      call.depth = std::max(call.depth, value->depth + 1);
      call.keywords.emplace_back(std::move(name), std::move(value));
    } else if (!call.keywords.empty()) {
      tokens_.fail("a positional argument follows a keyword argument");
    } else {
      add(call, parse());
    }
    if (!tokens_.take_operator(",")) break;
  }
  tokens_.expect_operator(")");
}

}  // namespace llmc::hosted::jinja
