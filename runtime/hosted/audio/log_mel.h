#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace llmc::hosted {

/// Sizes of Whisper's features: windows of 25 ms every 10 ms of sound with 16000 samples per
/// second.
inline constexpr std::size_t kMelRate = 16000, kMelWindow = 400, kMelHop = 160;

/// Returns Whisper's input features f32[mels][frames]: the sound, cut or padded with zeros to
/// frames * kMelHop samples and reflected at both ends; power spectra of Hann windows; `mels`
/// triangular filters up to 8 kHz of equal area on Slaney's mel scale; log10 of the sums, of which
/// each counts as at least 1e-10; at least the maximum minus 8; (x + 4) / 4. This is what Hugging
/// Face's WhisperFeatureExtractor computes, here in f64. 1 <= mels <= 1024, frames >= 2.
std::vector<float> log_mel(std::span<const float> samples, std::size_t mels, std::size_t frames);

}  // namespace llmc::hosted
