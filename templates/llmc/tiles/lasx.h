#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tile sizes for LASX: 8 sums and 8 totals of 2 panels x 4 tokens fit in the 32 registers, and are
/// enough dependency chains for two multipliers with a latency of 4 cycles. simd/vec.h documents
/// the constants. `llmc tune` tries other values and rewrites this file; results do not depend on
/// them.
namespace llmc {
inline namespace LLMC_ISA {

// q4, several tokens
inline constexpr size_t kTokenTile = 4, kPanelTile = 2;
// 6- and 8-bit codes and coded 4-bit weights, several tokens
inline constexpr size_t kByteTile = 8;
// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 4, kFloatPanels = 4;
// One token
inline constexpr size_t kWeightStreams = 4;

}  // namespace LLMC_ISA
}  // namespace llmc
