#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llmc::hosted {

/// Returns the sound with `to` instead of `from` samples per second: ceil(n * to / from) of them.
/// Each is the sum of the samples within 32 zero crossings, weighted by a sinc function with a
/// Kaiser window (beta 9), whose cut-off is 0.95 of the lower of both Nyquist frequencies. Equal
/// rates return the samples unchanged. Rates are at least 1.
std::vector<float> resample(std::span<const float> samples, std::uint32_t from, std::uint32_t to);

}  // namespace llmc::hosted
