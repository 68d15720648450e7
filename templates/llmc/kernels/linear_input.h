#pragma once

#include "llmc/kernels/norm.h"
#include "llmc/kernels/quantize.h"

/// Sources of linear() (linear.h): rows of floats, rows of floats to which a norm is applied, and
/// quantized rows. row(token, buffer) returns a row, and from(first) the source of the rows from
/// `first` on. Products of floats read copies of the rows if kCopied is set, otherwise x. If
/// kInBlocks is set, linear_rows() does not prepare all rows at the same time.
namespace llmc {
inline namespace LLMC_ISA {

/// Rows of x, f32[tokens][K].
template <size_t K>
struct Rows {
  static constexpr size_t kColumns = K;
  static constexpr bool kCopied = false, kInBlocks = false;
  const float* x;

  LLMC_INLINE const float* row(size_t token, float*) const { return x + token * K; }
  LLMC_INLINE Rows from(size_t first) const { return {x + first * K}; }
};

/// Rows that quantize_rows() has quantized.
template <size_t K>
struct QuantizedRows {
  static constexpr size_t kColumns = K;
  static constexpr bool kCopied = false, kInBlocks = false;
  const uint8_t* x;

  LLMC_INLINE QuantizedRows from(size_t first) const { return {x + first * quantized_bytes(K, 1)}; }
};

/// x / sqrt(mean(x^2) + eps) * weight
template <size_t K>
struct RmsNorm {
  static constexpr size_t kColumns = K;
  static constexpr bool kCopied = true, kInBlocks = false;
  const float* x;
  const float* weight;
  float eps;

  LLMC_INLINE const float* row(size_t token, float* buffer) const {
    rms_norm_row<K>(x + token * K, weight, eps, buffer);
    return buffer;
  }
  LLMC_INLINE RmsNorm from(size_t first) const { return {x + first * K, weight, eps}; }
};

/// (x - mean) / sqrt(variance + eps) * weight + bias
template <size_t K>
struct LayerNorm {
  static constexpr size_t kColumns = K;
  static constexpr bool kCopied = true, kInBlocks = false;
  const float* x;
  const float* weight;
  const float* bias;
  float eps;

  LLMC_INLINE const float* row(size_t token, float* buffer) const {
    layer_norm_row<K>(x + token * K, weight, bias, eps, buffer);
    return buffer;
  }
  LLMC_INLINE LayerNorm from(size_t first) const { return {x + first * K, weight, bias, eps}; }
};

/// Converts rows of a source to the format that the product reads: quantized rows, or copies of
/// float rows at a distance of kRowBytes.
template <class Source, class Weight>
struct LinearInput {
  static constexpr size_t K = Weight::kColumns;
  static constexpr size_t kRowBytes = round_up(K * sizeof(float), kAlignment);
  static_assert(Source::kColumns == K, "source and weight disagree about K");

  /// Prepares row `token` of `tokens` rows in `area`. `buffer` has room for one row.
  static LLMC_INLINE void prepare(const Source& source, size_t token, size_t tokens,
                                  unsigned char* area, float* buffer) {
    if constexpr (__is_same(Source, QuantizedRows<K>)) {
      static_assert(Weight::kQuantized, "the weight takes rows of floats");
      copy_quantized_row<K>(source.x + token * quantized_bytes(K, 1), quantized_at<K>(area, tokens),
                            token);
    } else if constexpr (Weight::kQuantized) {
      quantize_row<K, Weight::kBasis>(source.row(token, buffer), quantized_at<K>(area, tokens),
                                      token);
    } else if constexpr (Source::kCopied) {
      float* const copy = reinterpret_cast<float*>(area + token * kRowBytes);
      const float* const row = source.row(token, copy);
      if (row != copy) __builtin_memcpy(copy, row, K * sizeof(float));
    }
  }
};

/// The prepared rows of tokens [token, token + count) of a stage with `tokens` tokens.
template <class Source>
struct PreparedRows {
  const Source& source;
  unsigned char* input;
  size_t tokens, token, count;

  /// Return the first row as floats, and the distance between rows in floats.
  template <class Weight>
  LLMC_INLINE const float* floats() const {
    if constexpr (Source::kCopied) {
      return reinterpret_cast<const float*>(input) + token * stride<Weight>();
    } else {
      return source.x + token * Source::kColumns;
    }
  }
  template <class Weight>
  static constexpr size_t stride() {
    return Source::kCopied ? LinearInput<Source, Weight>::kRowBytes / sizeof(float)
                           : Source::kColumns;
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc
