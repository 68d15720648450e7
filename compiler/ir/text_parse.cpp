#include <unordered_map>

#include "compiler/ir/builder.h"
#include "compiler/ir/text.h"
#include "compiler/ir/text_values.h"
#include "compiler/ir/verify.h"

namespace llmc::ir {
namespace {

/// Parses one graph; loop bodies are parsed by another GraphParser on the same lexer.
class GraphParser {
 public:
  GraphParser(Lexer& lexer, const ParseOptions& options, int depth)
      : lexer_(lexer), options_(options), read_(lexer, options), depth_(depth) {}

  /// Parses one graph. `header` is its keyword, "graph" or "body".
  Result<Graph> run(std::string_view header) {
    LLMC_RETURN_IF_ERROR(lexer_.expect_word(header));
    LLMC_RETURN_IF_ERROR(lexer_.expect('@'));
    LLMC_TRY(graph_.name, read_.name());
    LLMC_RETURN_IF_ERROR(lexer_.expect('('));
    while (!lexer_.peek().is(')')) {
      if (!graph_.inputs().empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
      LLMC_TRY(const auto result, new_value());
      LLMC_RETURN_IF_ERROR(lexer_.expect(':'));
      LLMC_TRY(auto type, read_.type());
      fresh_.avoid(type);
      Value input{result.name, std::move(type)};
      LLMC_RETURN_IF_ERROR(read_.attributes(input));
      const ValueId id = graph_.add_input(std::move(input));
      LLMC_RETURN_IF_ERROR(bind(result, id));
    }
    LLMC_RETURN_IF_ERROR(lexer_.expect(')'));
    LLMC_RETURN_IF_ERROR(lexer_.expect('{'));
    while (!lexer_.peek().is_word("return")) LLMC_RETURN_IF_ERROR(node());
    LLMC_RETURN_IF_ERROR(lexer_.expect_word("return"));
    while (!lexer_.peek().is('}')) {
      if (!graph_.outputs().empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
      LLMC_TRY(const auto id, operand());
      if (!id.exists()) return lexer_.error("an output cannot be absent");
      graph_.add_output(id);
    }
    LLMC_RETURN_IF_ERROR(lexer_.expect('}'));
    return std::move(graph_);
  }

 private:
  struct NewValue {
    Token token;
    std::string key;   // "%name" or a number
    std::string name;  // empty for a numbered value
  };

  static std::string key_of(const Token& token) {
    return (token.kind == TokenKind::kValue ? "%" : "") + token.text;
  }

  Result<NewValue> new_value() {
    const auto kind = lexer_.peek().kind;
    if (kind != TokenKind::kValue && kind != TokenKind::kUnnamedValue)
      return lexer_.expected("a value such as %x");
    LLMC_TRY(auto token, lexer_.take());
    NewValue value{token, key_of(token), kind == TokenKind::kValue ? token.text : ""};
    return value;
  }

  Status bind(const NewValue& value, ValueId id) {
    if (!names_.emplace(value.key, id).second)
      return lexer_.error_at(value.token, "value %" + value.token.text + " is defined twice");
    return ok_status();
  }

  /// Parses one operand: %name, or _ if it is absent.
  Result<ValueId> operand() {
    if (lexer_.peek().is_word("_")) {
      LLMC_TRY([[maybe_unused]] auto token, lexer_.take());
      return kNoValue;
    }
    LLMC_TRY(const auto value, new_value());
    const auto found = names_.find(value.key);
    if (found == names_.end())
      return lexer_.error_at(value.token, "value %" + value.token.text + " is not defined above");
    return found->second;
  }

  static bool begins_operand(const Token& token) {
    return token.kind == TokenKind::kValue || token.kind == TokenKind::kUnnamedValue ||
           token.is_word("_");
  }

  /// Parses %a, %b = op operands {attributes} … : types @"file" "node".
  Status node() {
    std::vector<NewValue> results;
    do {
      if (!results.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
      LLMC_TRY(auto result, new_value());
      results.push_back(std::move(result));
    } while (lexer_.peek().is(','));
    LLMC_RETURN_IF_ERROR(lexer_.expect('='));
    if (lexer_.peek().kind != TokenKind::kName) return lexer_.expected("an operator");
    LLMC_TRY(const auto word, lexer_.take());
    auto op = make_op(word.text);
    if (!op) return lexer_.error_at(word, "no operator is called '" + word.text + "'");
    Node node{std::move(*op), {}, {}, {}};
    // A value that follows an operand without a comma begins the next line.
    for (bool more = begins_operand(lexer_.peek()); more;) {
      LLMC_TRY(const auto id, operand());
      node.inputs.push_back(id);
      LLMC_TRY(more, lexer_.take_if(','));
    }
    if (auto* constant = std::get_if<ConstantOp>(&node.op)) {
      LLMC_TRY(constant->data, read_.constant());
    } else {
      LLMC_RETURN_IF_ERROR(read_.attributes(node.op));
    }
    if (auto* loop = std::get_if<Loop>(&node.op)) LLMC_RETURN_IF_ERROR(loop_parts(*loop));
    LLMC_TRY(auto written, written_types(results.size()));
    LLMC_RETURN_IF_ERROR(origin(node.origin));
    return finish(std::move(node), word, results, std::move(written));
  }

  /// Parses the types after ':'. Returns none if they are omitted.
  Result<std::vector<TensorType>> written_types(std::size_t count) {
    std::vector<TensorType> types;
    LLMC_TRY(const bool written, lexer_.take_if(':'));
    if (!written) return types;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
      LLMC_TRY(auto type, read_.type());
      fresh_.avoid(type);
      types.push_back(std::move(type));
    }
    return types;
  }

  Status origin(Origin& out) {
    LLMC_TRY(const bool given, lexer_.take_if('@'));
    if (!given) return ok_status();
    LLMC_TRY(out.file, read_.string());
    LLMC_TRY(out.node, read_.string());
    return ok_status();
  }

  Status loop_parts(Loop& loop) {
    LLMC_RETURN_IF_ERROR(lexer_.expect_word("parameters"));
    LLMC_RETURN_IF_ERROR(lexer_.expect('['));
    while (!lexer_.peek().is(']')) {
      if (!loop.parameters.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
      LLMC_RETURN_IF_ERROR(lexer_.expect('['));
      auto& row = loop.parameters.emplace_back();
      auto& row_names = loop.parameter_names.emplace_back();
      while (!lexer_.peek().is(']')) {
        if (!row.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
        LLMC_TRY(auto name, read_.string());
        LLMC_TRY(auto data, read_.constant());
        row_names.push_back(std::move(name));
        row.push_back(std::move(data));
      }
      LLMC_RETURN_IF_ERROR(lexer_.expect(']'));
    }
    LLMC_RETURN_IF_ERROR(lexer_.expect(']'));
    if (depth_ >= kMaxLoopDepth) return lexer_.error("loops are nested too deeply");
    LLMC_TRY(auto body, GraphParser(lexer_, options_, depth_ + 1).run("body"));
    loop.body = std::make_shared<const Graph>(std::move(body));
    return ok_status();
  }

  /// Determines the types and appends the node.
  Status finish(Node node, const Token& word, const std::vector<NewValue>& results,
                std::vector<TensorType> written) {
    const bool is_constant = std::holds_alternative<ConstantOp>(node.op);
    const bool is_parameter = std::holds_alternative<Parameter>(node.op);
    std::vector<TensorType> types = std::move(written);
    if (is_parameter && types.empty())
      return lexer_.error_at(word, "the type of a parameter is missing");
    if ((options_.infer_types && !is_parameter) || is_constant) {
      auto inferred = infer(graph_, node, known_, fresh_);
      if (!inferred.ok())
        return lexer_.error_at(
            word, std::string(op_name(node.op)) + ": " + inferred.error().first().message);
      if (types.empty())
        types = std::move(*inferred);
      else if (inferred->size() != types.size())
        return wrong_count(word, inferred->size());
      else
        for (std::size_t i = 0; i < types.size(); ++i)
          if (!compatible(types[i], (*inferred)[i]))
            return lexer_.error_at(results[i].token, "%" + results[i].token.text + " is " +
                                                         to_string((*inferred)[i]) + ", not " +
                                                         to_string(types[i]));
    } else if (types.empty()) {
      return lexer_.error_at(word, "the types of the results are missing");
    }
    if (types.size() != results.size()) return wrong_count(word, types.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ValueId id = graph_.add_value({results[i].name, std::move(types[i])});
      LLMC_RETURN_IF_ERROR(bind(results[i], id));
      node.outputs.push_back(id);
    }
    graph_.add_node(std::move(node));
    known_.record(graph_, graph_.nodes().back());
    return ok_status();
  }

  Diagnostic wrong_count(const Token& word, std::size_t count) const {
    return lexer_.error_at(word, word.text + " has " + std::to_string(count) + " results");
  }

  Lexer& lexer_;
  const ParseOptions& options_;
  ValueReader read_;
  int depth_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> names_;
  ShapeValues known_;
  FreshSymbols fresh_;
};

}  // namespace

Result<Graph> parse(std::string_view text, const ParseOptions& options) {
  Lexer lexer(text, options.file);
  LLMC_RETURN_IF_ERROR(lexer.start());
  LLMC_TRY(auto graph, GraphParser(lexer, options, 0).run("graph"));
  if (lexer.peek().kind != TokenKind::kEnd) return lexer.expected("the end");
  return graph;
}

}  // namespace llmc::ir
