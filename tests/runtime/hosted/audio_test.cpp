#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <numbers>

#include "llmc/hosted.h"
#include "runtime/hosted/audio/log_mel.h"
#include "runtime/hosted/audio/resample.h"
#include "runtime/hosted/audio/wav.h"

namespace llmc::hosted {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

std::string number(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
std::string chunk(const std::string& name, const std::string& content) {
  return name + number(content.size(), 4) + content + std::string(content.size() % 2, '\0');
}

struct WavForm {
  std::uint64_t encoding = 1, channels = 1, rate = 16000, bits = 16;
};

std::string format_chunk(const WavForm& form) {
  const std::uint64_t frame = form.channels * form.bits / 8;
  return chunk("fmt ", number(form.encoding, 2) + number(form.channels, 2) + number(form.rate, 4) +
                           number(form.rate * frame, 4) + number(frame, 2) + number(form.bits, 2));
}
std::string riff(const std::string& chunks) {
  return "RIFF" + number(chunks.size() + 4, 4) + "WAVE" + chunks;
}
std::string wav(const WavForm& form, const std::string& data) {
  return riff(format_chunk(form) + chunk("data", data));
}

Outcome<Sound> read(const std::string& file) {
  return read_wav(std::as_bytes(std::span(file)), "x.wav");
}
std::vector<float> samples_of(const std::string& file) {
  const auto sound = read(file);
  EXPECT_TRUE(sound.ok()) << sound.failure().message;
  return sound ? sound->samples : std::vector<float>();
}

TEST(Wav, ReadsEveryEncoding) {
  EXPECT_THAT(samples_of(wav({.bits = 8}, number(0, 1) + number(128, 1) + number(192, 1))),
              ElementsAre(-1.0f, 0.0f, 0.5f));
  EXPECT_THAT(samples_of(wav({}, number(0x4000, 2) + number(0x8000, 2))), ElementsAre(0.5f, -1.0f));
  EXPECT_THAT(samples_of(wav({.bits = 24}, number(0xc00000, 3))), ElementsAre(-0.5f));
  EXPECT_THAT(samples_of(wav({.bits = 32}, number(0x20000000, 4))), ElementsAre(0.25f));
  EXPECT_THAT(
      samples_of(wav({.encoding = 3, .bits = 32}, number(std::bit_cast<std::uint32_t>(1.5f), 4))),
      ElementsAre(1.5f));
  EXPECT_THAT(
      samples_of(wav({.encoding = 3, .bits = 64}, number(std::bit_cast<std::uint64_t>(-0.125), 8))),
      ElementsAre(-0.125f));
}

TEST(Wav, AveragesChannelsAndSkipsOtherChunks) {
  const std::string data = number(0x4000, 2) + number(0, 2) + number(0x2000, 2) + number(0x2000, 2);
  const WavForm stereo{.channels = 2, .rate = 44100};
  const std::string file = riff(chunk("JUNK", "odd") + format_chunk(stereo) +
                                chunk("LIST", "abcd") + chunk("data", data));
  const auto sound = read(file);
  ASSERT_TRUE(sound.ok());
  EXPECT_EQ(sound->rate, 44100u);
  EXPECT_THAT(sound->samples, ElementsAre(0.25f, 0.25f));
  // The extensible format has the encoding in its sub-format.
  std::string extensible = format_chunk({.encoding = 0xfffe});
  extensible = chunk("fmt ", extensible.substr(8) + number(22, 2) + number(16, 2) + number(4, 4) +
                                 number(1, 2) + std::string(14, 'g'));
  EXPECT_THAT(samples_of(riff(extensible + chunk("data", number(0x4000, 2)))), ElementsAre(0.5f));
}

TEST(Wav, EndsWithTheFile) {
  // A stream of unknown length.
  const std::string file = riff(format_chunk({}) + "data" + number(0xffffffff, 4) +
                                number(0x4000, 2) + number(0x4000, 2) + "x");
  EXPECT_THAT(samples_of(file), ElementsAre(0.5f, 0.5f));
}

TEST(Wav, RefusesWhatItCannotRead) {
  const std::string data = number(1, 2);
  const std::string good = wav({}, data);
  for (const auto& [file, what] : std::vector<std::pair<std::string, std::string>>{
           {"", "not a WAV file"},
           {"RIFF", "not a WAV file"},
           {"OggS" + std::string(60, 'x'), "not a WAV file"},
           {riff(""), "has no data"},
           {riff(format_chunk({})), "has no data"},
           {riff(chunk("data", data)), "has no format before its data"},
           {riff(chunk("fmt ", "short") + chunk("data", data)), "has no format before its data"},
           {riff("LIST" + number(0xfffffff0, 4)), "has no data"},
           {wav({.encoding = 85}, data), "are not integers"},
           {wav({.channels = 0}, data), "has no format before its data"},
           {wav({.channels = 65}, data), "are not integers"},
           {wav({.rate = 0}, data), "are not integers"},
           {wav({.rate = 999}, data), "are not integers"},
           {wav({.bits = 12}, data), "are not integers"},
           {wav({}, ""), "has no samples"},
           {wav({.encoding = 3, .bits = 32}, number(0x7fc00000, 4)), "not a finite number"}}) {
    const auto sound = read(file);
    ASSERT_FALSE(sound.ok()) << what;
    EXPECT_EQ(sound.failure().status, LLMC_ERROR_FORMAT);
    EXPECT_THAT(sound.failure().message, HasSubstr("x.wav: ")) << what;
    EXPECT_THAT(sound.failure().message, HasSubstr(what));
  }
  for (std::size_t i = 0; i < good.size(); ++i) (void)read(good.substr(0, i));
}

std::vector<float> tone(double hertz, std::uint32_t rate, double seconds) {
  std::vector<float> samples;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(rate * seconds); ++i)
    samples.push_back(static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * hertz * i / rate)));
  return samples;
}

