#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "compiler/ir/constant.h"
#include "llmc/sizes.h"

/// Detection of the quantization of a model's matrices, and of the coded format that stores it
/// without loss.
namespace llmc::plan {

struct SourceQuantization {
  /// For example "4-bit, blocks of 32, zero points". Begins with "partly " if no matrix is
  /// completely quantized. Empty if no row is quantized.
  std::string text;
  /// Lossless format for all matrices, because the iterations of a loop share one format. nullopt
  /// if there is none; `requantize_reason` states why, unless `text` is empty.
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
