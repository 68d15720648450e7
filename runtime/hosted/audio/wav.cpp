#include "runtime/hosted/audio/wav.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

namespace llmc::hosted {
namespace {

enum WavEncoding : std::uint32_t { kIntegers = 1, kFloats = 3, kExtensible = 0xfffe };

struct WavFormat {
  std::uint32_t encoding = 0, channels = 0, rate = 0, frame_bytes = 0, bits = 0;

  std::size_t sample_bytes() const { return bits / 8; }
  bool supported() const {
    const bool encoded = encoding == kIntegers ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                                               : encoding == kFloats && (bits == 32 || bits == 64);
    return encoded && channels >= 1 && channels <= 64 && rate >= kMinRate && rate <= kMaxRate &&
           frame_bytes == channels * sample_bytes();
  }
};

/// Reads little-endian numbers of a chunk.
std::uint64_t little_endian(std::span<const std::byte> bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return value;
}
std::uint32_t little_endian32(std::span<const std::byte> bytes, std::size_t at, std::size_t width) {
  return static_cast<std::uint32_t>(little_endian(bytes, at, width));
}

bool has_text(std::span<const std::byte> bytes, std::size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

/// Returns the value of one sample.
double sample_at(const WavFormat& format, std::span<const std::byte> bytes, std::size_t at) {
  const std::uint64_t raw = little_endian(bytes, at, format.sample_bytes());
  if (format.encoding == kFloats)
    return format.bits == 64 ? std::bit_cast<double>(raw)
                             : double{std::bit_cast<float>(static_cast<std::uint32_t>(raw))};
  if (format.bits == 8) return (static_cast<double>(raw) - 128) / 128;  // unsigned
  const auto value =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(raw) << (32 - format.bits));
  return value / 2147483648.0;
}

}  // namespace

Outcome<Sound> read_wav(std::span<const std::byte> file, const std::string& name) {
  const auto bad = [&](const std::string& what) {
    return Failure{
        .status = LLMC_ERROR_FORMAT,
        .message = name + ": " + what,
        .hint = "convert it, for example with: sox INPUT -b 16 -c 1 -r 16000 OUTPUT.wav"};
  };
  if (!has_text(file, 0, "RIFF") || !has_text(file, 8, "WAVE")) return bad("not a WAV file");
  WavFormat format;
  for (std::size_t at = 12; at + 8 <= file.size();) {
    const std::size_t size = little_endian(file, at + 4, 4);
    const std::size_t rest = file.size() - at - 8;
    const auto chunk = file.subspan(at + 8, std::min(size, rest));
    if (has_text(file, at, "fmt ") && chunk.size() >= 16) {
      format = {little_endian32(chunk, 0, 2), little_endian32(chunk, 2, 2),
                little_endian32(chunk, 4, 4), little_endian32(chunk, 12, 2),
                little_endian32(chunk, 14, 2)};
      if (format.encoding == kExtensible && chunk.size() >= 26)
        format.encoding = little_endian32(chunk, 24, 2);
    } else if (has_text(file, at, "data")) {
      if (format.channels == 0) return bad("the WAV file has no format before its data");
      if (!format.supported())
        return bad(
            "the WAV file's samples are not integers of 8 to 32 bits or floats, "
            "1000 to 1000000 per second");
      Sound sound{format.rate, {}};
      sound.samples.reserve(chunk.size() / format.frame_bytes);
      for (std::size_t i = 0; i + format.frame_bytes <= chunk.size(); i += format.frame_bytes) {
        double sum = 0;
        for (std::size_t c = 0; c < format.channels; ++c)
          sum += sample_at(format, chunk, i + c * format.sample_bytes());
        const double mean = sum / format.channels;
        if (!std::isfinite(static_cast<float>(mean))) return bad("a sample is not a finite number");
        sound.samples.push_back(static_cast<float>(mean));
      }
      if (sound.samples.empty()) return bad("the WAV file has no samples");
      return sound;
    }
    if (size > rest) break;
    at += 8 + size + size % 2;  // chunks begin at even offsets
  }
  return bad("the WAV file has no data");
}

}  // namespace llmc::hosted
