#include "compiler/quant/products.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "compiler/support/check.h"

namespace llmc::quant {
namespace {

/// Sizes of the parts of operands that are copied to be dense: they fit the second-level cache.
constexpr std::size_t kDepth = 256, kRows = 64, kColumns = 128;
constexpr std::size_t kVectorBytes = 64;

template <class T>
using Vector = T __attribute__((vector_size(kVectorBytes)));
template <class T>
constexpr std::size_t kWidth = kVectorBytes / sizeof(T);

/// Adds a tile of Rows x kWidth elements.
template <int Rows, class T>
[[gnu::always_inline]] inline void add_tile(const T* a, std::size_t a_stride, const T* b,
                                            std::size_t b_stride, T* c, std::size_t c_stride,
                                            std::size_t depth) {
  Vector<T> sums[Rows];
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
    std::memcpy(&sums[i], c + static_cast<std::size_t>(i) * c_stride, kVectorBytes);
  for (std::size_t k = 0; k < depth; ++k) {
    Vector<T> x;
    std::memcpy(&x, b + k * b_stride, kVectorBytes);
#pragma clang loop unroll(full)
    for (int i = 0; i < Rows; ++i)
      sums[i] = sums[i] + x * a[k * a_stride + static_cast<std::size_t>(i)];
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
    std::memcpy(c + static_cast<std::size_t>(i) * c_stride, &sums[i], kVectorBytes);
}

/// Adds the products of dense parts: `a` has kRows columns, `b` and `c` kColumns.
template <int Rows, class T>
[[gnu::always_inline]] inline void add_part(const T* a, const T* b, T* c, std::size_t depth,
                                            std::size_t rows, std::size_t columns) {
  for (std::size_t j = 0; j < columns; j += kWidth<T>)
    for (std::size_t i = 0; i < rows; i += Rows)
      add_tile<Rows>(a + i, kRows, b + j, kColumns, c + i * kColumns + j, kColumns, depth);
}

template <int Rows>
[[gnu::always_inline]] inline void add_lane_tiles(const float* a, std::size_t width, const float* b,
                                                  float* c, std::size_t depth) {
  for (std::size_t i = 0; i < width; i += Rows)
    add_tile<Rows>(a + i, width, b, kLanes, c + i * kLanes, kLanes, depth);
}

/// The same code for several instruction sets: more registers allow larger tiles.
struct Kernels {
  void (*floats)(const float*, const float*, float*, std::size_t, std::size_t, std::size_t);
  void (*doubles)(const double*, const double*, double*, std::size_t, std::size_t, std::size_t);
  void (*lanes)(const float*, std::size_t, const float*, float*, std::size_t);
};
void floats_anywhere(const float* a, const float* b, float* c, std::size_t depth, std::size_t rows,
                     std::size_t columns) {
  add_part<4>(a, b, c, depth, rows, columns);
}
void doubles_anywhere(const double* a, const double* b, double* c, std::size_t depth,
                      std::size_t rows, std::size_t columns) {
  add_part<4>(a, b, c, depth, rows, columns);
}
void lanes_anywhere(const float* a, std::size_t width, const float* b, float* c,
                    std::size_t depth) {
  add_lane_tiles<4>(a, width, b, c, depth);
}
constexpr Kernels kAnywhere{floats_anywhere, doubles_anywhere, lanes_anywhere};

#if defined(__x86_64__)
[[gnu::target("avx2")]] void floats_avx2(const float* a, const float* b, float* c,
                                         std::size_t depth, std::size_t rows, std::size_t columns) {
  add_part<4>(a, b, c, depth, rows, columns);
}
[[gnu::target("avx2")]] void doubles_avx2(const double* a, const double* b, double* c,
                                          std::size_t depth, std::size_t rows,
                                          std::size_t columns) {
  add_part<4>(a, b, c, depth, rows, columns);
}
[[gnu::target("avx2")]] void lanes_avx2(const float* a, std::size_t width, const float* b, float* c,
                                        std::size_t depth) {
  add_lane_tiles<4>(a, width, b, c, depth);
}
[[gnu::target("avx512f")]] void floats_avx512(const float* a, const float* b, float* c,
                                              std::size_t depth, std::size_t rows,
                                              std::size_t columns) {
  add_part<8>(a, b, c, depth, rows, columns);
}
[[gnu::target("avx512f")]] void doubles_avx512(const double* a, const double* b, double* c,
                                               std::size_t depth, std::size_t rows,
                                               std::size_t columns) {
  add_part<8>(a, b, c, depth, rows, columns);
}
[[gnu::target("avx512f")]] void lanes_avx512(const float* a, std::size_t width, const float* b,
                                             float* c, std::size_t depth) {
  add_lane_tiles<8>(a, width, b, c, depth);
}
constexpr Kernels kAvx2{floats_avx2, doubles_avx2, lanes_avx2};
constexpr Kernels kAvx512{floats_avx512, doubles_avx512, lanes_avx512};
#endif

const Kernels& kernels() {
#if defined(__x86_64__)
  static const Kernels& best = __builtin_cpu_supports("avx512f") ? kAvx512
                               : __builtin_cpu_supports("avx2")  ? kAvx2
                                                                 : kAnywhere;
  return best;
#else
  return kAnywhere;
#endif
}
void add_dense(const float* a, const float* b, float* c, std::size_t depth, std::size_t rows,
               std::size_t columns) {
  kernels().floats(a, b, c, depth, rows, columns);
}
void add_dense(const double* a, const double* b, double* c, std::size_t depth, std::size_t rows,
               std::size_t columns) {
  kernels().doubles(a, b, c, depth, rows, columns);
}

/// Copies a part to dense rows of `width` elements, padded with zeros.
template <class T>
void copy_dense(MatrixView<const T> from, T* to, std::size_t width) {
  for (std::size_t k = 0; k < from.rows; ++k) {
    std::copy_n(from.row(k), from.columns, to + k * width);
    std::fill_n(to + k * width + from.columns, width - from.columns, T{0});
  }
}

template <class T>
void add_blocked(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  LLMC_CHECK(a.rows == b.rows && a.columns == c.rows && b.columns == c.columns);
  std::vector<T> left(kDepth * kRows), right(kDepth * kColumns), sums(kRows * kColumns);
  for (std::size_t j = 0; j < c.columns; j += kColumns) {
    const std::size_t columns = std::min(kColumns, c.columns - j);
    for (std::size_t k = 0; k < a.rows; k += kDepth) {
      const std::size_t depth = std::min(kDepth, a.rows - k);
      copy_dense(b.part(k, depth, j, columns), right.data(), kColumns);
      for (std::size_t i = 0; i < c.rows; i += kRows) {
        const std::size_t rows = std::min(kRows, c.rows - i);
        copy_dense(a.part(k, depth, i, rows), left.data(), kRows);
        const MatrixView<T> to = c.part(i, rows, j, columns);
        copy_dense<T>({to.data, rows, columns, to.stride}, sums.data(), kColumns);
        add_dense(left.data(), right.data(), sums.data(), depth, rows, columns);
        for (std::size_t r = 0; r < rows; ++r)
          std::copy_n(sums.data() + r * kColumns, columns, to.row(r));
      }
    }
  }
}

}  // namespace

void add_products(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  add_blocked(a, b, c);
}
void add_products(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c) {
  add_blocked(a, b, c);
}

void transpose(MatrixView<const float> from, MatrixView<float> to) {
  LLMC_CHECK(from.rows == to.columns && from.columns == to.rows);
  constexpr std::size_t kSide = 16;
  for (std::size_t i = 0; i < from.rows; i += kSide)
    for (std::size_t j = 0; j < from.columns; j += kSide)
      for (std::size_t r = i; r < std::min(i + kSide, from.rows); ++r)
        for (std::size_t c = j; c < std::min(j + kSide, from.columns); ++c)
          to.row(c)[r] = from.row(r)[c];
}

void add_lanes(const float* a, std::size_t width, const float* b, float* c, std::size_t depth) {
  LLMC_CHECK(width % 8 == 0);
  kernels().lanes(a, width, b, c, depth);
}

}  // namespace llmc::quant
