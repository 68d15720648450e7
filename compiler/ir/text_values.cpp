#include "compiler/ir/text_values.h"

#include <charconv>
#include <cmath>

namespace llmc::ir {
namespace {

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<std::uint64_t> ValueReader::unsigned_integer() {
  if (lexer_.peek().kind != TokenKind::kNumber) return lexer_.expected("a number");
  const auto value = parse_number<std::uint64_t>(lexer_.peek().text);
  if (!value) return lexer_.error("not a whole number of 64 bits");
  LLMC_TRY([[maybe_unused]] auto token, lexer_.take());
  return *value;
}

Result<std::int64_t> ValueReader::integer() {
  LLMC_TRY(const bool negative, lexer_.take_if('-'));
  if (lexer_.peek().kind != TokenKind::kNumber) return lexer_.expected("a whole number");
  const auto value = parse_number<std::int64_t>((negative ? "-" : "") + lexer_.peek().text);
  if (!value) return lexer_.error("not a whole number of 64 bits");
  LLMC_TRY([[maybe_unused]] auto token, lexer_.take());
  return *value;
}

Result<double> ValueReader::number() {
  LLMC_TRY(const bool negative, lexer_.take_if('-'));
  const Token& token = lexer_.peek();
  std::optional<double> value;
  if (token.kind == TokenKind::kNumber) value = parse_number<double>(token.text);
  if (token.is_word("nan")) value = std::nan("");
  if (token.is_word("inf")) value = INFINITY;
  if (!value) return lexer_.expected("a number");
  LLMC_TRY([[maybe_unused]] auto taken, lexer_.take());
  return negative ? -*value : *value;
}

Result<std::string> ValueReader::string() {
  if (lexer_.peek().kind != TokenKind::kString) return lexer_.expected("a string");
  LLMC_TRY(auto token, lexer_.take());
  return std::move(token.text);
}

Result<std::string> ValueReader::name() {
  const auto kind = lexer_.peek().kind;
  if (kind != TokenKind::kString && kind != TokenKind::kName) return lexer_.expected("a name");
  LLMC_TRY(auto token, lexer_.take());
  return std::move(token.text);
}

Result<Dim> ValueReader::dim() {
  Dim sum;
  LLMC_TRY(bool negative, lexer_.take_if('-'));
  while (true) {
    const Token first = lexer_.peek();
    Dim term;
    if (first.kind == TokenKind::kNumber) {
      const auto value = parse_number<std::int64_t>((negative ? "-" : "") + first.text);
      if (!value) return lexer_.error("not a whole number of 64 bits");
      LLMC_TRY([[maybe_unused]] auto token, lexer_.take());
      term = Dim(*value);
      LLMC_TRY(const bool times, lexer_.take_if('*'));
      if (times) {
        LLMC_TRY(auto symbol, name());
        if (symbol.empty()) return lexer_.error_at(first, "a symbol has no name");
        term = *mul(Dim(*value), Dim::symbol(std::move(symbol)));
      }
    } else {
      LLMC_TRY(auto symbol, name());
      if (symbol.empty()) return lexer_.error_at(first, "a symbol has no name");
      term = *mul(Dim(negative ? -1 : 1), Dim::symbol(std::move(symbol)));
    }
    const auto next = add(sum, term);
    if (!next) return lexer_.error_at(first, "the size does not fit 64 bits");
    sum = *next;
    if (!lexer_.peek().is('+') && !lexer_.peek().is('-')) return sum;
    LLMC_TRY(const auto sign, lexer_.take());
    negative = sign.is('-');
  }
}

Result<TensorType> ValueReader::type() {
  const auto element = lexer_.peek().kind == TokenKind::kName
                           ? parse_element_type(lexer_.peek().text)
                           : std::nullopt;
  if (!element) return lexer_.expected("an element type such as f32");
  LLMC_TRY([[maybe_unused]] auto token, lexer_.take());
  LLMC_RETURN_IF_ERROR(lexer_.expect('['));
  TensorType type{*element, {}};
  while (!lexer_.peek().is(']')) {
    if (!type.dims.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
    const Token at = lexer_.peek();
    LLMC_TRY(auto size, dim());
    if (size.is_constant() && *size.constant() < 0)
      return lexer_.error_at(at, "a size is negative");
    type.dims.push_back(std::move(size));
  }
  LLMC_RETURN_IF_ERROR(lexer_.expect(']'));
  return type;
}

Result<std::vector<std::int64_t>> ValueReader::integer_list() {
  std::vector<std::int64_t> list;
  LLMC_RETURN_IF_ERROR(lexer_.expect('['));
  while (!lexer_.peek().is(']')) {
    if (!list.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
    LLMC_TRY(const auto value, integer());
    list.push_back(value);
  }
  LLMC_RETURN_IF_ERROR(lexer_.expect(']'));
  return list;
}

// ---- Attributes ---------------------------------------------------------------------------------

Status ValueReader::read(std::int64_t& out) {
  LLMC_TRY(out, integer());
  return ok_status();
}

Status ValueReader::read(bool& out) {
  if (!lexer_.peek().is_word("true") && !lexer_.peek().is_word("false"))
    return lexer_.expected("true or false");
  LLMC_TRY(const auto token, lexer_.take());
  out = token.text == "true";
  return ok_status();
}

Status ValueReader::read(float& out) {
  const Token at = lexer_.peek();
  LLMC_TRY(const double value, number());
  out = static_cast<float>(value);
  if (std::isinf(out) && std::isfinite(value)) return lexer_.error_at(at, "too large for f32");
  return ok_status();
}

Status ValueReader::read(std::vector<std::int64_t>& out) {
  LLMC_TRY(out, integer_list());
  return ok_status();
}

Status ValueReader::read(ConstantPtr& out) {
  LLMC_TRY(out, constant());
  return ok_status();
}

Status ValueReader::read(std::optional<float>& out) {
  float value = 0;
  LLMC_RETURN_IF_ERROR(read(value));
  out = value;
  return ok_status();
}

Status ValueReader::read(std::optional<Rope>& out) {
  Rope rope;
  LLMC_RETURN_IF_ERROR(struct_attributes(rope));
  out = rope;
  return ok_status();
}

template <class E>
  requires std::is_enum_v<E>
Status ValueReader::read(E& out) {
  const auto& names = EnumInfo<E>::names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!lexer_.peek().is_word(names[i])) continue;
    out = static_cast<E>(i);
    LLMC_TRY([[maybe_unused]] auto token, lexer_.take());
    return ok_status();
  }
  std::string choices;
  for (const auto choice : names) choices += (choices.empty() ? "" : ", ") + std::string(choice);
  return lexer_.expected("one of " + choices);
}

template <class T>
Status ValueReader::struct_attributes(T& op) {
  LLMC_RETURN_IF_ERROR(lexer_.expect('{'));
  std::vector<std::string> seen;
  while (!lexer_.peek().is('}')) {
    if (!seen.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
    if (lexer_.peek().kind != TokenKind::kName) return lexer_.expected("an attribute name");
    LLMC_TRY(const auto word, lexer_.take());
    if (std::find(seen.begin(), seen.end(), word.text) != seen.end())
      return lexer_.error_at(word, "attribute '" + word.text + "' is given twice");
    LLMC_RETURN_IF_ERROR(lexer_.expect('='));
    Status status = lexer_.error_at(word, "no attribute is called '" + word.text + "'");
    for_each_field<T>([&](const auto& f) {
      if (f.name == word.text) status = read(op.*f.member);
    });
    LLMC_RETURN_IF_ERROR(std::move(status));
    seen.push_back(word.text);
  }
  return lexer_.expect('}');
}

Status ValueReader::attributes(Op& op) {
  if (!lexer_.peek().is('{')) return ok_status();
  return std::visit([&](auto& o) { return struct_attributes(o); }, op);
}

Status ValueReader::attributes(Value& input) {
  return lexer_.peek().is('{') ? struct_attributes(input) : ok_status();
}

}  // namespace llmc::ir
