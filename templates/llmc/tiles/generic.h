#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tile sizes for the portable vectors: small, because values do not stay in registers anyway.
/// simd/vec.h documents the constants. `llmc tune` tries other values and rewrites this file;
/// results do not depend on them.
namespace llmc {
inline namespace LLMC_ISA {

// 4-bit codes, several tokens
inline constexpr size_t kTokenTile = 2, kPanelTile = 1;
// 6- and 8-bit codes, several tokens
inline constexpr size_t kByteTile = 2;
// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 6, kFloatPanels = 2;
// One token
inline constexpr size_t kWeightStreams = 1;

}  // namespace LLMC_ISA
}  // namespace llmc
