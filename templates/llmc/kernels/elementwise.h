#pragma once

#include "llmc/kernels/stage.h"

/// Operators left standing alone, one float at a time: y[t][n] for n below the compile-time N.
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

/// a, b, y f32[tokens][N]; y may be a or b.
template <class Op, size_t N>
inline void binary(const Stage& stage, const float* a, const float* b, float* y) {
  for_each_token(stage, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(a + t * N, i), load_row<N>(b + t * N, i)));
    }
  });
}
/// row f32[N], the same for every token.
template <class Op, size_t N>
inline void binary_row(const Stage& stage, const float* a, const float* row, float* y) {
  for_each_token(stage, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(a + t * N, i), load_row<N>(row, i)));
    }
  });
}
template <class Op, size_t N>
inline void binary_scalar(const Stage& stage, const float* a, float value, float* y) {
  for_each_token(stage, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(a + t * N, i), splat(value)));
    }
  });
}
template <class Op, size_t N>
inline void unary(const Stage& stage, const float* x, float* y) {
  for_each_token(stage, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(x + t * N, i)));
    }
  });
}

/// y = silu(gate) * up; y may be gate or up.
template <size_t I>
inline void swiglu(const Stage& stage, const float* gate, const float* up, float* y) {
  for_each_token(stage, [=](size_t t) {
    for (size_t i = 0; i < I; i += 8) {
      const F32x8 g = load_row<I>(gate + t * I, i);
      store_row<I>(y + t * I, i, silu(g) * load_row<I>(up + t * I, i));
    }
  });
}
/// gate_up f32[tokens][2 I]: gate, then up; y f32[tokens][I] elsewhere.
template <size_t I>
inline void swiglu_packed(const Stage& stage, const float* gate_up, float* y) {
  for_each_token(stage, [=](size_t t) {
    const float* row = gate_up + t * 2 * I;
    for (size_t i = 0; i < I; i += 8) {
      const F32x8 g = load_row<I>(row, i);
      store_row<I>(y + t * I, i, silu(g) * load_row<I>(row + I, i));
    }
  });
}

/// y = x, f32[tokens][N].
template <size_t N>
inline void copy_rows(const Stage& stage, const float* x, float* y) {
  for_each_token(stage,
                 [=](size_t t) { __builtin_memcpy(y + t * N, x + t * N, N * sizeof(float)); });
}

}  // namespace LLMC_ISA
}  // namespace llmc
