#pragma once

#include <cstddef>
#include <span>

/// Matrix products for calibration. Each element of a result is accumulated in the order of the
/// inner index, starting from its previous value. Floats are accumulated by fused multiply-adds.
/// With doubles, each product and each sum is rounded separately. Therefore the bits do not depend
/// on the processor, on tiles or on threads.
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

/// Adds a^T · b to `c`: c[i][j] += a[0][i]·b[0][j] + a[1][i]·b[1][j] + …. `a` and `b` have the same
/// number of rows. `c` must not overlap them.
void add_products(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
void add_products(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c);

/// Writes the transpose of `from` to `to`.
void transpose(MatrixView<const float> from, MatrixView<float> to);

/// Number of lanes of add_lanes(): columns of its matrices `b` and `c`.
inline constexpr std::size_t kLanes = 16;
/// Like add_products(), adds a[k][i]·b[k][lane] to c[i][lane] for all k < depth. The matrices are
/// contiguous. `a` has `width` columns, a multiple of 8; `b` and `c` have kLanes columns.
void add_lanes(const float* a, std::size_t width, const float* b, float* c, std::size_t depth);

}  // namespace llmc::quant
