#pragma once

#include "llmc/llmc.h"
#include "llmc/model.h"

namespace llmc::core {

/// The application's configuration as this runtime knows it: fields its older header lacks are
/// zero; fields of a newer one must be. NULL: all zero. LLMC_ERROR_VERSION otherwise.
llmc_status read_config(const llmc_config* given, llmc_config* config);

/// Whether the calling thread computes as the numerics contract assumes: rounding to nearest even,
/// subnormals neither flushed nor taken for zero. Programs linked with -ffast-math and audio code
/// change it. Asks the processor.
bool float_mode_is_default();

/// Whether the model's description fits this runtime and itself.
llmc_status check_model(const llmc_model* model);

/// The model's own weights, or the given ones past their header.
llmc_status find_weights(const llmc_model& model, const llmc_config& config,
                         const unsigned char** weights);

}  // namespace llmc::core
