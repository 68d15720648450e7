#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "compiler/ir/constant.h"
#include "llmc/sizes.h"

/// Detects how the matrices of a model are quantized, and selects the coded format that stores them
/// without loss.
namespace llmc::plan {

struct SourceQuantization {
  /// For example "4-bit, blocks of 32, zero points"; empty if no row is quantized.
  std::string text;
  /// Common format of all matrices, because the iterations of a loop share one; nullopt: see
  /// `requantize_reason`.
  std::optional<CodedFormat> format;
  std::string requantize_reason;
  int low = 0;  // smallest code
};

/// Examines rows [begin, end) of all matrices. Reads scales and zero points, but no codes.
SourceQuantization source_quantization_of(std::span<const ir::ConstantPtr> matrices,
                                          std::int64_t begin, std::int64_t end);

/// Returns, for example, "int4/32 f16" or "int8/256 zero f32".
std::string to_string(CodedFormat format);

}  // namespace llmc::plan
