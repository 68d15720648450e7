#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "harness.h"
#include "llmc/sizes.h"

/// The documented arithmetic of each kernel (docs/numerics.md), one float at a time with the
/// standard library's fma: what every target has to equal.
namespace llmc::test {

template <class W>
float decoded(const unsigned char* data, std::size_t row, std::size_t k) {
  const unsigned char* panel = data + row / kPanelRows * W::kPanelBytes;
  const std::size_t lane = row % kPanelRows;
  if constexpr (W::kKind == WeightKind::kF32) return f32_decode(panel, lane, k);
  if constexpr (W::kKind == WeightKind::kF16) return f16_decode(panel, lane, k);
  if constexpr (W::kKind == WeightKind::kQ8) return q8_decode(panel, W::kColumns, lane, k);
  if constexpr (W::kKind == WeightKind::kQ4) return q4_decode(panel, W::kColumns, lane, k);
  if constexpr (is_coded(W::kKind)) {
    return coded_decode(coded_format(W::kKind), panel, W::kColumns, lane, k);
  }
}

/// The elements that are quantized, and per 256 the scale 2^-e of the transform.
struct ReferenceInput {
  std::vector<float> x;
  std::vector<float> scale;
};
inline ReferenceInput reference_transform(const float* x, std::size_t k_total, Basis basis) {
  ReferenceInput result{{x, x + k_total}, {}};
  for (std::size_t begin = 0; begin < k_total; begin += 256) {
    const std::size_t columns = std::min<std::size_t>(256, k_total - begin);
    int bits = 0;
    while (basis == Basis::kHadamard && columns % (std::size_t{2} << bits) == 0) ++bits;
    if (bits < 5) bits = 0;
    result.scale.push_back(std::ldexp(1.0f, -(bits / 2)));
    const std::size_t n = std::size_t{1} << bits;
    for (std::size_t group = begin; n > 1 && group < begin + columns; group += n) {
      float* const at = result.x.data() + group;
      for (std::size_t i = 0; i < n; ++i) {
        if ((i & 24) == 24) at[i] = -at[i];
        if (n >= 128 && i >= n / 4 * 3) at[i] = -at[i];
      }
      for (std::size_t h = n / 2; h > 0; h /= 2) {
        for (std::size_t i = 0; i < n; ++i) {
          if ((i & h) != 0) continue;
          const float u = at[i], v = at[i + h];
          at[i] = u + v;
          at[i + h] = u - v;
        }
      }
    }
  }
  return result;
}

struct ReferenceActivation {
  std::vector<int> code;
  std::vector<float> scale;  // per 256
};
inline ReferenceActivation reference_quantize(const float* input, std::size_t k_total,
                                              Basis basis = Basis::kPlain) {
  const ReferenceInput transformed = reference_transform(input, k_total, basis);
  const std::vector<float>& x = transformed.x;
  ReferenceActivation result{std::vector<int>(k_total), {}};
  for (std::size_t begin = 0; begin < k_total; begin += 256) {
    const std::size_t end = std::min<std::size_t>(begin + 256, k_total);
    float largest = 0;
    for (std::size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(x[k]));
    const bool empty = largest < 0x1p-96f;
    result.scale.push_back(empty ? 0 : largest / 127 * transformed.scale[begin / 256]);
    const float inverse = empty ? 0 : 127 / largest;
    for (std::size_t k = begin; k < end; ++k) {
      result.code[k] = static_cast<int>(std::nearbyint(x[k] * inverse));
    }
  }
  return result;
}

/// One superblock of a coded row: what is multiplied by the activations' scale.
template <CodedFormat kFormat, std::size_t K>
float coded_part(const unsigned char* panel, std::size_t lane, std::size_t super,
                 const std::vector<int>& a) {
  float part = 0;
  for (std::size_t begin = super * 256; begin < super * 256 + 256 && begin < K;
       begin += kFormat.block) {
    std::int64_t dot = 0, total = 0;
    for (std::size_t k = begin; k < begin + kFormat.block && k < K; ++k) {
      dot += coded_code(kFormat, panel, K, lane, k) * a[k];
      total += a[k];
    }
    const std::size_t group = begin / kFormat.block;
    const float difference = std::fma(-coded_zero(kFormat, panel, K, lane, group),
                                      static_cast<float>(total), static_cast<float>(dot));
    part = std::fma(coded_scale(kFormat, panel, K, lane, group), difference, part);
  }
  return part;
}

/// All rows of W times one row x.
template <class W>
std::vector<float> reference_product(const unsigned char* data, const float* x) {
  constexpr std::size_t K = W::kColumns;
  std::vector<float> result(W::kRows);
  ReferenceActivation a;
  if (W::kQuantized) a = reference_quantize(x, K, W::kBasis);
  for (std::size_t row = 0; row < W::kRows; ++row) {
    const unsigned char* panel = data + row / kPanelRows * W::kPanelBytes;
    const std::size_t lane = row % kPanelRows;
    float sum = 0;
    if constexpr (!W::kQuantized) {
      for (std::size_t k = 0; k < K; ++k) sum = std::fma(decoded<W>(data, row, k), x[k], sum);
    } else {
      for (std::size_t super = 0; super * 256 < K; ++super) {
        std::int64_t i1 = 0, i2 = 0;
        float part = 0;
        if constexpr (is_coded(W::kKind)) {
          part = coded_part<coded_format(W::kKind), K>(panel, lane, super, a.code);
        }
        for (std::size_t block = super * 8;
             !is_coded(W::kKind) && block < super * 8 + 8 && block * 32 < K; ++block) {
          std::int64_t dot = 0, total = 0;
          for (std::size_t k = block * 32; k < block * 32 + 32 && k < K; ++k) {
            if constexpr (W::kKind == WeightKind::kQ4) dot += q4_code(panel, lane, k) * a.code[k];
            if constexpr (W::kKind == WeightKind::kQ8) dot += q8_code(panel, lane, k) * a.code[k];
            total += a.code[k];
          }
          if constexpr (W::kKind == WeightKind::kQ4) {
            i1 += q4_scale(panel, K, lane, block) * dot;
            i2 += q4_min(panel, K, lane, block) * total;
          } else if constexpr (W::kKind == WeightKind::kQ8) {
            part = std::fma(q8_scale(panel, K, lane, block), static_cast<float>(dot), part);
          }
        }
        if constexpr (W::kKind == WeightKind::kQ4) {
          part = std::fma(q4_row_scale(panel, lane), static_cast<float>(i1),
                          q4_row_min(panel, lane) * static_cast<float>(i2));
        }
        sum = std::fma(a.scale[super], part, sum);
      }
    }
    result[row] = sum;
  }
  return result;
}

/// In double from the float angle.
inline void reference_rope(float* x, std::size_t rotary, bool interleaved, const float* frequencies,
                           std::size_t position) {
  for (std::size_t i = 0; i < rotary / 2; ++i) {
    const double angle = static_cast<float>(position) * frequencies[i];
    float& first = x[interleaved ? 2 * i : i];
    float& second = x[interleaved ? 2 * i + 1 : i + rotary / 2];
    const double a = first, b = second;
    first = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
    second = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
  }
}

}  // namespace llmc::test
