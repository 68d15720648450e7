#pragma once

#include <stddef.h>
#include <stdint.h>

namespace llmc::core {

/// Returns the XXH64 (Collet: "xxHash fast digest algorithm", specification 0.1.1) of `data`, which
/// may have any alignment. Reads it as little-endian.
uint64_t checksum(const void* data, size_t bytes, uint64_t seed);

}  // namespace llmc::core
