#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace llmc::hosted {

/// Sizes of Whisper's features: windows of 25 ms every 10 ms of sound with 16000 samples per
/// second.
inline constexpr std::size_t kMelRate = 16000, kMelWindow = 400, kMelHop = 160;

/// Returns Whisper's input features f32[mels][frames], as Hugging Face's WhisperFeatureExtractor
/// computes them, but in f64:
///  - The sound is cut or padded with zeros to frames * kMelHop samples, and reflected at both
///    ends.
///  - Power spectra are computed with Hann windows.
///  - `mels` triangular filters of equal area, up to 8 kHz on Slaney's mel scale, sum up the
///    spectra.
///  - x is log10 of a sum, which counts as at least 1e-10, but at least the maximum x minus 8.
///  - A feature is (x + 4) / 4.
/// Requires 1 <= mels <= 1024 and frames >= 2.
std::vector<float> log_mel(std::span<const float> samples, std::size_t mels, std::size_t frames);

}  // namespace llmc::hosted
