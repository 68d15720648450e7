#include "compiler/quant/products.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "compiler/support/check.h"
#include "llmc/quant/layout.h"

namespace llmc::quant {
namespace {

/// Sizes of the parts of operands that are packed: both fit a second-level cache of 512 KiB, a
/// panel of each the first-level cache.
constexpr std::size_t kDepth = 256, kRows = 64;
template <class T>
constexpr std::size_t kColumns = 1024 / sizeof(T);
constexpr std::size_t kPanelHeight = 8;  // rows of a result in a panel of the left operand
constexpr std::size_t kVectorBytes = 64;

template <class T>
constexpr std::size_t kWidth = kVectorBytes / sizeof(T);
template <class T>
using Vector = T __attribute__((ext_vector_type(kWidth<T>)));

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
      sums[i] = __builtin_elementwise_fma(
          x, static_cast<Vector<T>>(a[k * a_stride + static_cast<std::size_t>(i)]), sums[i]);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
    std::memcpy(c + static_cast<std::size_t>(i) * c_stride, &sums[i], kVectorBytes);
}

/// Adds the products of packed parts, a in panels of kPanelHeight columns and b of kWidth, to `c`.
template <int Rows, class T>
[[gnu::always_inline]] inline void add_packed(const T* a, const T* b, MatrixView<T> c,
                                              std::size_t depth) {
  static_assert(kPanelHeight % Rows == 0);
  for (std::size_t j = 0; j < c.columns; j += kWidth<T>) {
    for (std::size_t i = 0; i < c.rows; i += Rows) {
      const T* const left = a + i / kPanelHeight * kPanelHeight * depth + i % kPanelHeight;
      const T* const right = b + j * depth;
      const std::size_t rows = std::min<std::size_t>(Rows, c.rows - i);
      const std::size_t columns = std::min(kWidth<T>, c.columns - j);
      if (rows == Rows && columns == kWidth<T>) {
        add_tile<Rows>(left, kPanelHeight, right, kWidth<T>, c.row(i) + j, c.stride, depth);
        continue;
      }
      T tile[Rows * kWidth<T>] = {};
      for (std::size_t r = 0; r < rows; ++r)
        std::copy_n(c.row(i + r) + j, columns, tile + r * kWidth<T>);
      add_tile<Rows>(left, kPanelHeight, right, kWidth<T>, tile, kWidth<T>, depth);
      for (std::size_t r = 0; r < rows; ++r)
        std::copy_n(tile + r * kWidth<T>, columns, c.row(i + r) + j);
    }
  }
}

/// Splits the depth so that a part of `b` stays in the first-level cache for all rows.
template <int Rows>
[[gnu::always_inline]] inline void add_lane_tiles(const float* a, std::size_t width, const float* b,
                                                  float* c, std::size_t depth) {
  constexpr std::size_t kLaneDepth = 128;
  for (std::size_t k = 0; k < depth; k += kLaneDepth)
    for (std::size_t i = 0; i < width; i += Rows)
      add_tile<Rows>(a + k * width + i, width, b + k * kLanes, kLanes, c + i * kLanes, kLanes,
                     std::min(kLaneDepth, depth - k));
}

/// The same code for several instruction sets: more registers allow larger tiles.
struct Kernels {
  void (*floats)(const float*, const float*, MatrixView<float>, std::size_t);
  void (*doubles)(const double*, const double*, MatrixView<double>, std::size_t);
  void (*lanes)(const float*, std::size_t, const float*, float*, std::size_t);
};
void floats_anywhere(const float* a, const float* b, MatrixView<float> c, std::size_t depth) {
  add_packed<4>(a, b, c, depth);
}
void doubles_anywhere(const double* a, const double* b, MatrixView<double> c, std::size_t depth) {
  add_packed<4>(a, b, c, depth);
}
void lanes_anywhere(const float* a, std::size_t width, const float* b, float* c,
                    std::size_t depth) {
  add_lane_tiles<4>(a, width, b, c, depth);
}
constexpr Kernels kAnywhere{floats_anywhere, doubles_anywhere, lanes_anywhere};

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void floats_avx2(const float* a, const float* b, MatrixView<float> c,
                                             std::size_t depth) {
  add_packed<4>(a, b, c, depth);
}
[[gnu::target("avx2,fma")]] void doubles_avx2(const double* a, const double* b,
                                              MatrixView<double> c, std::size_t depth) {
  add_packed<4>(a, b, c, depth);
}
[[gnu::target("avx2,fma")]] void lanes_avx2(const float* a, std::size_t width, const float* b,
                                            float* c, std::size_t depth) {
  add_lane_tiles<4>(a, width, b, c, depth);
}
constexpr Kernels kAvx2{floats_avx2, doubles_avx2, lanes_avx2};
[[gnu::target("avx512f")]] void floats_avx512(const float* a, const float* b, MatrixView<float> c,
                                              std::size_t depth) {
  add_packed<8>(a, b, c, depth);
}
[[gnu::target("avx512f")]] void doubles_avx512(const double* a, const double* b,
                                               MatrixView<double> c, std::size_t depth) {
  add_packed<8>(a, b, c, depth);
}
[[gnu::target("avx512f")]] void lanes_avx512(const float* a, std::size_t width, const float* b,
                                             float* c, std::size_t depth) {
  add_lane_tiles<8>(a, width, b, c, depth);
}
constexpr Kernels kAvx512{floats_avx512, doubles_avx512, lanes_avx512};
#endif

const Kernels& kernels() {
#if defined(__x86_64__)
  static const Kernels& best = __builtin_cpu_supports("avx512f") ? kAvx512
                               : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                   ? kAvx2
                                   : kAnywhere;
  return best;
#else
  return kAnywhere;
#endif
}
void add_packed_parts(const float* a, const float* b, MatrixView<float> c, std::size_t depth) {
  kernels().floats(a, b, c, depth);
}
void add_packed_parts(const double* a, const double* b, MatrixView<double> c, std::size_t depth) {
  kernels().doubles(a, b, c, depth);
}

/// Copies a part to panels of Width columns, one after the other: [panels][rows][Width]. The last
/// panel is padded with zeros.
template <std::size_t Width, class T>
void pack(MatrixView<const T> from, T* to) {
  for (std::size_t j = 0; j < from.columns; j += Width) {
    const std::size_t columns = std::min(Width, from.columns - j);
    for (std::size_t k = 0; k < from.rows; ++k, to += Width) {
      if (columns == Width) {
        std::memcpy(to, from.row(k) + j, Width * sizeof(T));
      } else {
        std::copy_n(from.row(k) + j, columns, to);
        std::fill_n(to + columns, Width - columns, T{0});
      }
    }
  }
}

template <class T>
void add_blocked(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  LLMC_CHECK(a.rows == b.rows && a.columns == c.rows && b.columns == c.columns);
  const std::size_t deepest = std::min(kDepth, a.rows);
  std::vector<T> left(deepest * round_up(std::min(kRows, c.rows), kPanelHeight));
  std::vector<T> right(deepest * round_up(std::min(kColumns<T>, c.columns), kWidth<T>));
  for (std::size_t j = 0; j < c.columns; j += kColumns<T>) {
    const std::size_t columns = std::min(kColumns<T>, c.columns - j);
    for (std::size_t k = 0; k < a.rows; k += kDepth) {
      const std::size_t depth = std::min(kDepth, a.rows - k);
      pack<kWidth<T>>(b.part(k, depth, j, columns), right.data());
      for (std::size_t i = 0; i < c.rows; i += kRows) {
        const std::size_t rows = std::min(kRows, c.rows - i);
        pack<kPanelHeight>(a.part(k, depth, i, rows), left.data());
        add_packed_parts(left.data(), right.data(), c.part(i, rows, j, columns), depth);
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
