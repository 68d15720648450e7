#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace llmc::bench {

/// Runs work(index) on `threads` threads at once, index 0 to threads - 1, and measures the seconds
/// from a common start to the end of the last thread. Returns `samples` times; a first run warms up
/// and is not among them.
std::vector<double> parallel_seconds(std::uint32_t threads, std::uint32_t samples,
                                     const std::function<void(std::uint32_t)>& work);

}  // namespace llmc::bench