TEST(Resample, KeepsTonesBelowTheCutoffAndRemovesOthers) {
  for (const auto& [from, to] : {std::pair(22050u, 16000u),
                                 {44100u, 16000u},
                                 {8000u, 16000u},
                                 {48000u, 16000u},
                                 {16001u, 15999u}}) {
    const auto out = resample(tone(440, from, 0.5), from, to);
    const auto expected = tone(440, to, 0.5);
    ASSERT_NEAR(static_cast<double>(out.size()), static_cast<double>(expected.size()), 1) << from;
    for (std::size_t i = 200; i + 200 < expected.size(); ++i)
      ASSERT_NEAR(out[i], expected[i], 2e-4) << from << " to " << to << ", sample " << i;
  }
  // 9 kHz would appear as 7 kHz.
  const auto out = resample(tone(9000, 44100, 0.5), 44100, 16000);
  for (std::size_t i = 200; i + 200 < out.size(); ++i) ASSERT_NEAR(out[i], 0, 2e-4) << i;
  EXPECT_THAT(resample(std::vector<float>{1, 2}, 7, 7), ElementsAre(1, 2));
  EXPECT_TRUE(resample({}, 8000, 16000).empty());
}

/// The definition in f64, with a sum over all samples for each frequency.
std::vector<double> plain_log_mel(const std::vector<float>& sound, std::size_t mels,
                                  std::size_t frames) {
  const auto length = static_cast<std::int64_t>(frames * 160);
  const auto at = [&](std::int64_t i) {
    if (i < 0) i = -i;
    if (i >= length) i = 2 * (length - 1) - i;
    return i < static_cast<std::int64_t>(sound.size()) ? sound[static_cast<std::size_t>(i)] : 0.0f;
  };
  const auto hertz = [](double mel) {
    return mel < 15 ? mel * 200 / 3 : 1000 * std::pow(6.4, (mel - 15) / 27);
  };
  const double top = 15 + 27 * std::log(8.0) / std::log(6.4);
  std::vector<double> levels(mels * frames);
  for (std::size_t frame = 0; frame < frames; ++frame) {
    double power[201];
    for (int bin = 0; bin <= 200; ++bin) {
      double real = 0, imaginary = 0;
      for (int i = 0; i < 400; ++i) {
        const double window = 0.5 * (1 - std::cos(2 * std::numbers::pi * i / 400));
        const double x = window * at(static_cast<std::int64_t>(frame) * 160 + i - 200);
        real += x * std::cos(2 * std::numbers::pi * i * bin / 400);
        imaginary -= x * std::sin(2 * std::numbers::pi * i * bin / 400);
      }
      power[bin] = real * real + imaginary * imaginary;
    }
    for (std::size_t m = 0; m < mels; ++m) {
      const double step = top / static_cast<double>(mels + 1);
      const double left = hertz(step * static_cast<double>(m)),
                   middle = hertz(step * static_cast<double>(m + 1)),
                   right = hertz(step * static_cast<double>(m + 2));
      double sum = 0;
      for (int bin = 0; bin <= 200; ++bin)
        sum += power[bin] * 2 / (right - left) *
               std::max(0.0, std::min((bin * 40 - left) / (middle - left),
                                      (right - bin * 40) / (right - middle)));
      levels[m * frames + frame] = std::log10(std::max(sum, 1e-10));
    }
  }
  const double most = *std::max_element(levels.begin(), levels.end());
  for (double& level : levels) level = (std::max(level, most - 8) + 4) / 4;
  return levels;
}

