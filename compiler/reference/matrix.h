#pragma once

#include <cstdint>

/// Matrix products of the reference interpreter: every element is a sum over k, accumulated in
/// double and rounded once.
namespace llmc::reference {

/// Computes c[m, n] = a[m, k] · b[k, n], row-major and dense.
void multiply(const float* a, const float* b, float* c, std::int64_t m, std::int64_t k,
              std::int64_t n);
/// Computes c[m, n] = a[m, k] · b[n, k]^T, where b has the layout of weights: one row per output.
void multiply_transposed(const float* a, const float* b, float* c, std::int64_t m, std::int64_t k,
                         std::int64_t n);

}  // namespace llmc::reference
