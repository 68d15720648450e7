#pragma once

#include <cstdint>

/// Sizes that a model may have: far above any, far below where products of two of them overflow.
namespace llmc::importer {

inline constexpr std::int64_t kMaxHidden = 1 << 20;
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxHeads = 1 << 14;
inline constexpr std::int64_t kMaxHeadDim = 1 << 14;

}  // namespace llmc::importer
