#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace llmc::bench {

/// Runs work(index) in parallel for each index below `threads`, and measures the seconds from a
/// common start to the end of the last thread. Repeats this `samples` times. Returns one duration
/// per sample; the warm-up run is not included.
std::vector<double> parallel_seconds(std::uint32_t threads, std::uint32_t samples,
                                     const std::function<void(std::uint32_t)>& work);

}  // namespace llmc::bench
