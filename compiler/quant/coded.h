#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Weights that arrive quantized, stored in their own codes (templates/llmc/quant/coded.h):
///   w[r][k] = (code[r][k] - zero[r][k / block]) * scale[r][k / block]
namespace llmc::quant {

/// Rows as the model has them, all row-major floats.
struct CodedRows {
  std::span<const float> codes;          // [rows, columns], integers low..high
  std::span<const float> scales, zeros;  // [rows, ceil(columns / format.block)]
  int low = 0;                           // of the codes' range
};

/// Which formats can hold weights exactly: starts with what the codes need and learns from scales
/// and zero points.
class CodedChoice {
 public:
  /// `block`: weights along K that share a scale, 0: the whole row. nullopt when no format has such
  /// codes (more than 8 bits between `low` and `high`) or blocks (not a multiple of 16).
  static std::optional<CodedChoice> start(int low, int high, std::int64_t block);

  std::int64_t block() const { return format_.block; }
  /// Scales and zero points of some rows. False when a zero point cannot be held.
  bool add(std::span<const float> scales, std::span<const float> zeros);
  CodedFormat format() const;

 private:
  CodedChoice(int low, CodedFormat format) : low_(low), format_(format) {}

  int low_;
  CodedFormat format_;
  bool half_scales_ = true, half_zeros_ = true, integer_zeros_ = true, middle_zeros_ = true;
};

/// Packs rows [first_row, …) as pack_panels does. kBadInput names row and column of a scale or zero
/// point that is not finite, or of a weight that is too large for a float.
Status pack_coded_panels(CodedFormat format, const CodedRows& rows, std::size_t columns,
                         std::uint64_t first_row, std::span<std::byte> out);
/// The same for a table: rows of coded_row_bytes.
Status pack_coded_table(CodedFormat format, const CodedRows& rows, std::size_t columns,
                        std::uint64_t first_row, std::span<std::byte> out);

}  // namespace llmc::quant
