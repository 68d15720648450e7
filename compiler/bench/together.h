#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace llmc::bench {

/// Seconds that `threads` threads take for work(index), 0 .. threads - 1, from when all begin to
/// when the last is done: `samples` times behind one that warms up.
std::vector<double> seconds_together(std::uint32_t threads, std::uint32_t samples,
                                     const std::function<void(std::uint32_t)>& work);

}  // namespace llmc::bench
