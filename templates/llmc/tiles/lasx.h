#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tiles of LASX: 2 panels x 4 tokens are 8 sums and 8 totals of the 32 registers, and chains
/// enough for two multipliers of 4 cycles (simd/vec.h says what each number is). `llmc tune` tries
/// others and writes this file anew; no result depends on them.
namespace llmc {
inline namespace LLMC_ISA {

// 4-bit codes, several tokens
inline constexpr size_t kTokenTile = 4, kPanelTile = 2;
// 8-bit codes, several tokens
inline constexpr size_t kByteTile = 8;
// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 4, kFloatPanels = 4;
// One token
inline constexpr size_t kWeightStreams = 4;

}  // namespace LLMC_ISA
}  // namespace llmc
