#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// Limits of the sample rates of files and of results, in samples per second.
inline constexpr std::uint32_t kMinRate = 1000, kMaxRate = 1'000'000;

/// Sound of one channel.
struct Sound {
  std::uint32_t rate = 0;      // samples per second
  std::vector<float> samples;  // normally in [-1, 1]; float files may exceed it
};

/// Reads a WAV file: integers of 8, 16, 24 or 32 bits, or floats of 32 or 64 bits, with 1 to 64
/// channels, which are averaged. `name` is used in messages. A data chunk that is longer than the
/// file, as in streams of unknown length, ends with the file. Fails with LLMC_ERROR_FORMAT for
/// other encodings and rates, and damaged files.
Outcome<Sound> read_wav(std::span<const std::byte> file, const std::string& name);

}  // namespace llmc::hosted
