#include "compiler/reference/tensor.h"

#include <cstring>

#include "compiler/ir/constant_data.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/half.h"

namespace llmc::reference {

using ir::ElementType;

std::int64_t Tensor::count() const {
  return with_data(element,
                   [&](auto data) { return static_cast<std::int64_t>((this->*data).size()); });
}

Tensor f32_tensor(std::vector<std::int64_t> dims, std::vector<float> values) {
  LLMC_CHECK(checked_product(dims) == static_cast<std::int64_t>(values.size()));
  return {ElementType::kF32, std::move(dims), std::move(values), {}};
}

Tensor i64_tensor(std::vector<std::int64_t> dims, std::vector<std::int64_t> values) {
  LLMC_CHECK(checked_product(dims) == static_cast<std::int64_t>(values.size()));
  return {ElementType::kI64, std::move(dims), {}, std::move(values)};
}

Tensor zeros(ElementType element, std::vector<std::int64_t> dims) {
  const auto count = checked_product(dims);
  LLMC_CHECK(count.has_value());
  Tensor out{element, std::move(dims), {}, {}};
  with_data(element, [&](auto data) { (out.*data).resize(static_cast<std::size_t>(*count)); });
  return out;
}

Tensor to_tensor(const ir::Constant& constant) {
  Tensor out = zeros(constant.element(), constant.dims());
  const bool is_f64 = out.element == ElementType::kF64;
  if (out.is_float() && !is_f64 && (out.rank() == 1 || out.rank() == 2)) {
    const std::int64_t rows = out.rank() == 2 ? out.dims[0] : 1;
    constant.read_rows(0, rows, out.floats);
    return out;
  }
  const auto bytes = constant.bytes();
  if (is_f64) {
    if (!bytes.empty()) std::memcpy(out.doubles.data(), bytes.data(), bytes.size());
  } else if (out.is_float()) {
    ir::convert_to_floats(constant.element(), bytes, out.floats);
  } else {
    const std::size_t size = ir::element_bytes(constant.element());
    for (std::size_t i = 0; i < out.integers.size(); ++i)
      out.integers[i] = ir::element_to_integer(constant.element(), bytes.data() + i * size);
  }
  return out;
}

ir::ConstantPtr to_constant(const Tensor& tensor) {
  const std::size_t size = ir::element_bytes(tensor.element);
  const auto count = static_cast<std::size_t>(tensor.count());
  std::vector<std::byte> bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor.element == ElementType::kF64) {
      std::memcpy(bytes.data() + i * size, &tensor.doubles[i], size);
    } else if (tensor.is_float()) {
      const auto element = ir::element_from_double(tensor.element, tensor.floats[i]);
      std::memcpy(bytes.data() + i * size, element.data(), size);
    } else {
      // In little-endian two's complement, the low bytes are the narrow integer.
      std::memcpy(bytes.data() + i * size, &tensor.integers[i], size);
    }
  }
  return ir::make_constant(tensor.element, tensor.dims, std::move(bytes));
}

void round_to_element(Tensor& tensor) {
  const auto wrap = [&]<class T>(T) {
    for (auto& x : tensor.integers) x = static_cast<T>(x);
  };
  switch (tensor.element) {
    case ElementType::kF16:
      for (float& x : tensor.floats) x = f16_to_f32(f32_to_f16(x));
      break;
    case ElementType::kBF16:
      for (float& x : tensor.floats) x = bf16_to_f32(f32_to_bf16(x));
      break;
    case ElementType::kBool:
      for (auto& x : tensor.integers) x = x != 0;
      break;
    case ElementType::kI8:
      return wrap(std::int8_t{});
    case ElementType::kU8:
      return wrap(std::uint8_t{});
    case ElementType::kI16:
      return wrap(std::int16_t{});
    case ElementType::kU16:
      return wrap(std::uint16_t{});
    case ElementType::kI32:
      return wrap(std::int32_t{});
    case ElementType::kU32:
      return wrap(std::uint32_t{});
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kI64:
    case ElementType::kU64:
      break;
  }
}

std::string type_text(const Tensor& tensor) {
  return ir::to_string(ir::TensorType{tensor.element, {tensor.dims.begin(), tensor.dims.end()}});
}

}  // namespace llmc::reference
