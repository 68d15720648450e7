#include "compiler/quant/products.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "compiler/quant/product_kernels.h"
#include "compiler/support/check.h"
#include "llmc/quant/layout.h"
#include "llmc/simd/generic.h"

namespace llmc::quant {
namespace {

/// Sizes of the parts of operands that are packed at a time. With floats, the left part (96 KiB)
/// fits an L2 cache, and one panel of each operand fits an L1 cache. The right part (up to 2 MiB)
/// is read once for each left part. With doubles, the left part has twice as many bytes, the right
/// part the same number.
constexpr std::size_t kDepth = 256, kRows = 96;
template <class T>
constexpr std::size_t kColumns = 8192 / sizeof(T);
static_assert(kRows % kPanelHeight == 0);

template <class T>
using Vector = T __attribute__((ext_vector_type(kPanelWidth<T>)));

#if defined(__x86_64__) && !defined(__FMA__)
constexpr bool kAlwaysFma = false;
#else
constexpr bool kAlwaysFma = true;
#endif

/// Adds x * a. Floats are rounded once, doubles twice: not every processor has a fused
/// multiply-add, and a library's fma() of doubles is thousands of times as slow.
template <bool kFma, class T>
[[gnu::always_inline]] inline void add_scaled(Vector<T>& sum, const Vector<T>& x, T a) {
  if constexpr (sizeof(T) == sizeof(double)) {
    sum = sum + x * a;
  } else if constexpr (kFma) {
    sum = __builtin_elementwise_fma(x, static_cast<Vector<T>>(a), sum);
  } else {
    using generic::portable::F32;
    constexpr int kParts = sizeof(Vector<T>) / sizeof(F32);
    const Vector<T> factors = static_cast<Vector<T>>(a);
    F32 sums[kParts], values[kParts], factor;
    std::memcpy(sums, &sum, sizeof(sums));
    std::memcpy(values, &x, sizeof(values));
    std::memcpy(&factor, &factors, sizeof(factor));
    for (int i = 0; i < kParts; ++i) generic::portable::fma_lanes(values[i], factor, sums[i]);
    std::memcpy(&sum, sums, sizeof(sums));
  }
}

/// Adds a tile of Rows x kPanelWidth elements.
template <int Rows, bool kFma, class T>
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
      add_scaled<kFma>(sums[i], x, a[k * a_stride + static_cast<std::size_t>(i)]);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
    std::memcpy(c + static_cast<std::size_t>(i) * c_stride, &sums[i], kVectorBytes);
}

/// Adds the products of packed parts, a in panels of kPanelHeight columns and b of kPanelWidth, to
/// `c`.
template <int Rows, bool kFma, class T>
[[gnu::always_inline]] inline void add_packed(const T* a, const T* b, MatrixView<T> c,
                                              std::size_t depth) {
  static_assert(kPanelHeight % Rows == 0);
  for (std::size_t j = 0; j < c.columns; j += kPanelWidth<T>) {
    for (std::size_t i = 0; i < c.rows; i += Rows) {
      const T* const left = a + i / kPanelHeight * kPanelHeight * depth + i % kPanelHeight;
      const T* const right = b + j * depth;
      const std::size_t rows = std::min<std::size_t>(Rows, c.rows - i);
      const std::size_t columns = std::min(kPanelWidth<T>, c.columns - j);
      if (rows == Rows && columns == kPanelWidth<T>) {
        add_tile<Rows, kFma>(left, kPanelHeight, right, kPanelWidth<T>, c.row(i) + j, c.stride,
                             depth);
        continue;
      }
      T tile[Rows * kPanelWidth<T>] = {};
      for (std::size_t r = 0; r < rows; ++r)
        std::copy_n(c.row(i + r) + j, columns, tile + r * kPanelWidth<T>);
      add_tile<Rows, kFma>(left, kPanelHeight, right, kPanelWidth<T>, tile, kPanelWidth<T>, depth);
      for (std::size_t r = 0; r < rows; ++r)
        std::copy_n(tile + r * kPanelWidth<T>, columns, c.row(i + r) + j);
    }
  }
}

/// Splits the depth so that a part of `b` stays in the L1 cache for all rows.
template <int Rows, bool kFma>
[[gnu::always_inline]] inline void add_lane_tiles(const float* a, std::size_t width, const float* b,
                                                  float* c, std::size_t depth) {
  constexpr std::size_t kLaneDepth = 128;
  for (std::size_t k = 0; k < depth; k += kLaneDepth)
    for (std::size_t i = 0; i < width; i += Rows)
      add_tile<Rows, kFma>(a + k * width + i, width, b + k * kLanes, kLanes, c + i * kLanes, kLanes,
                           std::min(kLaneDepth, depth - k));
}

// The same code for several instruction sets: more registers allow larger tiles.
void floats_anywhere(const float* a, const float* b, MatrixView<float> c, std::size_t depth) {
  add_packed<4, kAlwaysFma>(a, b, c, depth);
}
void doubles_anywhere(const double* a, const double* b, MatrixView<double> c, std::size_t depth) {
  add_packed<4, kAlwaysFma>(a, b, c, depth);
}
void lanes_anywhere(const float* a, std::size_t width, const float* b, float* c,
                    std::size_t depth) {
  add_lane_tiles<4, kAlwaysFma>(a, width, b, c, depth);
}
constexpr ProductKernels kPortable{"any", floats_anywhere, doubles_anywhere, lanes_anywhere};

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void floats_avx2(const float* a, const float* b, MatrixView<float> c,
                                             std::size_t depth) {
  add_packed<6, true>(a, b, c, depth);
}
[[gnu::target("avx2,fma")]] void doubles_avx2(const double* a, const double* b,
                                              MatrixView<double> c, std::size_t depth) {
  add_packed<6, true>(a, b, c, depth);
}
[[gnu::target("avx2,fma")]] void lanes_avx2(const float* a, std::size_t width, const float* b,
                                            float* c, std::size_t depth) {
  add_lane_tiles<4, true>(a, width, b, c, depth);
}
constexpr ProductKernels kAvx2{"avx2", floats_avx2, doubles_avx2, lanes_avx2};
[[gnu::target("avx512f")]] void floats_avx512(const float* a, const float* b, MatrixView<float> c,
                                              std::size_t depth) {
  add_packed<12, true>(a, b, c, depth);
}
[[gnu::target("avx512f")]] void doubles_avx512(const double* a, const double* b,
                                               MatrixView<double> c, std::size_t depth) {
  add_packed<12, true>(a, b, c, depth);
}
[[gnu::target("avx512f")]] void lanes_avx512(const float* a, std::size_t width, const float* b,
                                             float* c, std::size_t depth) {
  add_lane_tiles<8, true>(a, width, b, c, depth);
}
constexpr ProductKernels kAvx512{"avx512", floats_avx512, doubles_avx512, lanes_avx512};
#endif

const ProductKernels& kernels() {
  return product_kernels().back();
}
void add_packed_parts(const float* a, const float* b, MatrixView<float> c, std::size_t depth) {
  kernels().floats(a, b, c, depth);
}
void add_packed_parts(const double* a, const double* b, MatrixView<double> c, std::size_t depth) {
  kernels().doubles(a, b, c, depth);
}

/// Memory of a thread for packed operands. It is aligned to a cache line, so that no vector crosses
/// one, and grows as needed. Allocating it again for each product would fault in all its pages
/// again.
class PackedMemory {
 public:
  /// Returns memory for `count` numbers, whose values are undefined.
  template <class T>
  T* resized(std::size_t count) {
    const std::size_t bytes = round_up(count * sizeof(T), kVectorBytes);
    if (bytes > bytes_) {
      memory_.reset(std::aligned_alloc(kVectorBytes, bytes));
      bytes_ = memory_ ? bytes : 0;
      if (!memory_) throw std::bad_alloc();
    }
    return static_cast<T*>(memory_.get());
  }

