#include "compiler/reference/matrix.h"

#include <algorithm>

namespace llmc::reference {
namespace {

/// Number of columns whose sums are computed together. 128 doubles for each of four rows fit the L1
/// cache, and the compiler vectorizes the inner loop.
constexpr std::int64_t kColumns = 128;

template <int Rows>
void multiply_rows(const float* a, const float* b, float* c, std::int64_t k, std::int64_t n,
                   std::int64_t columns) {
  double sums[Rows][kColumns] = {};
  for (std::int64_t i = 0; i < k; ++i) {
    const float* const row = b + i * n;
    double factors[Rows];
    for (int r = 0; r < Rows; ++r) factors[r] = static_cast<double>(a[r * k + i]);
    for (std::int64_t j = 0; j < columns; ++j) {
      const double x = static_cast<double>(row[j]);
      for (int r = 0; r < Rows; ++r) sums[r][j] += factors[r] * x;
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (std::int64_t j = 0; j < columns; ++j) c[r * n + j] = static_cast<float>(sums[r][j]);
}

/// Computes the dot products of one row of b with Rows rows of a. Each has eight partial sums.
template <int Rows>
void dot_rows(const float* a, const float* b, float* c, std::int64_t k, std::int64_t n) {
  constexpr int kLanes = 8;
  double sums[Rows][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes)
    for (int r = 0; r < Rows; ++r)
      for (int l = 0; l < kLanes; ++l)
        sums[r][l] += static_cast<double>(a[r * k + i + l]) * static_cast<double>(b[i + l]);
  for (int r = 0; r < Rows; ++r) {
    double sum = 0;
    for (std::int64_t j = i; j < k; ++j)
      sum += static_cast<double>(a[r * k + j]) * static_cast<double>(b[j]);
    for (int l = 0; l < kLanes; ++l) sum += sums[r][l];
    c[r * n] = static_cast<float>(sum);
  }
}

}  // namespace

void multiply(const float* a, const float* b, float* c, std::int64_t m, std::int64_t k,
              std::int64_t n) {
  for (std::int64_t j = 0; j < n; j += kColumns) {
    const std::int64_t columns = std::min(kColumns, n - j);
    std::int64_t i = 0;
    for (; i + 4 <= m; i += 4) multiply_rows<4>(a + i * k, b + j, c + i * n + j, k, n, columns);
    for (; i < m; ++i) multiply_rows<1>(a + i * k, b + j, c + i * n + j, k, n, columns);
  }
}

void multiply_transposed(const float* a, const float* b, float* c, std::int64_t m, std::int64_t k,
                         std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    std::int64_t i = 0;
    for (; i + 4 <= m; i += 4) dot_rows<4>(a + i * k, b + j * k, c + i * n + j, k, n);
    for (; i < m; ++i) dot_rows<1>(a + i * k, b + j * k, c + i * n + j, k, n);
  }
}

}  // namespace llmc::reference
