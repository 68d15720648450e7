#pragma once

#include "llmc/llmc.h"
#include "llmc/model.h"

namespace llmc::core {

/// Converts the application's configuration to this version of the struct. Fields that an older
/// header does not have become zero. If `given` is NULL, all fields except the size become zero.
/// Fails with LLMC_ERROR_VERSION if the size is impossible, or if fields that only a newer header
/// has are not zero. Fails with LLMC_ERROR_ARGUMENT for unknown values of the enumerations.
llmc_status read_config(const llmc_config* given, llmc_config* config);

/// Returns whether the calling thread has the floating-point mode that exact results require: round
/// to nearest even; subnormals are neither flushed nor treated as zero; on AArch64 also no default
/// NaN, alternate handling or alternative half-precision format. Programs linked with -ffast-math
/// and audio code often change this mode. Reads the processor's control register.
bool float_mode_is_default();

/// Checks that the model descriptor has the version of this runtime (LLMC_ERROR_VERSION) and is
/// valid (LLMC_ERROR_MODEL).
llmc_status check_model(const llmc_model* model);

/// Checks the accelerator of the configuration, if any: its version (LLMC_ERROR_VERSION), its
/// functions (LLMC_ERROR_ARGUMENT), and that the model has regions (LLMC_ERROR_DEVICE).
llmc_status check_device(const llmc_model& model, const llmc_config& config);

/// Sets *weights to the embedded weights or, if there are none, to the weights in the
/// configuration, past their header. Fails with LLMC_ERROR_WEIGHTS and a log message.
llmc_status find_weights(const llmc_model& model, const llmc_config& config,
                         const unsigned char** weights);

}  // namespace llmc::core
