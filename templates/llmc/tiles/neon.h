#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tiles of Armv8: those of integer products are the groups of activations (simd/neon.h).
/// simd/vec.h documents the numbers. `llmc tune` tries other values and rewrites this file; results
/// do not depend on them.
namespace llmc {
inline namespace LLMC_ISA {

// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 6, kFloatPanels = 2;
// One token
inline constexpr size_t kWeightStreams = 2;

}  // namespace LLMC_ISA
}  // namespace llmc
