#pragma once

#include "llmc/function/scalar.h"
#include "llmc/simd/vec.h"

/// Matrix products y[m][n] = a[m][k] b[k][n]. On every target, each element is accumulated over k
/// in order, starting with 0: for floats with y = fma(a[m][k], b[k][n], y), for doubles with a
/// multiplication and an addition, each rounded. Integers wrap.
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

/// The columns of b that product_tile() reads.
enum class Columns {
  kWhole,   // 16 columns, all used
  kPadded,  // 16 columns, of which only the first are used
  kEdge,    // at most 8 columns; nothing after them is read
};

/// Adds `depth` products to each of kRows x `columns` elements of y; if `first`, starts with 0
/// instead of y. b is [depth][b_row].
template <int kRows, Columns kColumns, class B>
LLMC_INLINE void product_tile(const float* a, int64_t a_row, const B* b, int64_t b_row, float* y,
                              int64_t y_row, int64_t depth, int64_t columns, bool first) {
  constexpr int kVectors = kColumns == Columns::kEdge ? 1 : 2;
  F32x8 sum[kRows][kVectors];
  size_t used[kVectors];  // columns of each vector
  for (int v = 0; v < kVectors; ++v) {
    const int64_t rest = columns - 8 * v;
    used[v] = kColumns == Columns::kWhole || rest > 8 ? 8
              : rest < 0                              ? 0
                                                      : static_cast<size_t>(rest);
  }
  for (int r = 0; r < kRows; ++r) {
    const float* row = y + r * y_row;
    for (int v = 0; v < kVectors; ++v) {
      if (first || used[v] == 0) {
        sum[r][v] = zero_f32();
      } else if (kColumns == Columns::kWhole) {
        sum[r][v] = load(row + 8 * v);
      } else {
        sum[r][v] = load_partial(row + 8 * v, used[v]);
      }
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    F32x8 weights[kVectors];
    if constexpr (kColumns == Columns::kEdge) {
      weights[0] = load_partial(b + k * b_row, used[0]);
    } else {
      for (int v = 0; v < kVectors; ++v) weights[v] = load_weights(b + k * b_row + 8 * v);
    }
    for (int r = 0; r < kRows; ++r) {
      const F32x8 x = splat(a[r * a_row + k]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(x, weights[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* row = y + r * y_row;
    for (int v = 0; v < kVectors; ++v) {
      if (kColumns == Columns::kWhole) {
        store(row + 8 * v, sum[r][v]);
      } else if (used[v] != 0) {
        store_partial(row + 8 * v, sum[r][v], used[v]);
      }
    }
  }
}

template <Columns kColumns, class B>
LLMC_INLINE void product_rows(const float* a, int64_t a_row, const B* b, int64_t b_row, float* y,
                              int64_t y_row, int64_t m, int64_t depth, int64_t columns,
                              bool first) {
  int64_t r = 0;
  for (; r + kRowTile <= m; r += kRowTile)
    product_tile<kRowTile, kColumns>(a + r * a_row, a_row, b, b_row, y + r * y_row, y_row, depth,
                                     columns, first);
  for (; kTiled && r + 2 <= m; r += 2)
    product_tile<2, kColumns>(a + r * a_row, a_row, b, b_row, y + r * y_row, y_row, depth, columns,
                              first);
  if (r < m)
    product_tile<1, kColumns>(a + r * a_row, a_row, b, b_row, y + r * y_row, y_row, depth, columns,
                              first);
}

/// Sizes of y[m][n] = a[m][k] b[k][n], and strides of products whose operands are not packed.
struct MatmulSizes {
  int64_t m = 0, k = 0, n = 0, a_row = 0, b_row = 0, b_column = 0;
};

/// Computes a product with b[K][N] that was packed at compile time as panels [K][16], of which the
/// last one is padded.
template <class B>
LLMC_NOINLINE inline void matmul_panels(const float* __restrict a, const B* __restrict panels,
                                        float* __restrict y, const MatmulSizes& sizes) {
  const int64_t m = sizes.m, k = sizes.k, n = sizes.n;
  const int64_t step = kTiled ? kDepthTile : k;
  for (int64_t at = 0; at < k; at += step) {
    const int64_t depth = k - at < step ? k - at : step;
    for (int64_t column = 0; column < n; column += kPanelColumns) {
      const B* panel = panels + column * k + at * kPanelColumns;
      const int64_t columns = n - column;
      if (columns >= kPanelColumns) {
        product_rows<Columns::kWhole>(a + at, k, panel, kPanelColumns, y + column, n, m, depth,
                                      columns, at == 0);
      } else {
        product_rows<Columns::kPadded>(a + at, k, panel, kPanelColumns, y + column, n, m, depth,
                                       columns, at == 0);
      }
    }
  }
}

/// Stores the transpose of 8 x 8 floats, whose rows are `from_row` elements apart, in a panel.
LLMC_INLINE void transpose_square(const float* from, int64_t from_row, float* panel) {
  using Row = float __attribute__((vector_size(32)));
  Row x[8], y[8];
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) __builtin_memcpy(&x[i], from + i * from_row, sizeof(Row));
  // Exchange single elements of two rows, then pairs, then halves.
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i += i % 4 == 1 ? 3 : 1) {
    x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) {
    y[i] = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[i + 4] = __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) __builtin_memcpy(panel + i * kPanelColumns, &y[i], sizeof(Row));
}

/// Computes one product with an unpacked b[K][N], whose rows are b_row and whose columns are
/// b_column elements apart. Copies 16 columns at a time to `panel`, f32[K][16].
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
      int64_t i = 0;
      if (b_row == 1 && columns == kPanelColumns) {
        for (; i + 8 <= k; i += 8)
          for (int64_t j = 0; j < kPanelColumns; j += 8)
            transpose_square(b + (column + j) * b_column + i, b_column,
                             panel + i * kPanelColumns + j);
      }
      for (int64_t j = 0; j < kPanelColumns; ++j) {
        const float* from = b + (column + j) * b_column;
        for (int64_t d = i; d < k; ++d)
          panel[d * kPanelColumns + j] = j < columns ? from[d * b_row] : 0.0f;
      }
    }
    if (columns == kPanelColumns) {
      product_rows<Columns::kWhole>(a, a_row, panel, kPanelColumns, y + column, n, m, k, columns,
                                    true);
    } else {
      product_rows<Columns::kPadded>(a, a_row, panel, kPanelColumns, y + column, n, m, k, columns,
                                     true);
    }
  }
}

