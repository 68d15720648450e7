#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tile sizes for AVX-512: 24 sums of q4 leave 8 of the 32 registers. simd/vec.h documents the
/// constants. `llmc tune` tries other values and rewrites this file; results do not depend on them.
namespace llmc {
inline namespace LLMC_ISA {

// q4, several tokens: number of tokens and of vectors of rows
inline constexpr size_t kVnniTokens = 12, kVnniVectors = 2;
// 6- and 8-bit codes, several tokens; kByteTile: with zero points or blocks of 16
inline constexpr size_t kVnniByteTokens = 6;
inline constexpr size_t kByteTile = 8;
// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 12, kFloatPanels = 4;
// Quantized weights, few tokens
inline constexpr size_t kFewTokens = 8, kFewLimit = 16;
// One token
inline constexpr size_t kWeightStreams = 4;

}  // namespace LLMC_ISA
}  // namespace llmc
