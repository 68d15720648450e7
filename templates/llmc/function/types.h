#pragma once

#include <stddef.h>
#include <stdint.h>

#include "llmc/half.h"
#include "llmc/target.h"

/// Element types of emitted functions (docs/functions.md). 16-bit floats are only stored; they are
/// computed as f32. A bool is a byte, 0 or 1.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

/// Converts an element to the type in which it is computed (Wide<T>).
template <class T>
LLMC_INLINE T widen(T x) {
  return x;
}
LLMC_INLINE float widen(f16 x) {
  return f16_to_f32(x.bits);
}
LLMC_INLINE float widen(bf16 x) {
  return bf16_to_f32(x.bits);
}
template <class T>
using Wide = decltype(widen(T{}));

/// Converts a result to the stored type T. 16-bit floats are rounded to nearest even.
template <class T>
struct Narrow {
  static LLMC_INLINE T from(T x) { return x; }
};
template <>
struct Narrow<f16> {
  static LLMC_INLINE f16 from(float x) { return {f32_to_f16(x)}; }
};
template <>
struct Narrow<bf16> {
  static LLMC_INLINE bf16 from(float x) { return {f32_to_bf16(x)}; }
};
template <class T>
LLMC_INLINE T narrow(Wide<T> x) {
  return Narrow<T>::from(x);
}

template <class T>
inline constexpr bool kIsFloat = __is_same(T, float) || __is_same(T, double);

template <class T>
struct UnsignedOf {
  using type = T;
};
template <>
struct UnsignedOf<int8_t> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<int16_t> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<int32_t> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<int64_t> {
  using type = uint64_t;
};
template <class T>
using Unsigned = typename UnsignedOf<T>::type;
template <class T>
inline constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);

/// A short list of numbers that are known at compile time, such as dims or strides.
template <int64_t... kNumbers>
struct Sizes {
  static constexpr size_t count = sizeof...(kNumbers);
  static constexpr int64_t values[sizeof...(kNumbers) + 1] = {kNumbers..., 0};
};
/// A short list of numbers that are known only at run time.
template <size_t kCount>
struct RuntimeSizes {
  static constexpr size_t count = kCount;
  int64_t values[kCount];
};

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
