#include "compiler/ir/constant_data.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/support/check.h"
#include "compiler/support/half.h"

static_assert(std::endian::native == std::endian::little, "constants are little endian");

namespace llmc::ir {
namespace {

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

template <class T>
std::vector<std::byte> store(T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Calls f(T{}) with the C++ type of an integer element type; bool is u8.
template <class F>
auto with_integer(ElementType element, F&& f) {
  switch (element) {
    case ElementType::kI8:
      return f(std::int8_t{});
    case ElementType::kI16:
      return f(std::int16_t{});
    case ElementType::kU16:
      return f(std::uint16_t{});
    case ElementType::kI32:
      return f(std::int32_t{});
    case ElementType::kU32:
      return f(std::uint32_t{});
    case ElementType::kI64:
      return f(std::int64_t{});
    case ElementType::kU64:
      return f(std::uint64_t{});
    default:
      LLMC_CHECK(element == ElementType::kU8 || element == ElementType::kBool);
      return f(std::uint8_t{});
  }
}

/// Converts f64 or integers to float with a single rounding.
float element_to_float(ElementType element, const std::byte* data) {
  if (element == ElementType::kF64) return static_cast<float>(load<double>(data));
  if (element == ElementType::kBool) return load<std::uint8_t>(data) != 0 ? 1.0f : 0.0f;
  return with_integer(element,
                      [&](auto zero) { return static_cast<float>(load<decltype(zero)>(data)); });
}

}  // namespace

std::int64_t matrix_columns(const Constant& constant) {
  LLMC_CHECK(constant.dims().size() == 1 || constant.dims().size() == 2);
  return constant.dims().back();
}

std::int64_t matrix_rows(const Constant& constant) {
  LLMC_CHECK(constant.dims().size() == 1 || constant.dims().size() == 2);
  return constant.dims().size() == 1 ? 1 : constant.dims().front();
}

std::int64_t check_block(const Constant& constant, std::int64_t row, std::int64_t rows,
                         std::int64_t column, std::int64_t columns, std::size_t out_size) {
  const std::int64_t width = matrix_columns(constant);
  LLMC_CHECK(row >= 0 && rows >= 0 && rows <= matrix_rows(constant) - row);
  LLMC_CHECK(column >= 0 && columns >= 0 && columns <= width - column);
  LLMC_CHECK(out_size >= static_cast<std::size_t>(rows * columns));
  return width;
}

void convert_to_floats(ElementType element, std::span<const std::byte> data, std::span<float> out) {
  const std::size_t size = element_bytes(element);
  LLMC_CHECK(data.size() / size >= out.size());
  if (out.empty()) return;
  if (element == ElementType::kF32) {
    std::memcpy(out.data(), data.data(), out.size() * sizeof(float));
  } else if (element == ElementType::kF16) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = f16_to_f32(load<std::uint16_t>(data.data() + 2 * i));
  } else if (element == ElementType::kBF16) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = bf16_to_f32(load<std::uint16_t>(data.data() + 2 * i));
  } else {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = element_to_float(element, data.data() + i * size);
  }
}

double element_to_double(ElementType element, const std::byte* data) {
  switch (element) {
    case ElementType::kF32:
      return load<float>(data);
    case ElementType::kF16:
      return f16_to_f32(load<std::uint16_t>(data));
    case ElementType::kBF16:
      return bf16_to_f32(load<std::uint16_t>(data));
    case ElementType::kF64:
      return load<double>(data);
    case ElementType::kBool:
      return load<std::uint8_t>(data) != 0 ? 1 : 0;
    default:
      return with_integer(
          element, [&](auto zero) { return static_cast<double>(load<decltype(zero)>(data)); });
  }
}

std::int64_t element_to_integer(ElementType element, const std::byte* data) {
  if (element == ElementType::kBool) return load<std::uint8_t>(data) != 0 ? 1 : 0;
  return with_integer(
      element, [&](auto zero) { return static_cast<std::int64_t>(load<decltype(zero)>(data)); });
}

