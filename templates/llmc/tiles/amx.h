#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tiles of AMX: q4 uses the processor's own tiles. simd/vec.h documents the numbers. `llmc tune`
/// tries other values and rewrites this file; results do not depend on them.
namespace llmc {
inline namespace LLMC_ISA {

// 6- and 8-bit codes, several tokens; kByteTile: with zero points or blocks of 16
inline constexpr size_t kVnniByteTokens = 6;
inline constexpr size_t kByteTile = 8;
// f16 and f32, several tokens: as on AVX-512, not measured with AMX
inline constexpr size_t kFloatTokens = 6, kFloatPanels = 4;
// Quantized weights, few tokens: up to 12 AVX-512 is faster than AMX's tiles
inline constexpr size_t kFewTokens = 6, kFewLimit = 12;
// One token
inline constexpr size_t kWeightStreams = 4;

}  // namespace LLMC_ISA
}  // namespace llmc