 private:
  std::unique_ptr<void, decltype(&std::free)> memory_{nullptr, std::free};
  std::size_t bytes_ = 0;
};

/// Copies a part to panels of Width columns: [panels][rows][Width]. The last panel is padded with
/// zeros. Reads row by row, because rows at distances of a power of two would evict each other from
/// the cache before the next panel reads the rest of a line.
template <std::size_t Width, class T>
void pack(MatrixView<const T> from, T* to) {
  const std::size_t whole = from.columns / Width * Width, rest = from.columns - whole;
  for (std::size_t k = 0; k < from.rows; ++k, to += Width) {
    const T* const row = from.row(k);
    T* panel = to;
    for (std::size_t j = 0; j < whole; j += Width, panel += from.rows * Width)
      std::memcpy(panel, row + j, Width * sizeof(T));
    if (rest == 0) continue;
    std::copy_n(row + whole, rest, panel);
    std::fill_n(panel + rest, Width - rest, T{0});
  }
}

template <class T>
void add_blocked(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  LLMC_CHECK(a.rows == b.rows && a.columns == c.rows && b.columns == c.columns);
  if (a.rows == 0) return;
  const std::size_t deepest = std::min(kDepth, a.rows);
  static thread_local PackedMemory left_memory, right_memory;
  T* const left = left_memory.resized<T>(deepest * round_up(std::min(kRows, c.rows), kPanelHeight));
  T* const right =
      right_memory.resized<T>(deepest * round_up(std::min(kColumns<T>, c.columns), kPanelWidth<T>));
  for (std::size_t j = 0; j < c.columns; j += kColumns<T>) {
    const std::size_t columns = std::min(kColumns<T>, c.columns - j);
    for (std::size_t k = 0; k < a.rows; k += kDepth) {
      const std::size_t depth = std::min(kDepth, a.rows - k);
      pack<kPanelWidth<T>>(b.part(k, depth, j, columns), right);
      for (std::size_t i = 0; i < c.rows; i += kRows) {
        const std::size_t rows = std::min(kRows, c.rows - i);
        pack<kPanelHeight>(a.part(k, depth, i, rows), left);
        add_packed_parts(left, right, c.part(i, rows, j, columns), depth);
      }
    }
  }
}

}  // namespace

std::span<const ProductKernels> product_kernels() {
  static const std::vector<ProductKernels> all = [] {
    std::vector<ProductKernels> found{kPortable};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(kAvx2);
    if (__builtin_cpu_supports("avx512f")) found.push_back(kAvx512);
#endif
    return found;
  }();
  return all;
}

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
