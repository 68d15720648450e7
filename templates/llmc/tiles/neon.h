#pragma once

#include <stddef.h>

#include "llmc/target.h"

/// Tile sizes for Armv8. Integer products use tiles of kActivationTokens tokens (simd/neon.h).
/// simd/vec.h documents the constants. `llmc tune` tries other values and rewrites this file;
/// results do not depend on them.
namespace llmc {
inline namespace LLMC_ISA {

// f16 and f32, several tokens
inline constexpr size_t kFloatTokens = 6, kFloatPanels = 2;
// One token
inline constexpr size_t kWeightStreams = 2;

}  // namespace LLMC_ISA
}  // namespace llmc
