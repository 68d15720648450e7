#pragma once

#include "llmc/llmc.h"

namespace llmc::hosted {

/// Calls `body` and returns its status. Converts exceptions to a status.
template <class Body>
llmc_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {  // only allocations can fail here
    return LLMC_ERROR_MEMORY;
  }
}

}  // namespace llmc::hosted
