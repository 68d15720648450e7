#pragma once

#include <cstdint>
#include <vector>

namespace llmc::cli {

/// Measures the bytes per second that `threads` threads read from memory in total. Each thread
/// reads a separate part of a 256 MiB buffer, which is larger than most caches. With `huge_pages`,
/// the buffer requests huge pages. Returns one value for each of `samples` passes (at least 1), or
/// a single 0 if there is no memory for the buffer. The maximum is the machine's limit.
std::vector<double> measure_read_bandwidth(std::uint32_t threads, std::uint32_t samples,
                                           bool huge_pages);

}  // namespace llmc::cli
