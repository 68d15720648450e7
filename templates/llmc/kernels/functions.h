#pragma once

#include "llmc/math.h"

/// Functions of one or two operands, as types for template arguments. Elementwise kernels and the
/// epilogues of linear() apply them to vectors of eight lanes.
namespace llmc {
inline namespace LLMC_ISA {

struct Add {
  static LLMC_INLINE F32x8 apply(F32x8 a, F32x8 b) { return a + b; }
};
struct Sub {
  static LLMC_INLINE F32x8 apply(F32x8 a, F32x8 b) { return a - b; }
};
struct Mul {
  static LLMC_INLINE F32x8 apply(F32x8 a, F32x8 b) { return a * b; }
};
struct Div {
  static LLMC_INLINE F32x8 apply(F32x8 a, F32x8 b) { return a / b; }
};
struct Min {
  static LLMC_INLINE F32x8 apply(F32x8 a, F32x8 b) { return min(a, b); }
};
struct Max {
  static LLMC_INLINE F32x8 apply(F32x8 a, F32x8 b) { return max(a, b); }
};

struct Neg {
  static LLMC_INLINE F32x8 apply(F32x8 a) {
    return from_bits(bits(a) + splat_i32(static_cast<int32_t>(0x80000000u)));
  }
};
struct Abs {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return from_bits(bits(a) & splat_i32(0x7fffffff)); }
};
struct Sqrt {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return sqrt(a); }
};
struct Reciprocal {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return splat(1.0f) / a; }
};
struct Exp {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return exp(a); }
};
struct Sigmoid {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return sigmoid(a); }
};
struct Silu {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return silu(a); }
};
struct Relu {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return max(a, zero_f32()); }
};
struct Tanh {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return tanh(a); }
};
struct Erf {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return erf(a); }
};
struct Gelu {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return gelu(a); }
};
struct GeluTanh {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return gelu_tanh(a); }
};
struct Identity {
  static LLMC_INLINE F32x8 apply(F32x8 a) { return a; }
};

}  // namespace LLMC_ISA
}  // namespace llmc
