#include "compiler/onnx/tensor.h"

#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "compiler/ir/constant_pages.h"
#include "compiler/onnx/graph_order.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/parse_number.h"

namespace llmc::importer {
namespace {

using ir::ElementType;
using onnx::TensorProto;

constexpr std::uint64_t kOwnedBytes = 128;

/// A tensor under conversion.
struct Context {
  const OnnxFile& file;
  const TensorProto& tensor;
  const std::string& name;
  ElementType element;
  std::vector<std::int64_t> dims;
  std::int64_t count = 0;
  std::uint64_t size_bytes = 0;
  bool packed = false;  // 4-bit elements, read as bytes that contain two each

  Diagnostic bad(std::string message, std::string hint = {}) const {
    return bad_node(file, name, std::move(message), std::move(hint));
  }
  std::string shape_text() const {
    std::string text = "[";
    for (std::size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "] of " + std::string(ir::to_string(element));
  }
};

/// Checks that bools are stored as 0 or 1.
Status check_bools(const Context& c, std::span<const std::byte> bytes) {
  if (c.element != ElementType::kBool) return ok_status();
  for (const std::byte b : bytes)
    if (std::to_integer<int>(b) > 1) return c.bad("a bool tensor holds a byte other than 0 and 1");
  return ok_status();
}

Result<ir::ConstantPtr> window_constant(const Context& c, std::shared_ptr<const MappedFile> owner,
                                        std::uint64_t offset) {
  const auto window = owner->bytes().subspan(offset, c.size_bytes);
  LLMC_RETURN_IF_ERROR(check_bools(c, window));
  // Small tensors are copied, because the IR's text shows the values of owned constants.
  if (c.size_bytes <= kOwnedBytes)
    return ir::make_constant(c.element, c.dims, {window.begin(), window.end()});
  return ir::make_mapped_file(c.element, c.dims, std::move(owner), window, c.name);
}

Result<std::uint64_t> external_number(const Context& c, const std::string& key,
                                      const std::string& text) {
  if (const auto value = parse_number<std::uint64_t>(text)) return *value;
  return c.bad("external data: " + key + " '" + printable(text, 40) + "' is not a number");
}

Result<ir::ConstantPtr> external_constant(FileSet& files, const Context& c) {
  std::string location;
  std::uint64_t offset = 0, length = c.size_bytes;
  std::set<std::string_view> keys;
  for (const auto& entry : c.tensor.external_data()) {
    if (!keys.insert(entry.key()).second)
      return c.bad("external data: '" + printable(entry.key(), 40) + "' is given twice");
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      LLMC_TRY(offset, external_number(c, entry.key(), entry.value()));
    }
    if (entry.key() == "length") {
      LLMC_TRY(length, external_number(c, entry.key(), entry.value()));
    }
  }
  if (location.empty()) return c.bad("external data without a location");
  auto mapped = files.map(location, FileRole::kExternalData);
  if (!mapped.ok()) {
    const Diagnostic& why = mapped.error().first();
    return c.bad("external data '" + printable(location) + "': " + why.message,
                 "the file belongs in the folder of the model's file; copy it there");
  }
  if (length != c.size_bytes)
    return c.bad("external data has length " + std::to_string(length) + ", but " + c.shape_text() +
                 " takes " + std::to_string(c.size_bytes) + " bytes");
  const std::uint64_t available = (*mapped)->bytes().size();
  if (offset > available || length > available - offset)
    return c.bad("external data lies past the end of '" + printable(location) + "' (offset " +
                     std::to_string(offset) + " + " + std::to_string(length) + " of " +
                     std::to_string(available) + " bytes)",
                 "the data file may be truncated; copy it again");
  return window_constant(c, *mapped, offset);
}

Diagnostic wrong_count(const Context& c, std::uint64_t have) {
  return c.bad("holds " + std::to_string(have) + " elements, but its shape " + c.shape_text() +
                   " has " + std::to_string(c.count),
               "the file may be truncated or damaged; export it again");
}

/// Returns the number of elements in the typed fields.
std::uint64_t typed_elements(const TensorProto& t) {
  return static_cast<std::uint64_t>(t.float_data_size()) + t.int32_data_size() +
         t.int64_data_size() + t.double_data_size() + t.uint64_data_size() + t.string_data_size();
}

/// Returns the elements of a typed field stored as T. Fails if an integer is out of range.
template <class T, class Field>
Result<ir::ConstantPtr> typed_constant(const Context& c, const Field& field) {
  if (static_cast<std::uint64_t>(field.size()) != typed_elements(c.tensor))
    return c.bad("has data in a field of another element type than " +
                 std::string(ir::to_string(c.element)));
  if (static_cast<std::uint64_t>(field.size()) != static_cast<std::uint64_t>(c.count))
    return wrong_count(c, static_cast<std::uint64_t>(field.size()));
  std::vector<std::byte> bytes(c.size_bytes);
  std::size_t at = 0;
  for (const auto value : field) {
    if constexpr (std::is_integral_v<T>) {
      // Some writers sign-extend a byte that contains two 4-bit elements.
      const bool sign_extended =
          c.packed && std::cmp_greater_equal(value, -128) && std::cmp_less(value, 0);
      if (!std::in_range<T>(value) && !sign_extended)
        return c.bad("holds the value " + std::to_string(value) + ", which its element type " +
                     std::string(ir::to_string(c.element)) + " cannot hold");
    }
    const T element = static_cast<T>(value);
    std::memcpy(bytes.data() + at, &element, sizeof element);
    at += sizeof element;
  }
  LLMC_RETURN_IF_ERROR(check_bools(c, bytes));
  return ir::make_constant(c.element, c.dims, std::move(bytes));
}

Result<ir::ConstantPtr> typed_constant(const Context& c) {
  const TensorProto& t = c.tensor;
  switch (c.element) {
    case ElementType::kF32:
      return typed_constant<float>(c, t.float_data());
    case ElementType::kF64:
      return typed_constant<double>(c, t.double_data());
    case ElementType::kI64:
      return typed_constant<std::int64_t>(c, t.int64_data());
    case ElementType::kU64:
      return typed_constant<std::uint64_t>(c, t.uint64_data());
    case ElementType::kU32:
      return typed_constant<std::uint32_t>(c, t.uint64_data());
    case ElementType::kI32:
      return typed_constant<std::int32_t>(c, t.int32_data());
    case ElementType::kI16:
      return typed_constant<std::int16_t>(c, t.int32_data());
    case ElementType::kI8:
      return typed_constant<std::int8_t>(c, t.int32_data());
    case ElementType::kU8:
    case ElementType::kBool:
      return typed_constant<std::uint8_t>(c, t.int32_data());
    case ElementType::kU16:
    case ElementType::kF16:   // the bits, zero-extended
    case ElementType::kBF16:  // likewise
      return typed_constant<std::uint16_t>(c, t.int32_data());
  }
  return c.bad("has an unknown element type");
}

/// Returns the tensor's data: typed, raw or external.
Result<ir::ConstantPtr> read_data(FileSet& files, const Context& c) {
  const TensorProto& tensor = c.tensor;
  if (tensor.has_segment()) return c.bad("is stored in segments, which is not supported");
  const bool external =
      tensor.has_data_location() && tensor.data_location() == TensorProto::EXTERNAL;
  if (external + tensor.has_raw_data() + (typed_elements(tensor) > 0) > 1)
    return c.bad("has its data in more than one field");
  if (external) return external_constant(files, c);
  if (tensor.has_raw_data()) {
    const auto window = decode_window(tensor.raw_data());
    const std::uint64_t available = c.file.mapped->bytes().size();
    if (!window || window->offset > available || window->size_bytes > available - window->offset)
      return c.bad("has raw data in a field where ONNX does not allow it");
    if (window->size_bytes != c.size_bytes)
      return c.bad("holds " + std::to_string(window->size_bytes) +
                       " bytes of data, but its shape " + c.shape_text() + " takes " +
                       std::to_string(c.size_bytes),
                   "the file may be truncated or damaged; export it again");
    return window_constant(c, c.file.mapped, window->offset);
  }
  return typed_constant(c);
}

}  // namespace

std::optional<ElementType> element_type(int data_type) {
  switch (data_type) {
    case TensorProto::FLOAT:
      return ElementType::kF32;
    case TensorProto::FLOAT16:
      return ElementType::kF16;
    case TensorProto::BFLOAT16:
      return ElementType::kBF16;
    case TensorProto::DOUBLE:
      return ElementType::kF64;
    case TensorProto::INT8:
      return ElementType::kI8;
    case TensorProto::UINT8:
      return ElementType::kU8;
    case TensorProto::INT16:
      return ElementType::kI16;
    case TensorProto::UINT16:
      return ElementType::kU16;
    case TensorProto::INT32:
      return ElementType::kI32;
    case TensorProto::UINT32:
      return ElementType::kU32;
    case TensorProto::INT64:
      return ElementType::kI64;
    case TensorProto::UINT64:
      return ElementType::kU64;
    case TensorProto::BOOL:
      return ElementType::kBool;
    default:
      return std::nullopt;
  }
}

std::string data_type_name(int data_type) {
  // Older ONNX libraries do not define the numbers from 17 on.
  static constexpr const char* kNames[] = {
      "undefined",      "float",    "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "double",   "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
      "uint2",          "int2"};
  if (data_type < 0 || data_type >= static_cast<int>(std::size(kNames)))
    return "number " + std::to_string(data_type);
  return kNames[data_type];
}

Result<ir::ConstantPtr> read_tensor(FileSet& files, const OnnxFile& file, const TensorProto& tensor,
                                    const std::string& name) {
  Context c{file, tensor, name, ElementType::kF32, {}};
  c.packed = tensor.data_type() == kUint4 || tensor.data_type() == kInt4;
  const auto element =
      c.packed ? std::optional(ElementType::kU8) : element_type(tensor.data_type());
  if (!element) {
    Diagnostic d = c.bad("tensors with elements of type " + data_type_name(tensor.data_type()) +
                         " are not supported");
    const bool known = tensor.data_type() > 0 && tensor.data_type() < 64;
    if (known) d.kind = ErrorKind::kUnsupported;
    return d;
  }
  c.element = *element;
  if (tensor.dims_size() > kMaxRank)
    return c.bad("has rank " + std::to_string(tensor.dims_size()) + ", more than the maximum of " +
                 std::to_string(kMaxRank));
  c.dims.assign(tensor.dims().begin(), tensor.dims().end());
  for (const auto dim : c.dims)
    if (dim < 0) return c.bad("has the negative dim " + std::to_string(dim));
  const auto count = checked_product(c.dims);
  const auto size =
      count ? checked_mul(*count, static_cast<std::int64_t>(ir::element_bytes(c.element)))
            : std::nullopt;
  if (!size) return c.bad("has more elements than can be addressed: " + c.shape_text());
  c.count = *count;
  c.size_bytes = static_cast<std::uint64_t>(*size);

  if (!c.packed) return read_data(files, c);
  // Two elements per byte, the first in the low bits, rows not padded. The constant is a view of
  // the bytes.
  const std::vector<std::int64_t> dims = std::exchange(c.dims, {c.count / 2 + c.count % 2});
  c.count = c.dims[0];
  c.size_bytes = static_cast<std::uint64_t>(c.count);
  LLMC_TRY(auto bytes, read_data(files, c));
  const bool is_signed = tensor.data_type() == kInt4;
  return ir::make_packed(
      std::move(bytes), {4, is_signed ? ir::PackedCode::kSigned : ir::PackedCode::kUnsigned}, dims);
}

}  // namespace llmc::importer
