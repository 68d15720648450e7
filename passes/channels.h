#pragma once

#include <cstdint>
#include <vector>

#include "passes/match.h"

/// Axes of images and signals: ONNX has the channels first, linear layers read them last.
namespace llmc::passes {

/// Returns the permutation from dims [N, C, size…] to [N, size…, C]. `rank` must be at least 2.
std::vector<std::int64_t> channels_last(std::size_t rank);
/// Returns the inverse permutation.
std::vector<std::int64_t> channels_first(std::size_t rank);

/// Emits the Pad `pad` for `x`, its operand with the channels last. Returns kNoValue if the pads
/// are not constant.
ir::ValueId pad_channels_last(Rewriter& rw, const ir::Node& pad, ir::ValueId x, NodeIndex anchor);

}  // namespace llmc::passes
