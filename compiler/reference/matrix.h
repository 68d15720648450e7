#pragma once

#include <cstdint>

/// Matrix products of the reference: every element is the sum over k, accumulated in double and
/// rounded once.
namespace llmc::reference {

/// c[m, n] = a[m, k] · b[k, n], row-major and dense.
void multiply(const float* a, const float* b, float* c, std::int64_t m, std::int64_t k,
              std::int64_t n);
/// c[m, n] = a[m, k] · b[n, k]^T: rows of b are outputs, as weights are kept.
void multiply_transposed(const float* a, const float* b, float* c, std::int64_t m, std::int64_t k,
                         std::int64_t n);

}  // namespace llmc::reference
