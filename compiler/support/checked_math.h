#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace llmc {

/// Return a + b, a - b and a * b, or nullopt if the result does not fit the type.
template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}
template <std::integral T>
constexpr std::optional<T> checked_sub(T a, T b) {
  T result{};
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}
template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// Returns `value` rounded up to a multiple of `unit`, which must be > 0; nullopt if value + unit
/// - 1 does not fit the type.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_round_up(T value, T unit) {
  const auto sum = checked_add<T>(value, unit - 1);
  if (!sum) return std::nullopt;
  return *sum / unit * unit;
}

/// Returns the product of `dims`; 1 if `dims` is empty. Returns nullopt if a dim is negative or the
/// product does not fit the type.
constexpr std::optional<std::int64_t> checked_product(std::span<const std::int64_t> dims) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    empty |= dim == 0;
  }
  if (empty) return 0;
  for (const std::int64_t dim : dims)
    if (__builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  return count;
}

}  // namespace llmc
