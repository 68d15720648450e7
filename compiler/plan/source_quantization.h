#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "compiler/ir/constant.h"
#include "llmc/sizes.h"

/// What quantized matrices of a model arrive as, and which coded format holds them exactly.
namespace llmc::plan {

struct SourceQuantization {
  /// "4-bit, blocks of 32, zero points"; empty when no row arrives quantized.
  std::string text;
  /// Of all matrices together, for a loop's iterations share one. nullopt: `requantize_reason` says
  /// why.
  std::optional<CodedFormat> format;
  std::string requantize_reason;
  int low = 0;  // smallest code
};

/// Looks at rows [begin, end) of all matrices. Reads scales and zero points, no codes.
SourceQuantization source_quantization_of(std::span<const ir::ConstantPtr> matrices,
                                          std::int64_t begin, std::int64_t end);

/// "int4/32 f16", "int8/256 zero f32"
std::string to_string(CodedFormat format);

}  // namespace llmc::plan
