#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llmc::hosted {

/// Resamples sound from `from` to `to` samples per second. Returns ceil(n * to / from) samples.
/// Each is the sum of the old samples within 32 zero crossings, weighted by a sinc function with a
/// Kaiser window (beta 9). The cut-off is 0.95 of the lower of the two Nyquist frequencies. If the
/// rates are equal, returns the samples unchanged. Requires rates of at least 1.
std::vector<float> resample(std::span<const float> samples, std::uint32_t from, std::uint32_t to);

}  // namespace llmc::hosted
