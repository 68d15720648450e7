#include "compiler/ir/type.h"

#include <array>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace llmc::ir {
namespace {

struct ElementInfo {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<ElementInfo, 13> kElements{{{ElementType::kF32, "f32", 4},
                                                 {ElementType::kF16, "f16", 2},
                                                 {ElementType::kBF16, "bf16", 2},
                                                 {ElementType::kF64, "f64", 8},
                                                 {ElementType::kI8, "i8", 1},
                                                 {ElementType::kU8, "u8", 1},
                                                 {ElementType::kI16, "i16", 2},
                                                 {ElementType::kU16, "u16", 2},
                                                 {ElementType::kI32, "i32", 4},
                                                 {ElementType::kU32, "u32", 4},
                                                 {ElementType::kI64, "i64", 8},
                                                 {ElementType::kU64, "u64", 8},
                                                 {ElementType::kBool, "bool", 1}}};

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < kElements.size(); ++i)
    if (static_cast<std::size_t>(kElements[i].type) != i) return false;
  return true;
}
static_assert(in_enum_order());

const ElementInfo& info(ElementType type) {
  const auto index = static_cast<std::size_t>(type);
  LLMC_CHECK(index < kElements.size());
  return kElements[index];
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  return info(type).bytes;
}

bool is_float(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16 ||
         type == ElementType::kF64;
}

bool is_integer(ElementType type) {
  return !is_float(type) && type != ElementType::kBool;
}

std::string_view to_string(ElementType type) {
  return info(type).name;
}

std::optional<ElementType> parse_element_type(std::string_view text) {
  for (const auto& element : kElements)
    if (element.name == text) return element.type;
  return std::nullopt;
}

std::string to_string(const TensorType& type) {
  std::string out(to_string(type.element));
  out += "[";
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) out += ", ";
    out += type.dims[i].to_string();
  }
  return out + "]";
}

std::optional<std::int64_t> element_count(const TensorType& type) {
  const auto dims = as_numbers(type.dims);
  return dims ? checked_product(*dims) : std::nullopt;
}

}  // namespace llmc::ir
