#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tile sizes for AMX, whose tile registers compute q4 products with many tokens. simd/vec.h
/// documents the constants. `llmc tune` tries other values and rewrites this file; results do not
/// depend on them.
namespace llmc {
inline namespace LLMC_ISA {

// 6- and 8-bit codes, several tokens; kByteTile: with zero points or blocks of 16
inline constexpr size_t kVnniByteTokens = 6;
inline constexpr size_t kByteTile = 8;
// f16 and f32, several tokens: as on AVX-512, not measured with AMX
inline constexpr size_t kFloatTokens = 12, kFloatPanels = 4;
// Quantized weights, few tokens: AVX-512 is faster than AMX up to kFewLimit
inline constexpr size_t kFewTokens = 6, kFewLimit = 12;
// One token
inline constexpr size_t kWeightStreams = 4;

}  // namespace LLMC_ISA
}  // namespace llmc
