#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Packs the weights of models that are already quantized, without changing their codes
/// (templates/llmc/quant/coded.h):
///
///     w[r][k] = (code[r][k] - zero[r][k / block]) * scale[r][k / block]
namespace llmc::quant {

/// Rows of a quantized matrix, all row-major floats.
struct CodedRows {
  std::span<const float> codes;          // [rows, columns], integers low..high
  std::span<const float> scales, zeros;  // [rows, ceil(columns / format.block)]
  int low = 0;                           // minimum code
};

/// Determines a format that represents a quantized matrix exactly: starts with the range of the
/// codes, then takes scales and zero points into account.
class CodedChoice {
 public:
  /// Returns a choice for codes from `low` to `high`. `block`: number of weights along K that share
  /// a scale; 0: the whole row. Returns nullopt if no format supports such codes (more than 8 bits)
  /// or blocks (not a multiple of 16).
  static std::optional<CodedChoice> start(int low, int high, std::int64_t block);

  std::int64_t block() const { return format_.block; }
  /// Takes the scales and zero points of some rows into account. Returns false if a zero point is
  /// not representable.
  bool add(std::span<const float> scales, std::span<const float> zeros);
  CodedFormat format() const;

 private:
  CodedChoice(int low, CodedFormat format) : low_(low), format_(format) {}

  int low_;
  CodedFormat format_;
  bool half_scales_ = true, half_zeros_ = true, integer_zeros_ = true, default_zeros_ = true;
};

/// Packs rows [first_row, …) like pack_panels(). Fails with kBadInput if a scale or zero point is
/// not finite, or weights could be too large for a float; the message names the row and the first
/// column of the block.
Status pack_coded_panels(CodedFormat format, const CodedRows& rows, std::size_t columns,
                         std::uint64_t first_row, std::span<std::byte> out);
/// Packs rows of coded_row_bytes each, for a table. Fails like pack_coded_panels().
Status pack_coded_table(CodedFormat format, const CodedRows& rows, std::size_t columns,
                        std::uint64_t first_row, std::span<std::byte> out);

}  // namespace llmc::quant
