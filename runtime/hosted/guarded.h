#pragma once

#include "llmc/llmc.h"

namespace llmc::hosted {

/// What `body` returns; what it throws as a status.
template <class Body>
llmc_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {  // only allocation can fail here
    return LLMC_ERROR_MEMORY;
  }
}

}  // namespace llmc::hosted
