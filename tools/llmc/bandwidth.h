#pragma once

#include <cstdint>
#include <vector>

namespace llmc::cli {

/// Measures the bytes per second that `threads` threads read from memory in total, each from its
/// own part of a 256 MiB buffer, which is larger than most caches and with `huge_pages` is in huge
/// pages, if there are any. Returns one value for each of `samples` passes (at least 1); a single 0
/// if there is no memory for the buffer. The maximum is the machine's limit.
std::vector<double> measure_read_bandwidth(std::uint32_t threads, std::uint32_t samples,
                                           bool huge_pages);

}  // namespace llmc::cli