TEST(LogMel, IsItsDefinition) {
  std::vector<float> sound = tone(300, 16000, 0.03);
  std::uint32_t state = 1;
  for (float& x : sound)
    x += static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-25f;
  for (const std::size_t mels : {80u, 128u, 3u})
    for (const std::size_t frames : {2u, 6u}) {  // the sound is cut, or padded
      const auto expected = plain_log_mel(sound, mels, frames);
      const auto features = log_mel(sound, mels, frames);
      ASSERT_EQ(features.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(features[i], expected[i], 1e-5) << mels << " " << frames << " " << i;
    }
  for (const float silent : log_mel({}, 80, 2)) EXPECT_FLOAT_EQ(silent, -1.5f);
}

TEST(SoundCApi, ReadsFilesAndChecksArguments) {
  const std::string path = ::testing::TempDir() + "llmc_audio_test.a.wav";
  const std::string file = wav({.rate = 8000}, number(0x4000, 2) + number(0x4000, 2));
  std::ofstream(path, std::ios::binary) << file;
  float* samples = nullptr;
  std::size_t n = 0;
  char message[200] = "x";
  ASSERT_EQ(llmc_sound_load(path.c_str(), 8000, &samples, &n, message, sizeof message), LLMC_OK);
  ASSERT_EQ(n, 2u);
  EXPECT_EQ(samples[1], 0.5f);
  EXPECT_STREQ(message, "");
  llmc_sound_free(samples);
  std::remove(path.c_str());
  ASSERT_EQ(llmc_sound_read(file.data(), file.size(), 16000, &samples, &n, nullptr, 0), LLMC_OK);
  EXPECT_EQ(n, 4u);
  llmc_sound_free(samples);
  llmc_sound_free(nullptr);
  EXPECT_EQ(llmc_sound_load((path + "?").c_str(), 8000, &samples, &n, message, sizeof message),
            LLMC_ERROR_FILE);
  EXPECT_THAT(message, HasSubstr("a.wav?"));
  EXPECT_EQ(llmc_sound_read("abc", 3, 8000, &samples, &n, message, sizeof message),
            LLMC_ERROR_FORMAT);
  EXPECT_THAT(message, HasSubstr("not a WAV file"));
  EXPECT_EQ(llmc_sound_load(nullptr, 8000, &samples, &n, nullptr, 0), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_sound_load(path.c_str(), 999, &samples, &n, nullptr, 0), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_sound_read(nullptr, 0, 8000, &samples, &n, nullptr, 0), LLMC_ERROR_ARGUMENT);
  float features[3 * 2] = {};
  const float sound[] = {0.5f, -0.5f};
  EXPECT_EQ(llmc_log_mel(sound, 2, 3, 2, features), LLMC_OK);
  EXPECT_THAT(features[0], ::testing::Not(FloatNear(0, 1e-6f)));
  EXPECT_EQ(llmc_log_mel(sound, 2, 0, 2, features), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_log_mel(sound, 2, 1025, 2, features), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_log_mel(sound, 2, 3, 1, features), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_log_mel(nullptr, 2, 3, 2, features), LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::hosted
