#pragma once

#include "llmc/llmc.h"
#include "llmc/model.h"

namespace llmc::core {

/// Converts the application's configuration to this version of the struct. Fields that an older
/// header lacks become zero; fields of a newer header must be zero (LLMC_ERROR_VERSION). NULL: all
/// zero.
llmc_status read_config(const llmc_config* given, llmc_config* config);

/// Returns whether the calling thread has the floating-point mode that the numerics contract
/// requires: round to nearest even, subnormals neither flushed nor treated as zero. Programs linked
/// with -ffast-math and audio code change it. Reads the processor's control register.
bool float_mode_is_default();

/// Checks that the model descriptor is valid and matches this runtime.
llmc_status check_model(const llmc_model* model);

/// Returns the embedded weights, or the given ones after their header.
llmc_status find_weights(const llmc_model& model, const llmc_config& config,
                         const unsigned char** weights);

}  // namespace llmc::core
