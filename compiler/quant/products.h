#pragma once

#include <cstddef>
#include <span>

/// Sums of products for calibration. Each element of a result is one sum in order of the inner
/// index, starting from the element's own value. Floats are added by fused multiply-adds, rounded
/// once; of doubles each product and each sum is rounded. So the bits do not depend on the
/// processor, on tiles or on threads.
namespace llmc::quant {

/// A row-major matrix in memory.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0, columns = 0;
  std::size_t stride = 0;  // elements between the starts of two rows

  T* row(std::size_t i) const { return data + i * stride; }
  MatrixView part(std::size_t row0, std::size_t row_count, std::size_t column0,
                  std::size_t column_count) const {
    return {data + row0 * stride + column0, row_count, column_count, stride};
  }
};

/// Adds a^T · b to `c`: c[i][j] += a[0][i]·b[0][j] + a[1][i]·b[1][j] + …. `a` and `b` have as many
/// rows as there are products; `c` must not overlap them.
void add_products(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
void add_products(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c);

/// Writes the transpose of `from` to `to`.
void transpose(MatrixView<const float> from, MatrixView<float> to);

/// Number of rows whose elements lie side by side for add_lanes().
inline constexpr std::size_t kLanes = 16;
/// Adds to c[i][lane] the products a[k][i]·b[k][lane] for k below `depth`, like add_products(), for
/// `a` of `width` columns (a multiple of 8) without space between rows, and 16 lanes.
void add_lanes(const float* a, std::size_t width, const float* b, float* c, std::size_t depth);

}  // namespace llmc::quant
