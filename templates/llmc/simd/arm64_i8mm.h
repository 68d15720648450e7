#pragma once

/// The operations of simd/vec.h for Armv8.6: like arm64.h, but with usmmla.
#define LLMC_I8MM
#include "llmc/simd/arm64.h"
