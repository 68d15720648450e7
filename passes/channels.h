#pragma once

#include <cstdint>
#include <vector>

/// Axes of images and signals: ONNX has the channels first, linear layers read them last.
namespace llmc::passes {

/// Returns the permutation from dims [N, C, size…] to [N, size…, C]. `rank` must be at least 2.
std::vector<std::int64_t> channels_last(std::size_t rank);
/// Returns the inverse permutation.
std::vector<std::int64_t> channels_first(std::size_t rank);

}  // namespace llmc::passes
