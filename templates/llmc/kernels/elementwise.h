#pragma once

#include "llmc/kernels/functions.h"
#include "llmc/kernels/stage.h"

/// Elementwise operators that were not fused: y[t][n] for n < N, where N is a compile-time
/// constant.
namespace llmc {
inline namespace LLMC_ISA {

/// Computes y = Op(a, b) for f32[tokens][N]. y may be a or b.
template <class Op, size_t N>
inline void binary(const KernelContext& context, const float* a, const float* b, float* y) {
  for_each_token(context, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(a + t * N, i), load_row<N>(b + t * N, i)));
    }
  });
}
/// Computes y = Op(a, row) with row f32[N], the same for every token.
template <class Op, size_t N>
inline void binary_row(const KernelContext& context, const float* a, const float* row, float* y) {
  for_each_token(context, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(a + t * N, i), load_row<N>(row, i)));
    }
  });
}
template <class Op, size_t N>
inline void binary_scalar(const KernelContext& context, const float* a, float value, float* y) {
  for_each_token(context, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(a + t * N, i), splat(value)));
    }
  });
}
template <class Op, size_t N>
inline void unary(const KernelContext& context, const float* x, float* y) {
  for_each_token(context, [=](size_t t) {
    for (size_t i = 0; i < N; i += 8) {
      store_row<N>(y + t * N, i, Op::apply(load_row<N>(x + t * N, i)));
    }
  });
}

/// Computes y = Fn(gate) * up. y may be gate or up.
template <class Fn, size_t I>
inline void gated_activation(const KernelContext& context, const float* gate, const float* up,
                             float* y) {
  for_each_token(context, [=](size_t t) {
    for (size_t i = 0; i < I; i += 8) {
      const F32x8 g = load_row<I>(gate + t * I, i);
      store_row<I>(y + t * I, i, Fn::apply(g) * load_row<I>(up + t * I, i));
    }
  });
}

/// Copies x f32[tokens][N] to y.
template <size_t N>
inline void copy_rows(const KernelContext& context, const float* x, float* y) {
  for_each_token(context,
                 [=](size_t t) { __builtin_memcpy(y + t * N, x + t * N, N * sizeof(float)); });
}

}  // namespace LLMC_ISA
}  // namespace llmc
