#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tiles of AMX: those of q4 are the processor's own (simd/vec.h says what each number is). `llmc
/// tune` tries others and writes this file anew; no result depends on them.
namespace llmc {
inline namespace LLMC_ISA {

// 8-bit codes, several tokens
inline constexpr size_t kByteTile = 8;
// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 12, kFloatPanels = 2;
// One token
inline constexpr size_t kWeightStreams = 4;

}  // namespace LLMC_ISA
}  // namespace llmc
