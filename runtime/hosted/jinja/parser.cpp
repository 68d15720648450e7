#include "runtime/hosted/jinja/parser.h"

#include <algorithm>

#include "runtime/hosted/jinja/parser_impl.h"

namespace llmc::hosted::jinja {
namespace {

using Made = std::unique_ptr<Statement>;

constexpr std::uint32_t kMaxBlocks = 40;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Body run() {
    Body body = statements({});
    if (!tokens_.is(Token::Kind::kEnd)) tokens_.fail("unexpected " + tokens_.shown());
    expressions_.check_names();
    return body;
  }

 private:
  Made make(Statement::Kind kind) const {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->line = tokens_.peek().line;
    return made;
  }

  void end_block() { tokens_.expect(Token::Kind::kBlockEnd, "the end of the tag"); }

  /// Parses statements up to a block that begins with one of the names `ends`. This name is then
  /// the next token.
  Body statements(std::initializer_list<std::string_view> ends) {
    Body body;
    for (;;) {
      const Token& token = tokens_.peek();
      if (token.kind == Token::Kind::kData) {
        auto made = make(Statement::Kind::kText);
        made->text = tokens_.next().text;
        body.push_back(std::move(made));
      } else if (token.kind == Token::Kind::kOutputBegin) {
        tokens_.next();
        auto made = make(Statement::Kind::kOutput);
        made->expression = expressions_.parse_tuple();
        tokens_.expect(Token::Kind::kOutputEnd, "the end of the tag");
        body.push_back(std::move(made));
      } else if (token.kind == Token::Kind::kBlockBegin) {
        tokens_.next();
        if (!tokens_.is(Token::Kind::kName)) tokens_.fail("a block without a name");
        if (std::ranges::find(ends, std::string_view(tokens_.peek().text)) != ends.end())
          return body;
        body.push_back(block());
      } else {
        if (ends.size() > 0)
          tokens_.fail("the template ends where " + std::string(*(ends.end() - 1)) +
                       " is expected");
        return body;
      }
    }
  }

  std::unique_ptr<const Statement> block() {
    if (++nested_ > kMaxBlocks) tokens_.fail("blocks are nested too deeply");
    const std::string name = tokens_.peek().text;
    std::unique_ptr<const Statement> made;
    if (name == "if") {
      made = if_block();
    } else if (name == "for") {
      made = for_block();
    } else if (name == "set") {
      made = set();
    } else if (name == "macro") {
      made = macro();
    } else if (name == "generation") {  // marks training data; only its body is rendered
      auto group = make(Statement::Kind::kGroup);
      tokens_.next();
      end_block();
      group->body = statements({"endgeneration"});
      tokens_.next();
      end_block();
      made = std::move(group);
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) tokens_.fail("'" + name + "' outside of a loop");
      made = make(name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue);
      tokens_.next();
      end_block();
    } else {
      tokens_.fail("the block '" + name + "' is not supported");
    }
    --nested_;
    return made;
  }

  Made if_block() {
    auto made = make(Statement::Kind::kIf);
    tokens_.next();
    for (bool more = true; more;) {
      Statement::Branch branch;
      branch.condition = expressions_.parse_tuple();
      end_block();
      branch.body = statements({"elif", "else", "endif"});
      made->branches.push_back(std::move(branch));
      more = tokens_.take_name("elif");
    }
    if (tokens_.take_name("else")) {
      end_block();
      made->branches.push_back({nullptr, statements({"endif"})});
    }
    tokens_.next();
    end_block();
    return made;
  }

  Made for_block() {
    auto made = make(Statement::Kind::kFor);
    tokens_.next();
    made->targets = targets();
    if (!tokens_.take_name("in")) tokens_.fail("expected 'in', not " + tokens_.shown());
    made->expression = expressions_.parse_tuple(false);
    if (tokens_.take_name("if")) made->condition = expressions_.parse();
    if (tokens_.is_name("recursive")) tokens_.fail("recursive loops are not supported");
    end_block();
    ++loops_;
    made->body = statements({"else", "endfor"});
    --loops_;
    if (tokens_.take_name("else")) {
      end_block();
      made->otherwise = statements({"endfor"});
    }
    tokens_.next();
    end_block();
    return made;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool parenthesised = tokens_.take_operator("(");
    do {
      names.push_back(tokens_.expect_name());
      if (names.back() == "loop") tokens_.fail("'loop' cannot be set");
      expressions_.assigned(names.back());
    } while (tokens_.take_operator(","));
    if (parenthesised) tokens_.expect_operator(")");
    return names;
  }

  Made set() {
    auto made = make(Statement::Kind::kSet);
    tokens_.next();
    made->targets = targets();
    if (made->targets.size() == 1 && tokens_.take_operator(".")) {
      made->text = made->targets[0];
      made->targets[0] = tokens_.expect_name();
    }
    if (tokens_.take_operator("=")) {
      made->expression = expressions_.parse_tuple();
      end_block();
      return made;
    }
    if (made->targets.size() != 1 || !made->text.empty() || !tokens_.is(Token::Kind::kBlockEnd))
      tokens_.fail("expected '=', not " + tokens_.shown());
    made->kind = Statement::Kind::kSetBlock;
    end_block();
    made->body = outside_of_loops({"endset"});
    tokens_.next();
    end_block();
    return made;
  }

  Made macro() {
    auto made = make(Statement::Kind::kMacro);
    tokens_.next();
    made->text = tokens_.expect_name();
    expressions_.assigned(made->text);
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      made->targets.push_back(tokens_.expect_name());
      expressions_.assigned(made->targets.back());
      if (tokens_.take_operator("=")) {
        made->defaults.push_back(expressions_.parse());
      } else if (!made->defaults.empty()) {
        tokens_.fail("a parameter without a default follows one with a default");
      }
      if (!tokens_.take_operator(",")) break;
    }
    tokens_.expect_operator(")");
    end_block();
    expressions_.inside_macro(true);
    made->body = outside_of_loops({"endmacro"});
    expressions_.inside_macro(false);
    tokens_.next();
    end_block();
    return made;
  }

  /// Parses a body in which `break` cannot end the enclosing loops.
  Body outside_of_loops(std::initializer_list<std::string_view> ends) {
    const std::uint32_t loops = std::exchange(loops_, 0);
    Body body = statements(ends);
    loops_ = loops;
    return body;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::uint32_t nested_ = 0, loops_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) {
  return Parser(tokenize(source)).run();
}

}  // namespace llmc::hosted::jinja
