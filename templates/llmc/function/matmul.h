#pragma once

#include "llmc/function/scalar.h"
#include "llmc/simd/vec.h"

/// Matrix products y[m][n] = a[m][k] b[k][n]. Each element is accumulated over k in order, starting
/// with 0, on every target: for floats y = fma(a[m][k], b[k][n], y); for doubles by a product and a
/// sum, each rounded. Integers wrap.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

inline constexpr int64_t kPanelColumns = 16;  // two vectors of lanes
/// Number of rows whose sums are in registers at the same time.
inline constexpr int64_t kRowTile = kTiled ? 6 : 1;
/// Elements of K per pass. This part of a panel stays in the L1 cache while all rows use it.
inline constexpr int64_t kDepthTile = 256;

LLMC_INLINE F32x8 load_weights(const float* p) {
  return load(p);
}
LLMC_INLINE F32x8 load_weights(const f16* p) {
  return load_f16(reinterpret_cast<const uint8_t*>(p));
}
LLMC_INLINE F32x8 load_weights(const bf16* p) {
  return load_bf16(reinterpret_cast<const uint8_t*>(p));
}

/// Accumulates `depth` products in each of kRows x `columns` elements of y, starting with 0 if
/// `first`. b is [depth][b_row]. All 16 columns of a row of b must be readable; the first `columns`
/// of them are used, all if kWhole.
template <int kRows, bool kWhole, class B>
LLMC_INLINE void product_tile(const float* a, int64_t a_row, const B* b, int64_t b_row, float* y,
                              int64_t y_row, int64_t depth, int64_t columns, bool first) {
  F32x8 sum[kRows][2];
  const size_t low = kWhole || columns > 8 ? 8 : static_cast<size_t>(columns);
  const size_t high = kWhole ? 8 : columns > 8 ? static_cast<size_t>(columns - 8) : 0;
  for (int r = 0; r < kRows; ++r) {
    float* row = y + r * y_row;
    if (first) {
      sum[r][0] = zero_f32();
      sum[r][1] = zero_f32();
    } else if constexpr (kWhole) {
      sum[r][0] = load(row);
      sum[r][1] = load(row + 8);
    } else {
      sum[r][0] = load_partial(row, low);
      sum[r][1] = high != 0 ? load_partial(row + 8, high) : zero_f32();
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    const F32x8 b0 = load_weights(b + k * b_row), b1 = load_weights(b + k * b_row + 8);
    for (int r = 0; r < kRows; ++r) {
      const F32x8 x = splat(a[r * a_row + k]);
      sum[r][0] = fma(x, b0, sum[r][0]);
      sum[r][1] = fma(x, b1, sum[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* row = y + r * y_row;
    if constexpr (kWhole) {
      store(row, sum[r][0]);
      store(row + 8, sum[r][1]);
    } else {
      store_partial(row, sum[r][0], low);
      if (high != 0) store_partial(row + 8, sum[r][1], high);
    }
  }
}

template <bool kWhole, class B>
LLMC_INLINE void product_rows(const float* a, int64_t a_row, const B* b, int64_t b_row, float* y,
                              int64_t y_row, int64_t m, int64_t depth, int64_t columns,
                              bool first) {
  int64_t r = 0;
  for (; r + kRowTile <= m; r += kRowTile)
    product_tile<kRowTile, kWhole>(a + r * a_row, a_row, b, b_row, y + r * y_row, y_row, depth,
                                   columns, first);
  for (; kTiled && r + 2 <= m; r += 2)
    product_tile<2, kWhole>(a + r * a_row, a_row, b, b_row, y + r * y_row, y_row, depth, columns,
                            first);
  if (r < m)
    product_tile<1, kWhole>(a + r * a_row, a_row, b, b_row, y + r * y_row, y_row, depth, columns,
                            first);
}

/// Computes a product with b[K][N] that was packed at compile time as panels [K][16], of which the
/// last one is padded.
template <class B>
LLMC_NOINLINE inline void matmul_panels(const float* __restrict a, const B* __restrict panels,
                                        float* __restrict y, int64_t m, int64_t k, int64_t n) {
  const int64_t step = kTiled ? kDepthTile : k;
  for (int64_t at = 0; at < k; at += step) {
    const int64_t depth = k - at < step ? k - at : step;
    for (int64_t column = 0; column < n; column += kPanelColumns) {
      const B* panel = panels + column * k + at * kPanelColumns;
      const int64_t columns = n - column;
      if (columns >= kPanelColumns) {
        product_rows<true>(a + at, k, panel, kPanelColumns, y + column, n, m, depth, columns,
                           at == 0);
      } else {
        product_rows<false>(a + at, k, panel, kPanelColumns, y + column, n, m, depth, columns,
                            at == 0);
      }
    }
  }
}

/// Computes one product with an unpacked b[K][N], whose rows are b_row and columns b_column
/// elements apart: copies 16 columns at a time to `panel`, f32[K][16].
LLMC_NOINLINE inline void product_packing(const float* __restrict a, int64_t a_row,
                                          const float* __restrict b, int64_t b_row,
                                          int64_t b_column, float* __restrict y, int64_t m,
                                          int64_t k, int64_t n, float* __restrict panel) {
  for (int64_t column = 0; column < n; column += kPanelColumns) {
    const int64_t columns = n - column < kPanelColumns ? n - column : kPanelColumns;
    if (b_column == 1 && columns == kPanelColumns) {
      for (int64_t i = 0; i < k; ++i) {
        const float* from = b + i * b_row + column;
        store(panel + i * kPanelColumns, load(from));
        store(panel + i * kPanelColumns + 8, load(from + 8));
      }
    } else {
      for (int64_t j = 0; j < kPanelColumns; ++j) {
        const float* from = b + (column + j) * b_column;
        for (int64_t i = 0; i < k; ++i)
          panel[i * kPanelColumns + j] = j < columns ? from[i * b_row] : 0.0f;
      }
    }
    if (columns == kPanelColumns) {
      product_rows<true>(a, a_row, panel, kPanelColumns, y + column, n, m, k, columns, true);
    } else {
      product_rows<false>(a, a_row, panel, kPanelColumns, y + column, n, m, k, columns, true);
    }
  }
}

/// Computes the columns from `first_column` on of a product of any element type except float.
template <class T>
LLMC_NOINLINE inline void product_generic(const T* __restrict a, int64_t a_row,
                                          const T* __restrict b, int64_t b_row, int64_t b_column,
                                          T* __restrict y, int64_t m, int64_t k, int64_t n,
                                          int64_t first_column) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = first_column; j < n; ++j) y[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p) {
      const T x = a[i * a_row + p];
      const T* from = b + p * b_row;
      T* to = y + i * n;
      if (b_column == 1) {
        for (int64_t j = first_column; j < n; ++j) to[j] = add(to[j], mul(x, from[j]));
      } else {
        for (int64_t j = first_column; j < n; ++j) to[j] = add(to[j], mul(x, from[j * b_column]));
      }
    }
  }
}
/// Computes the columns from `first_column` on of a float product, whose elements need not be
/// adjacent, in the same order.
LLMC_NOINLINE inline void product_edge(const float* __restrict a, int64_t a_row,
                                       const float* __restrict b, int64_t b_row, int64_t b_column,
                                       float* __restrict y, int64_t m, int64_t k, int64_t n,
                                       int64_t first_column) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t column = first_column; column < n; column += 8) {
      const size_t lanes = n - column < 8 ? static_cast<size_t>(n - column) : 8;
      F32x8 sum = zero_f32();
      for (int64_t p = 0; p < k; ++p) {
        float lane[8] = {};
        for (size_t j = 0; j < lanes; ++j)
          lane[j] = b[p * b_row + (column + static_cast<int64_t>(j)) * b_column];
        sum = fma(splat(a[i * a_row + p]), load(lane), sum);
      }
      store_partial(y + i * n + column, sum, lanes);
    }
  }
}

