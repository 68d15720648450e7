#pragma once

#include <cstdint>
#include <vector>

namespace llmc::cli {

/// Bytes per second that `threads` threads read from memory in total, each from its own part of a
/// 256 MiB buffer, far larger than the caches. Returns one value per pass; `samples` is at least 1.
/// The maximum is the machine's limit.
std::vector<double> measure_read_bandwidth(std::uint32_t threads, std::uint32_t samples);

}  // namespace llmc::cli
