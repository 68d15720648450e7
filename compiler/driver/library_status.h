#pragma once

#include "compiler/support/result.h"
#include "llmc/llmc.h"

namespace llmc::driver {

/// Returns the error kind for a status of a compiled library other than LLMC_OK.
inline ErrorKind kind_of(llmc_status status) {
  const bool unsupported = status == LLMC_ERROR_CPU || status == LLMC_ERROR_VERSION ||
                           status == LLMC_ERROR_SOURCE || status == LLMC_ERROR_DEVICE;
  return unsupported ? ErrorKind::kUnsupported : ErrorKind::kBadInput;
}

}  // namespace llmc::driver