namespace {

/// Returns the value as a float whose last bit is set if it is not exact (rounding to odd), so that
/// rounding it again to fewer bits gives the same as rounding the value once.
float float_for_narrowing(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest)) return nearest;
  const bool away = std::abs(static_cast<double>(nearest)) > std::abs(value);
  const float truncated = away ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(truncated) | 1u);
}

}  // namespace

std::vector<std::byte> element_from_double(ElementType element, double value) {
  switch (element) {
    case ElementType::kF32:
      return store(static_cast<float>(value));
    case ElementType::kF16:
      return store(f32_to_f16(float_for_narrowing(value)));
    case ElementType::kBF16:
      return store(f32_to_bf16(float_for_narrowing(value)));
    case ElementType::kF64:
      return store(value);
    case ElementType::kBool:
      return store(static_cast<std::uint8_t>(value != 0));
    default:
      return with_integer(element, [&](auto zero) {
        using T = decltype(zero);
        const double low = static_cast<double>(std::numeric_limits<T>::min());
        const double high = static_cast<double>(std::numeric_limits<T>::max());
        if (std::isnan(value)) return store(T{0});
        if (value <= low) return store(std::numeric_limits<T>::min());
        // high may have been rounded up to one more than the maximum.
        if (value >= high) return store(std::numeric_limits<T>::max());
        return store(static_cast<T>(value));
      });
  }
}

std::optional<std::vector<std::byte>> element_from_integer(ElementType element,
                                                           std::int64_t value) {
  if (is_float(element)) return element_from_double(element, static_cast<double>(value));
  if (element == ElementType::kBool && value != 0 && value != 1) return std::nullopt;
  return with_integer(element, [&](auto zero) -> std::optional<std::vector<std::byte>> {
    using T = decltype(zero);
    if (!std::in_range<T>(value)) return std::nullopt;
    return store(static_cast<T>(value));
  });
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fmt::format("{}", value);
}

std::string element_text(ElementType element, std::span<const std::byte> data) {
  const std::byte* const at = data.data();
  if (element == ElementType::kBool) return load<std::uint8_t>(at) != 0 ? "true" : "false";
  if (!is_float(element))
    return with_integer(element,
                        [&](auto zero) { return fmt::format("{}", +load<decltype(zero)>(at)); });
  const double value = element_to_double(element, at);
  if (element == ElementType::kF64 || !std::isfinite(value)) return number_text(value);
  return fmt::format("{}", static_cast<float>(value));
}

std::string element_list_text(ElementType element, std::span<const std::byte> data) {
  std::string out = "{";
  const std::size_t size = element_bytes(element);
  for (std::size_t at = 0; at < data.size(); at += size) {
    if (at > 0) out += ", ";
    out += element_text(element, data.subspan(at, size));
  }
  return out + "}";
}

std::string typed_text(const Constant& constant) {
  TensorType type{constant.element(), {constant.dims().begin(), constant.dims().end()}};
  return to_string(type) + " " + constant.describe();
}

std::vector<double> to_doubles(const Constant& constant) {
  const auto bytes = constant.bytes();
  const std::size_t size = element_bytes(constant.element());
  std::vector<double> out;
  out.reserve(bytes.size() / size);
  for (std::size_t at = 0; at < bytes.size(); at += size)
    out.push_back(element_to_double(constant.element(), bytes.data() + at));
  return out;
}

std::vector<float> to_floats(const Constant& constant) {
  std::vector<float> out(static_cast<std::size_t>(constant.element_count()));
  const auto bytes = constant.bytes();
  convert_to_floats(constant.element(), bytes, out);
  return out;
}

Result<std::vector<std::int64_t>> to_integers(const Constant& constant) {
  if (is_float(constant.element())) {
    return failure(ErrorKind::kBadInput,
                   "expected integers, got " + std::string(to_string(constant.element())));
  }
  const auto bytes = constant.bytes();
  const std::size_t size = element_bytes(constant.element());
  std::vector<std::int64_t> out;
  out.reserve(bytes.size() / size);
  for (std::size_t at = 0; at < bytes.size(); at += size)
    out.push_back(element_to_integer(constant.element(), bytes.data() + at));
  return out;
}

}  // namespace llmc::ir
