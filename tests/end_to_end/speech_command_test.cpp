// The commands of llmc with encoder-decoders that read sound.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "llmc/hosted.h"
#include "tests/end_to_end/run_command.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::ElementsAre;
using testing::EncoderSource;
using ::testing::HasSubstr;

/// Returns a WAV file with 16-bit samples of a tone of rising pitch.
std::string chirp_file(std::uint32_t rate, std::uint32_t samples) {
  const auto number = [](std::uint64_t value, int width) {
    std::string bytes;
    for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  std::string data;
  for (std::uint32_t i = 0; i < samples; ++i) {
    const double t = static_cast<double>(i) / rate;
    const double x = 0.4 * std::sin(2 * std::numbers::pi * (200 + 4000 * t) * t);
    data += number(static_cast<std::uint64_t>(static_cast<std::int64_t>(x * 32767)), 2);
  }
  return "RIFF" + number(36 + data.size(), 4) + "WAVEfmt " + number(16, 4) + number(1, 2) +
         number(1, 2) + number(rate, 4) + number(2 * rate, 4) + number(2, 2) + number(16, 2) +
         "data" + number(data.size(), 4) + data;
}

class SpeechCommand : public RunOfModels {
 protected:
  std::string model(EncoderSource source) {
    const auto folder = folder_.path() / (source == EncoderSource::kSamples ? "samples" : "mel");
    std::filesystem::create_directories(folder);
    testing::write_tiny_encoder_decoder(folder, {.source = source});
    EXPECT_TRUE(write_file(folder / "generation_config.json",
                           R"({"decoder_start_token_id": 2, "suppress_tokens": [99]})")
                    .ok());
    EXPECT_TRUE(write_file(folder / "preprocessor_config.json", R"({"feature_size": 8})").ok());
    return folder.string();
  }
  static ProgramRun run(const std::string& model, std::vector<std::string> more,
                        bool bundle = false) {
    return run_model(model, std::move(more), "6", bundle);
  }
};

TEST_F(SpeechCommand, SoundIsSamples) {
  const std::string samples = model(EncoderSource::kSamples);
  EXPECT_THAT(llmc({"plan", samples}).out, HasSubstr(" samples\n"));
  const std::string wav = chirp_file(16000, 900);
  const std::string from_file = hash(run(samples, {"--audio", file("a.wav", wav)}));
  float* read = nullptr;
  std::size_t n = 0;
  ASSERT_EQ(llmc_sound_read(wav.data(), wav.size(), 16000, &read, &n, nullptr, 0), LLMC_OK);
  EXPECT_EQ(n, 900u);
  const std::string raw = file("a.f32", floats({read, read + n}));
  EXPECT_EQ(hash(run(samples, {"--source-features", raw})), from_file);
  EXPECT_NE(hash(run(samples, {"--audio", file("b.wav", chirp_file(16000, 880))})), from_file);
  llmc_sound_free(read);
  // Another rate, from preprocessor_config.json.
  EXPECT_TRUE(write_file(samples + "/preprocessor_config.json", R"({"sampling_rate": 8000})").ok());
  const std::string low = chirp_file(8000, 900);
  ASSERT_EQ(llmc_sound_read(low.data(), low.size(), 8000, &read, &n, nullptr, 0), LLMC_OK);
  EXPECT_EQ(n, 900u);
  const std::string low_raw = file("c.f32", floats({read, read + n}));
  llmc_sound_free(read);
  EXPECT_EQ(hash(run(samples, {"--audio", file("c.wav", low)})),
            hash(run(samples, {"--source-features", low_raw})));
  EXPECT_TRUE(write_file(samples + "/preprocessor_config.json", R"({"sampling_rate": "x"})").ok());
  const ProgramRun bad = run(samples, {"--audio", file("a.wav", wav)});
  EXPECT_EQ(bad.code, 3);
  EXPECT_THAT(bad.err, HasSubstr("preprocessor_config.json: sampling_rate is not a number"));
}

TEST_F(SpeechCommand, SoundIsASpectrogramInABundleToo) {
  const std::string mel = model(EncoderSource::kSpectrogram);
  const std::string wav = chirp_file(16000, 30 * 160 - 100);
  const std::string from_file = hash(run(mel, {"--audio", file("a.wav", wav)}));
  float* read = nullptr;
  std::size_t n = 0;
  ASSERT_EQ(llmc_sound_read(wav.data(), wav.size(), 16000, &read, &n, nullptr, 0), LLMC_OK);
  std::vector<float> features(8 * 30);
  ASSERT_EQ(llmc_log_mel(read, n, 8, 30, features.data()), LLMC_OK);
  llmc_sound_free(read);
  const std::string raw = file("a.f32", floats(features));
  EXPECT_EQ(hash(run(mel, {"--source-features", raw})), from_file);
  const std::string bundle = (folder_.path() / "bundle").string();
  const ProgramRun made =
      llmc({"compile", mel, "-o", bundle, "--target", "generic", "--cflag=-O0", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(hash(run(bundle, {"--audio", file("a.wav", wav)}, true)), from_file);
  const ProgramRun longer = run(bundle, {"--audio", file("b.wav", chirp_file(16000, 4801))}, true);
  EXPECT_EQ(longer.code, 2);
  EXPECT_THAT(longer.err, HasSubstr("is 0.30 seconds long, and the model reads 0.30"));
  EXPECT_TRUE(write_file(mel + "/preprocessor_config.json", "{}").ok());
  const ProgramRun others = run(mel, {"--audio", file("a.wav", wav)});
  EXPECT_EQ(others.code, 2);
  EXPECT_THAT(others.err, HasSubstr("8 features of a frame are not samples or Whisper's spectrogram"
                                    " of 80 bands"));
  EXPECT_EQ(llmc({"verify", bundle, "--no-require-golden"}).code, 0);
}

TEST_F(SpeechCommand, SuppressedTokensAreNotGenerated) {
  const std::string samples = model(EncoderSource::kSamples);
  const std::string audio = file("a.wav", chirp_file(16000, 500));
  const auto ids = [&](const std::string& config) {
    EXPECT_TRUE(write_file(samples + "/generation_config.json", config).ok());
    const ProgramRun ran = run(samples, {"--audio", audio});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(last_line(ran.out), nullptr, false)["ids"].get<std::vector<int>>();
  };
  const auto free = ids(R"({"decoder_start_token_id": 2})");
  ASSERT_EQ(free.size(), 6u);
  const std::string first = std::to_string(free[0]);
  const auto without = ids(R"({"decoder_start_token_id": 2, "suppress_tokens": [)" + first + "]}");
  EXPECT_EQ(std::ranges::count(without, free[0]), 0);
  const auto later =
      ids(R"({"decoder_start_token_id": 2, "begin_suppress_tokens": [)" + first + ", 99]}");
  EXPECT_NE(later[0], free[0]);
}

TEST_F(SpeechCommand, OtherSourcesAreRefused) {
  const std::string samples = model(EncoderSource::kSamples);
  const auto refused = [&](const std::vector<std::string>& options, int code,
                           const std::string& what) {
    const ProgramRun ran = run(samples, options);
    EXPECT_EQ(ran.code, code) << what;
    EXPECT_THAT(ran.err, HasSubstr(what));
  };
  const std::string audio = file("a.wav", chirp_file(16000, 100));
  refused({"--ids", "2", "--source-ids", "1"}, 2, "the encoder reads features, not tokens");
  refused({"--audio", file("short.wav", chirp_file(16000, 5))}, 2, "needs at least");
  refused({"--audio", file("x.wav", "text")}, 3, "x.wav: not a WAV file");
  refused({"--audio", (folder_.path() / "none.wav").string()}, 3, "none.wav");
  refused({"--audio", audio, "--source-ids", "1"}, 2,
          "--source-ids cannot be combined with --audio");
  refused({"--source-features", file("x.f32", "abc")}, 3, "not a file of 32-bit floats");
  const testing::TemporaryFolder texts;
  testing::write_tiny_encoder_decoder(texts.path());
  const ProgramRun text = run(texts.path().string(), {"--ids", "2", "--audio", audio});
  EXPECT_EQ(text.code, 2);
  EXPECT_THAT(text.err, HasSubstr("no encoder of sound"));
  const ProgramRun limit = llmc({"plan", samples, "--source-ctx", "10"});
  EXPECT_EQ(limit.code, 2);
  EXPECT_THAT(limit.err, HasSubstr("a source of 10 samples has no rows"));
  const ProgramRun fixed = llmc({"plan", model(EncoderSource::kSpectrogram), "--source-ctx", "10"});
  EXPECT_EQ(fixed.code, 2);
  EXPECT_THAT(fixed.err, HasSubstr("the encoder reads 30 frames, no other number"));
}

TEST_F(SpeechCommand, BenchTimesTheEncoder) {
  const ProgramRun ran =
      llmc({"bench", model(EncoderSource::kSamples), "--target", "generic", "--cflag=-O0", "-r",
            "1", "-t", "1", "-p", "4", "-n", "4", "--n-source", "500", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::vector<std::string> tests;
  const json report = json::parse(ran.out);
  for (const json& row : report["results"]) tests.push_back(row["test"]);
  EXPECT_THAT(tests, ElementsAre("pp4", "tg4", "enc500"));
}

}  // namespace
}  // namespace llmc::tests
#endif