/// Computes one product of any element type except float.
template <class T>
LLMC_NOINLINE inline void product_generic(const T* __restrict a, int64_t a_row,
                                          const T* __restrict b, int64_t b_row, int64_t b_column,
                                          T* __restrict y, int64_t m, int64_t k, int64_t n) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p) {
      const T x = a[i * a_row + p];
      const T* from = b + p * b_row;
      T* to = y + i * n;
      if (b_column == 1) {
        for (int64_t j = 0; j < n; ++j) to[j] = add(to[j], mul(x, from[j]));
      } else {
        for (int64_t j = 0; j < n; ++j) to[j] = add(to[j], mul(x, from[j * b_column]));
      }
    }
  }
}

/// Computes one product of floats, where adjacent columns of b are contiguous: 16 columns at a
/// time, then up to 8.
LLMC_NOINLINE inline void product_of_floats(const float* __restrict a, int64_t a_row,
                                            const float* __restrict b, int64_t b_row,
                                            float* __restrict y, int64_t m, int64_t k, int64_t n) {
  int64_t column = 0;
  for (; column + kPanelColumns <= n; column += kPanelColumns)
    product_rows<Columns::kWhole>(a, a_row, b + column, b_row, y + column, n, m, k, kPanelColumns,
                                  true);
  for (; column < n; column += 8)
    product_rows<Columns::kEdge>(a, a_row, b + column, b_row, y + column, n, m, k,
                                 n - column < 8 ? n - column : 8, true);
}

/// Returns the offset of matrix number `matrix` of a batch. `batch` are the batch dims, row-major,
/// and `strides` the distances along them.
template <class Batch, class Strides>
LLMC_INLINE int64_t offset_in(const Batch& batch, const Strides& strides, int64_t matrix) {
  int64_t offset = 0;
  for (size_t d = Batch::count; d-- > 0;) {
    offset += matrix % batch.values[d] * strides.values[d];
    matrix /= batch.values[d];
  }
  return offset;
}

/// Calls f(offset of a, offset of b, matrix, first row, number of rows) for each matrix of a batch
/// that has rows in [begin, end). Rows are counted over all matrices, which have m rows each.
template <class Batch, class AStrides, class BStrides, class F>
LLMC_INLINE void for_each_matrix(int64_t begin, int64_t end, int64_t m, const Batch& batch,
                                 const AStrides& a_strides, const BStrides& b_strides, F&& f) {
  while (begin < end) {
    const int64_t matrix = begin / m, first = begin % m;
    const int64_t rows = m - first < end - begin ? m - first : end - begin;
    f(offset_in(batch, a_strides, matrix), offset_in(batch, b_strides, matrix), matrix, first,
      rows);
    begin += rows;
  }
}

/// Computes the rows [begin, end) of a batch of products. Columns of a float b must be contiguous.
template <class T, class Batch = Sizes<>, class AStrides = Sizes<>, class BStrides = Sizes<>>
inline void matmul(const T* a, const T* b, T* y, int64_t begin, int64_t end,
                   const MatmulSizes& sizes, const Batch& batch = {},
                   const AStrides& a_strides = {}, const BStrides& b_strides = {}) {
  const int64_t m = sizes.m, k = sizes.k, n = sizes.n, a_row = sizes.a_row, b_row = sizes.b_row;
  [[maybe_unused]] const int64_t b_column = sizes.b_column;
  for_each_matrix(begin, end, m, batch, a_strides, b_strides,
                  [&](int64_t from_a, int64_t from_b, int64_t matrix, int64_t first, int64_t rows) {
                    const T *x = a + from_a + first * a_row, *w = b + from_b;
                    T* to = y + (matrix * m + first) * n;
                    if constexpr (__is_same(T, float)) {
                      product_of_floats(x, a_row, w, b_row, to, rows, k, n);
                    } else {
                      product_generic(x, a_row, w, b_row, b_column, to, rows, k, n);
                    }
                  });
}

/// Does the same as matmul() for floats, if the columns of b are not contiguous or many rows use
/// them. Copies 16 columns at a time to `panel`, f32[k][16].
template <class T, class Batch = Sizes<>, class AStrides = Sizes<>, class BStrides = Sizes<>>
inline void matmul_packing(const T* a, const T* b, T* y, T* panel, int64_t begin, int64_t end,
                           const MatmulSizes& sizes, const Batch& batch = {},
                           const AStrides& a_strides = {}, const BStrides& b_strides = {}) {
  const int64_t m = sizes.m, k = sizes.k, n = sizes.n, a_row = sizes.a_row, b_row = sizes.b_row;
  const int64_t b_column = sizes.b_column;
  for_each_matrix(begin, end, m, batch, a_strides, b_strides,
                  [&](int64_t from_a, int64_t from_b, int64_t matrix, int64_t first, int64_t rows) {
                    product_packing(a + from_a + first * a_row, a_row, b + from_b, b_row, b_column,
                                    y + (matrix * m + first) * n, rows, k, n, panel);
                  });
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