/// Computes one float product: 16 columns at a time if they are adjacent, then the remaining
/// columns.
LLMC_NOINLINE inline void product_of_floats(const float* __restrict a, int64_t a_row,
                                            const float* __restrict b, int64_t b_row,
                                            int64_t b_column, float* __restrict y, int64_t m,
                                            int64_t k, int64_t n) {
  int64_t column = 0;
  if (b_column == 1) {
    for (; column + kPanelColumns <= n; column += kPanelColumns)
      product_rows<true>(a, a_row, b + column, b_row, y + column, n, m, k, kPanelColumns, true);
  }
  product_edge(a, a_row, b, b_row, b_column, y, m, k, n, column);
}

/// Calls f(a offset, b offset, batch number) for each matrix of a batch.
template <class F>
LLMC_INLINE void for_each_matrix(size_t rank, const int64_t* dims, const int64_t* a_strides,
                                 const int64_t* b_strides, F&& f) {
  int64_t coordinate[16] = {};
  int64_t count = 1;
  for (size_t d = 0; d < rank; ++d) count *= dims[d];
  for (int64_t i = 0; i < count; ++i) {
    int64_t a = 0, b = 0;
    for (size_t d = 0; d < rank; ++d) {
      a += coordinate[d] * a_strides[d];
      b += coordinate[d] * b_strides[d];
    }
    f(a, b, i);
    for (size_t d = rank; d-- > 0;) {
      if (++coordinate[d] < dims[d]) break;
      coordinate[d] = 0;
    }
  }
}

template <class T, class Batch, class AStrides, class BStrides>
inline void matmul(const T* a, const T* b, T* y, int64_t m, int64_t k, int64_t n, int64_t a_row,
                   int64_t b_row, int64_t b_column, const Batch& batch, const AStrides& a_strides,
                   const BStrides& b_strides) {
  for_each_matrix(Batch::count, batch.values, a_strides.values, b_strides.values,
                  [&](int64_t from_a, int64_t from_b, int64_t i) {
                    const T *x = a + from_a, *w = b + from_b;
                    T* to = y + i * m * n;
                    if constexpr (__is_same(T, float)) {
                      product_of_floats(x, a_row, w, b_row, b_column, to, m, k, n);
                    } else {
                      product_generic(x, a_row, w, b_row, b_column, to, m, k, n, 0);
                    }
                  });
}

/// Computes products with a b whose columns are not contiguous: copies 16 columns at a time to
/// `panel`, f32[k][16].
template <class T, class Batch, class AStrides, class BStrides>
inline void matmul_packing(const T* a, const T* b, T* y, T* panel, int64_t m, int64_t k, int64_t n,
                           int64_t a_row, int64_t b_row, int64_t b_column, const Batch& batch,
                           const AStrides& a_strides, const BStrides& b_strides) {
  for_each_matrix(Batch::count, batch.values, a_strides.values, b_strides.values,
                  [&](int64_t from_a, int64_t from_b, int64_t i) {
                    product_packing(a + from_a, a_row, b + from_b, b_row, b_column, y + i * m * n,
                                    m, k, n, panel);
                  });
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
