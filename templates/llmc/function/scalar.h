#pragma once

#include "llmc/function/activation.h"
#include "llmc/function/math.h"
#include "llmc/function/trigonometry.h"

/// The elementwise operators, which emitted loop nests call. Each is a function with the operator's
/// name in the IR. Floats follow IEEE 754, and NaN propagates. Integers wrap; x / 0 and x mod 0
/// are 0.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

// ---- one operand

#define LLMC_FLOAT_FUNCTION(name, for_float, for_double) \
  LLMC_INLINE float name(float v) {                      \
    const double x = static_cast<double>(v);             \
    return static_cast<float>(for_float);                \
  }                                                      \
  LLMC_INLINE double name(double x) {                    \
    return for_double;                                   \
  }
LLMC_FLOAT_FUNCTION(exp, wide::exp<8>(x), wide::exp<13>(x))
LLMC_FLOAT_FUNCTION(log, wide::log(x), wide::log(x))
LLMC_FLOAT_FUNCTION(tanh, wide::tanh<8>(x), wide::tanh<13>(x))
LLMC_FLOAT_FUNCTION(sigmoid, wide::sigmoid<8>(x), wide::sigmoid<13>(x))
LLMC_FLOAT_FUNCTION(erf, wide::erf<8>(x), wide::erf<13>(x))
LLMC_FLOAT_FUNCTION(floor, wide::floor(x), wide::floor(x))
LLMC_FLOAT_FUNCTION(ceil, wide::ceil(x), wide::ceil(x))
LLMC_FLOAT_FUNCTION(round, wide::round_even(x), wide::round_even(x))
#undef LLMC_FLOAT_FUNCTION

LLMC_INLINE float gelu(float x) {
  return single::gelu(x);
}
LLMC_INLINE double gelu(double x) {
  return 0.5 * x * (1.0 + wide::erf<13>(x * 0.70710678118654752440));
}
LLMC_INLINE float gelu_tanh(float x) {
  return single::gelu_tanh(x);
}
LLMC_INLINE double gelu_tanh(double x) {
  const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + wide::tanh<13>(u));
}
LLMC_INLINE float silu(float x) {
  return single::silu(x);
}
LLMC_INLINE double silu(double x) {
  return x / (1.0 + wide::exp<13>(-x));
}

LLMC_INLINE float sin(float x) {
  return static_cast<float>(wide::sin_of_float(x, 0));
}
LLMC_INLINE double sin(double x) {
  return wide::sin_of_double(x, 0);
}
LLMC_INLINE float cos(float x) {
  return static_cast<float>(wide::sin_of_float(x, 1));
}
LLMC_INLINE double cos(double x) {
  return wide::sin_of_double(x, 1);
}
LLMC_INLINE float sqrt(float x) {
  return __builtin_sqrtf(x);
}
LLMC_INLINE double sqrt(double x) {
  return __builtin_sqrt(x);
}
template <class T>
LLMC_INLINE T reciprocal(T x) {
  return static_cast<T>(1) / x;
}
template <class T>
LLMC_INLINE bool is_nan(T x) {
  return x != x;
}
template <class T>
LLMC_INLINE bool is_inf(T x) {
  return x == static_cast<T>(wide::kInfinity) || x == static_cast<T>(-wide::kInfinity);
}
/// Returns -1, 0 or 1; NaN for NaN.
template <class T>
LLMC_INLINE T sign(T x) {
  const T zero = 0, one = 1;
  return x > zero ? one : x < zero ? static_cast<T>(zero - one) : x;
}

LLMC_INLINE float neg(float x) {
  return -x;
}
LLMC_INLINE double neg(double x) {
  return -x;
}
template <class T>
LLMC_INLINE T neg(T x) {
  return static_cast<T>(static_cast<Unsigned<T>>(0) - static_cast<Unsigned<T>>(x));
}
LLMC_INLINE float abs(float x) {
  return bits_float(float_bits(x) & 0x7fffffffu);
}
LLMC_INLINE double abs(double x) {
  return wide::absolute(x);
}
template <class T>
LLMC_INLINE T abs(T x) {
  if constexpr (kIsSigned<T>) return x < 0 ? neg(x) : x;
  return x;
}
template <class T>
LLMC_INLINE T relu(T x) {
  const T zero = 0;
  return x > zero || x != x ? x : zero;
}

// ---- two operands

