#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "llmc/llmc.h"

namespace llmc::hosted {

/// Calls `body` and returns its status. Converts exceptions to LLMC_ERROR_MEMORY.
template <class Body>
llmc_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {  // only allocations can fail here
    return LLMC_ERROR_MEMORY;
  }
}

/// Copies as much of the message as fits, including a terminating zero.
inline void copy_message(const std::string& from, char* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const std::size_t n = std::min(from.size(), bytes - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

}  // namespace llmc::hosted
