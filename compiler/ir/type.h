#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/dim.h"

namespace llmc::ir {

enum class ElementType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool
};

/// Returns the size of one element in bytes.
std::size_t element_bytes(ElementType type);
bool is_float(ElementType type);
bool is_integer(ElementType type);  // bool is not an integer
/// Returns "f32", "i64", "bool", …
std::string_view to_string(ElementType type);
/// Returns nullopt if `text` is not one of these names.
std::optional<ElementType> parse_element_type(std::string_view text);

/// Element type and shape of a value. A scalar (rank 0) has empty `dims`.
struct TensorType {
  ElementType element = ElementType::kF32;
  std::vector<Dim> dims;

  std::size_t rank() const { return dims.size(); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Returns, for example, "f32[1, seq, 64]".
std::string to_string(const TensorType& type);
/// Returns the product of the dims; nullopt if one is symbolic or negative, or if the product
/// exceeds 63 bits.
std::optional<std::int64_t> element_count(const TensorType& type);

}  // namespace llmc::ir
