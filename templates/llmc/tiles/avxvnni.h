#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tile sizes for AVX-VNNI: 12 sums of q4 leave 4 of the 16 registers. simd/vec.h documents the
/// constants. `llmc tune` tries other values and rewrites this file; results do not depend on them.
namespace llmc {
inline namespace LLMC_ISA {

// q4, several tokens: number of tokens and of vectors of rows
inline constexpr size_t kVnniTokens = 6, kVnniVectors = 2;
// 6- and 8-bit codes, several tokens
inline constexpr size_t kByteTile = 4;
// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 6, kFloatPanels = 2;
// Quantized weights, few tokens
inline constexpr size_t kFewTokens = 4, kFewLimit = 16;
// One token
inline constexpr size_t kWeightStreams = 4;

}  // namespace LLMC_ISA
}  // namespace llmc
