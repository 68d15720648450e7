#include "compiler/ir/constant.h"
#include "compiler/ir/constant_data.h"
#include "compiler/ir/hadamard.h"
#include "compiler/ir/text_values.h"

/// Constants in text form.
namespace llmc::ir {
namespace {

/// Maximum nesting depth of views, because parsing is recursive. Real graphs nest far less.
constexpr int kMaxDepth = 32;

}  // namespace

Result<ConstantPtr> ValueReader::constant() {
  const Token at = lexer_.peek();
  LLMC_TRY(const auto constant_type, type());
  std::vector<std::int64_t> dims;
  for (const Dim& size : constant_type.dims) {
    if (!size.is_constant()) return lexer_.error_at(at, "data cannot have a symbolic size");
    dims.push_back(*size.constant());
  }
  if (!checked_byte_count(constant_type.element, dims))
    return lexer_.error_at(at, "the data's size does not fit 64 bits");
  return data(constant_type.element, std::move(dims));
}

Result<ConstantPtr> ValueReader::data(ElementType element, std::vector<std::int64_t> dims) {
  if (lexer_.peek().is('{')) return element_list(element, std::move(dims));
  if (lexer_.peek().kind != TokenKind::kName) return lexer_.expected("data");
  LLMC_TRY(const auto word, lexer_.take());
  if (word.text == "mapped") {
    LLMC_TRY(const auto mapped_name, string());
    auto found = options_.resolve ? options_.resolve(element, dims, mapped_name) : nullptr;
    if (!found) return lexer_.error_at(word, "the data of '" + mapped_name + "' is not available");
    if (found->element() != element || found->dims() != dims)
      return lexer_.error_at(word, "'" + mapped_name + "' has another type");
    return found;
  }
  LLMC_RETURN_IF_ERROR(lexer_.expect('('));
  const std::vector<std::int64_t> wanted = dims;
  ConstantPtr result;
  if (word.text == "splat") {
    LLMC_TRY(const auto bytes, this->element(element));
    result = make_splat(element, std::move(dims), element_to_double(element, bytes.data()));
  } else if (word.text == "random") {
    if (element != ElementType::kF32) return lexer_.error_at(word, "random data is f32");
    LLMC_TRY(const auto seed, unsigned_integer());
    LLMC_RETURN_IF_ERROR(lexer_.expect(','));
    LLMC_TRY(const auto scale, number());
    result = make_random(std::move(dims), seed, scale);
  } else if (word.text == "packed" || word.text == "quantized" || word.text == "reshaped" ||
             word.text == "scaled" || word.text == "hadamard" || word.text == "floats") {
    if (depth_ >= kMaxDepth) return lexer_.error_at(word, "data is nested too deeply");
    ++depth_;
    if (word.text == "packed") {
      LLMC_TRY(result, packed(word, std::move(dims)));
    } else if (word.text == "reshaped") {
      LLMC_TRY(auto source, constant());
      if (checked_byte_count(source->element(), dims) != source->byte_count())
        return lexer_.error_at(word, "the source has another number of elements");
      result = reshaped(std::move(source), std::move(dims));
    } else if (word.text == "scaled") {
      LLMC_TRY(auto source, constant());
      if (source->dims().size() != 2) return lexer_.error_at(word, "only matrices can be scaled");
      LLMC_RETURN_IF_ERROR(lexer_.expect(','));
      LLMC_TRY(const auto factor, number());
      result = scaled(std::move(source), static_cast<float>(factor));
    } else if (word.text == "floats") {
      LLMC_TRY(auto source, constant());
      if (source->dims().size() != 2) return lexer_.error_at(word, "only matrices have codes");
      result = as_floats(std::move(source));
    } else if (word.text == "hadamard") {
      LLMC_TRY(auto source, constant());
      if (source->dims().size() != 2 || !is_float(source->element()))
        return lexer_.error_at(word, "only matrices of floats can be transformed");
      LLMC_RETURN_IF_ERROR(lexer_.expect(','));
      LLMC_TRY(const auto superblock, integer());
      if (superblock < 1) return lexer_.error_at(word, "a superblock has no columns");
      result = hadamard_weight(std::move(source), superblock);
    } else {
      LLMC_TRY(result, quantized(word));
    }
    --depth_;
  } else {
    if (depth_ >= kMaxDepth) return lexer_.error_at(word, "data is nested too deeply");
    ++depth_;
    LLMC_TRY(result, view(word, element, dims));
    --depth_;
  }
  if (result->element() != element || result->dims() != wanted)
    return lexer_.error_at(word, "the data has another type than the one written");
  LLMC_RETURN_IF_ERROR(lexer_.expect(')'));
  return result;
}

Result<ConstantPtr> ValueReader::packed(const Token& word, std::vector<std::int64_t> dims) {
  LLMC_TRY(auto source, constant());
  LLMC_RETURN_IF_ERROR(lexer_.expect(','));
  LLMC_TRY(const auto bits, integer());
  LLMC_RETURN_IF_ERROR(lexer_.expect(','));
  PackedForm form{bits == 4 || bits == 8 ? static_cast<int>(bits) : 0};
  if (lexer_.peek().is_word("signed")) form.code = PackedCode::kSigned;
  if (lexer_.peek().is_word("offset")) form.code = PackedCode::kOffset;
  if (form.code == PackedCode::kUnsigned && !lexer_.peek().is_word("unsigned"))
    return lexer_.expected("unsigned, signed or offset");
  LLMC_TRY([[maybe_unused]] auto code, lexer_.take());
  LLMC_RETURN_IF_ERROR(lexer_.expect(','));
  LLMC_TRY(form.row_stride, integer());
  const auto bytes = packed_bytes(form, dims);
  if (!bytes || element_bytes(source->element()) != 1 || *bytes > source->element_count())
    return lexer_.error_at(word, "the packed elements do not fit their source");
  return make_packed(std::move(source), form, std::move(dims));
}

Result<ConstantPtr> ValueReader::quantized(const Token& word) {
  QuantizedParts parts;
  LLMC_TRY(parts.codes, constant());
  LLMC_RETURN_IF_ERROR(lexer_.expect(','));
  LLMC_TRY(parts.scales, constant());
  LLMC_RETURN_IF_ERROR(lexer_.expect(','));
  if (lexer_.peek().is_word("_")) {
    LLMC_TRY([[maybe_unused]] auto none, lexer_.take());
  } else {
    LLMC_TRY(parts.zero_points, constant());
  }
  LLMC_RETURN_IF_ERROR(lexer_.expect(','));
  LLMC_TRY(const auto blocks, integer_list());
  if (blocks.size() != 2) return lexer_.error_at(word, "a block has two sides");
  parts.row_block = blocks[0];
  parts.column_block = blocks[1];
  if (!is_quantized_matrix(parts))
    return lexer_.error_at(word, "codes, scales and zero points do not fit each other");
  return make_quantized(std::move(parts));
}

Result<ConstantPtr> ValueReader::view(const Token& word, ElementType element,
                                      const std::vector<std::int64_t>& dims) {
  if (dims.size() != 2) return lexer_.error_at(word, "only matrices can be rearranged");
  if (word.text != "transposed" && word.text != "concat" && word.text != "rows")
    return lexer_.error_at(word, "unknown kind of data '" + word.text + "'");
  std::vector<ConstantPtr> sources;
  do {
    if (!sources.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
    const Token at = lexer_.peek();
    LLMC_TRY(auto source, constant());
    if (source->dims().size() != 2 || source->element() != element)
      return lexer_.error_at(at, "a source is not a matrix of the same element type");
    sources.push_back(std::move(source));
  } while (word.text == "concat" && lexer_.peek().is(','));
  if (word.text == "transposed") return transposed(std::move(sources[0]));
  if (word.text == "concat") {
    std::int64_t rows = 0;
    for (const auto& source : sources)
      if (source->dims()[1] != dims[1] || __builtin_add_overflow(rows, source->dims()[0], &rows))
        return lexer_.error_at(word, "the sources do not fit on top of each other");
    return concat_rows(std::move(sources));
  }
  LLMC_RETURN_IF_ERROR(lexer_.expect(','));
  LLMC_TRY(auto order, integer_list());
  for (const std::int64_t row : order)
    if (row < -1 || row >= sources[0]->dims()[0])
      return lexer_.error_at(word, "the source has no row " + std::to_string(row));
  return reorder_rows(std::move(sources[0]), std::move(order));
}

Result<std::vector<std::byte>> ValueReader::element(ElementType type) {
  const Token at = lexer_.peek();
  if (type == ElementType::kBool) {
    bool value = false;
    LLMC_RETURN_IF_ERROR(read(value));
    return *element_from_integer(type, value ? 1 : 0);
  }
  if (is_float(type)) {
    LLMC_TRY(const double value, number());
    return element_from_double(type, value);
  }
  if (type == ElementType::kU64) {
    LLMC_TRY(const auto value, unsigned_integer());
    std::vector<std::byte> bytes(sizeof value);
    for (std::size_t i = 0; i < sizeof value; ++i)
      bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
    return bytes;
  }
  LLMC_TRY(const std::int64_t value, integer());
  auto bytes = element_from_integer(type, value);
  if (!bytes)
    return lexer_.error_at(at,
                           std::to_string(value) + " does not fit " + std::string(to_string(type)));
  return std::move(*bytes);
}

Result<ConstantPtr> ValueReader::element_list(ElementType type, std::vector<std::int64_t> dims) {
  const Token at = lexer_.peek();
  LLMC_RETURN_IF_ERROR(lexer_.expect('{'));
  const std::size_t wanted = *checked_byte_count(type, dims);
  std::vector<std::byte> bytes;
  while (!lexer_.peek().is('}')) {
    if (!bytes.empty()) LLMC_RETURN_IF_ERROR(lexer_.expect(','));
    LLMC_TRY(const auto one, element(type));
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  LLMC_RETURN_IF_ERROR(lexer_.expect('}'));
  if (bytes.size() != wanted)
    return lexer_.error_at(at, "has " + std::to_string(bytes.size() / element_bytes(type)) +
                                   " elements, not " +
                                   std::to_string(wanted / element_bytes(type)));
  return make_constant(type, std::move(dims), std::move(bytes));
}

}  // namespace llmc::ir