#define LLMC_WRAPPING(name, op)                                                    \
  template <class T>                                                               \
  LLMC_INLINE T name(T a, T b) {                                                   \
    if constexpr (kIsFloat<T>) {                                                   \
      return a op b;                                                               \
    } else { /* 64 bits: products of shorter types would overflow int */           \
      return static_cast<T>(static_cast<uint64_t>(a) op static_cast<uint64_t>(b)); \
    }                                                                              \
  }
LLMC_WRAPPING(add, +)
LLMC_WRAPPING(sub, -)
LLMC_WRAPPING(mul, *)
#undef LLMC_WRAPPING

/// Integer division truncates, as in ONNX.
template <class T>
LLMC_INLINE T div(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    if constexpr (kIsSigned<T>) {
      if (b == static_cast<T>(-1)) return neg(a);
    }
    return static_cast<T>(a / b);
  }
}
template <class T>
LLMC_INLINE T min(T a, T b) {
  return a != a || a < b ? a : b;
}
template <class T>
LLMC_INLINE T max(T a, T b) {
  return a != a || a > b ? a : b;
}

/// Returns the exact remainder of a division whose quotient is truncated toward zero. It has the
/// sign of the dividend.
template <class T>
LLMC_INLINE T float_remainder(T a, T b) {
  const double x = wide::absolute(static_cast<double>(a)),
               y = wide::absolute(static_cast<double>(b));
  if (!(x < wide::kInfinity) || !(y > 0.0)) return static_cast<T>(wide::kNaN);
  double rest = x;
  // Each step subtracts y times a power of two, which is exact.
  while (rest >= y) {
    double part = y;
    const uint64_t difference = (wide::bits(rest) >> 52) - (wide::bits(y) >> 52);
    if (difference > 1 && y >= 0x1p-1022)
      part = wide::from_bits(wide::bits(y) + ((difference - 1) << 52));
    while (part + part <= rest) part = part + part;
    rest -= part;
  }
  return static_cast<T>(wide::copy_sign(rest, static_cast<double>(a)));
}
/// Returns the remainder. It has the sign of the divisor for integers, and that of the dividend for
/// floats (fmod).
template <class T>
LLMC_INLINE T mod(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return float_remainder(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr (kIsSigned<T>) {
      if (b == static_cast<T>(-1)) return 0;
      const T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    }
    return static_cast<T>(a % b);
  }
}

template <class To, class From>
LLMC_INLINE To convert(From x);

template <class T>
LLMC_INLINE T integer_power(T base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (kIsSigned<T> && base == static_cast<T>(-1))
      return (exponent & 1) != 0 ? base : static_cast<T>(1);
    return 0;
  }
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e > 0; e >>= 1, square *= square)
    if ((e & 1) != 0) result *= square;
  return static_cast<T>(result);
}
/// Returns base^exponent in the type of the base, as in ONNX.
template <class T, class E>
LLMC_INLINE T pow(T base, E exponent) {
  if constexpr (__is_same(T, double)) {
    return wide::pow<true>(base, static_cast<double>(exponent));
  } else if constexpr (__is_same(T, float)) {
    return static_cast<float>(
        wide::pow<false>(static_cast<double>(base), static_cast<double>(exponent)));
  } else if constexpr (kIsFloat<E>) {
    return convert<T>(wide::pow<true>(static_cast<double>(base), static_cast<double>(exponent)));
  } else {
    return integer_power(base, static_cast<int64_t>(exponent));
  }
}

// ---- conversions

/// Converts x to type To. To bool: whether x is not 0. From floats to integers: truncates, then
/// saturates values outside the range of 64 bits, then wraps values outside the range of To; NaN
/// gives 0.
template <class To, class From>
LLMC_INLINE To convert(From x) {
  if constexpr (__is_same(To, bool)) {
    return x != static_cast<From>(0);
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    const double v = static_cast<double>(x);
    if constexpr (__is_same(To, uint64_t)) {
      if (v >= 0x1p63) return v < 0x1p64 ? static_cast<uint64_t>(v) : UINT64_MAX;
    }
    const bool fits = v >= -0x1p63 && v < 0x1p63;
    const int64_t whole = fits    ? static_cast<int64_t>(v)
                          : v > 0 ? INT64_MAX
                          : v < 0 ? INT64_MIN
                                  : 0;
    return static_cast<To>(whole);
  } else {
    return static_cast<To>(x);
  }
}
LLMC_INLINE float round_to_f16(float x) {
  return f16_to_f32(f32_to_f16(x));
}
LLMC_INLINE float round_to_bf16(float x) {
  return bf16_to_f32(f32_to_bf16(x));
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
