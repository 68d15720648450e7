#pragma once

#include "compiler/support/result.h"
#include "llmc/llmc.h"

namespace llmc::driver {

/// Returns the error kind of a failing status of a compiled library.
inline ErrorKind kind_of(llmc_status status) {
  const bool unsupported = status == LLMC_ERROR_CPU || status == LLMC_ERROR_VERSION;
  return unsupported ? ErrorKind::kUnsupported : ErrorKind::kBadInput;
}

}  // namespace llmc::driver
