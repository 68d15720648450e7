#pragma once

#include <cstdint>

/// Maximum sizes of a model: far above those of real models, and small enough that products of two
/// of them do not overflow.
namespace llmc::importer {

inline constexpr std::int64_t kMaxHidden = 1 << 20;
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxHeads = 1 << 14;
inline constexpr std::int64_t kMaxHeadDim = 1 << 14;

}  // namespace llmc::importer
