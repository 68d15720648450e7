#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/op_info.h"
#include "compiler/ir/text.h"
#include "compiler/ir/text_lexer.h"

/// Parsing of numbers, types, data and attributes in IR text.
namespace llmc::ir {

/// Reads values from `lexer`, which must outlive it, as must `options`. All functions fail with
/// kBadInput if the text is malformed.
class ValueReader {
 public:
  ValueReader(Lexer& lexer, const ParseOptions& options) : lexer_(lexer), options_(options) {}

  Result<std::int64_t> integer();
  Result<std::uint64_t> unsigned_integer();
  /// Parses a decimal, nan or inf, with an optional minus sign.
  Result<double> number();
  Result<std::string> string();
  /// Parses name or "name".
  Result<std::string> name();
  Result<Dim> dim();
  /// Parses a type, such as f32[1, seq].
  Result<TensorType> type();
  /// Parses a constant: a type with constant dims, then data, such as f32[2] {1, 2}.
  Result<ConstantPtr> constant();
  /// Parse {name = value, …}, if present, into `op` or the attributes of a graph input.
  Status attributes(Op& op);
  Status attributes(Value& input);

 private:
  Result<ConstantPtr> data(ElementType element, std::vector<std::int64_t> dims);
  Result<ConstantPtr> element_list(ElementType element, std::vector<std::int64_t> dims);
  Result<std::vector<std::byte>> element(ElementType type);
  Result<ConstantPtr> packed(const Token& word, std::vector<std::int64_t> dims);
  Result<ConstantPtr> quantized(const Token& word);
  Result<ConstantPtr> view(const Token& word, ElementType element,
                           const std::vector<std::int64_t>& dims);
  Result<std::vector<std::int64_t>> integer_list();
  template <class T>
  Status struct_attributes(T& op);

  Status read(std::int64_t& out);
  Status read(bool& out);
  Status read(float& out);
  Status read(std::vector<std::int64_t>& out);
  Status read(ConstantPtr& out);
  Status read(std::optional<float>& out);
  Status read(std::optional<Rope>& out);
  template <class E>
    requires std::is_enum_v<E>
  Status read(E& out);

  Lexer& lexer_;
  const ParseOptions& options_;
  int depth_ = 0;  // nesting depth of data expressions
};

}  // namespace llmc::ir
