#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace llmc::driver {

/// A callback for progress: `done` of `total` units of `phase` ("import", "passes", "plan",
/// "weights", "compile", "reference", …) are complete. A total of 0 means unknown. May be empty.
/// Called on the thread that called the driver.
using Progress =
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)>;

inline void report(const Progress& progress, std::string_view phase, std::uint64_t done,
                   std::uint64_t total) {
  if (progress) progress(phase, done, total);
}

}  // namespace llmc::driver
