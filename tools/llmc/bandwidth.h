#pragma once

#include <cstdint>
#include <vector>

namespace llmc::cli {

/// Bytes per second that `threads` threads read together from memory, each streaming its own part
/// of a buffer far larger than the caches (256 MiB in all); the best of the first `samples` passes
/// is the machine's limit, the list lets the caller show the spread. At least one sample.
std::vector<double> measure_read_bandwidth(std::uint32_t threads, std::uint32_t samples);

}  // namespace llmc::cli
