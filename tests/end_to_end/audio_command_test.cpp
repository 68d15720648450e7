// The commands of llmc with a model of sounds and text.
#include <gmock/gmock.h>

#include <cmath>

#include "runtime/hosted/audio/log_mel.h"
#include "tests/end_to_end/run_command.h"
#include "tests/support_onnx/tiny_vision.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kAudioBands = 80, kAudioFrames = 8, kAudioRows = 4, kAudioWidth = 16;

/// A sound of 16000 samples per second with 16 bits each.
struct Tone {
  std::string wav;
  std::vector<float> samples;
};
Tone tone(std::uint32_t count) {
  const auto number = [](std::uint32_t value, int width) {
    std::string bytes;
    for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  Tone made;
  std::string data;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::int16_t>(20000 * std::sin(0.05 * i));
    data += number(static_cast<std::uint16_t>(value), 2);
    made.samples.push_back(static_cast<float>(value) / 32768);
  }
  made.wav = "RIFF" + number(36 + 2 * count, 4) + "WAVEfmt " + number(16, 4) + number(1, 2) +
             number(1, 2) + number(16000, 4) + number(32000, 4) + number(2, 2) + number(16, 2) +
             "data" + number(2 * count, 4) + data;
  return made;
}

class AudioCommand : public RunOfModels {
 protected:
  /// input_features f32[batch_size, 80, 8] -> audio_features f32[batch_size, 4, 16].
  std::string model() {
    testing::write_tiny_vision(folder_.path());
    const auto folder = folder_.path() / "vision";
    std::filesystem::remove(folder / "vision_encoder.onnx");
    testing::OnnxBuilder b(17);
    b.float_input("input_features", {"batch_size", kAudioBands, kAudioFrames});
    const auto turned =
        b.node("Transpose", {"input_features"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
    const auto pairs = b.reshape(turned, {0, kAudioRows, 2 * kAudioBands});
    std::vector<float> weight;
    for (std::int64_t i = 0; i < 2 * kAudioBands * kAudioWidth; ++i)
      weight.push_back(static_cast<float>(i * 37 % 101) / 200 - 0.25F);
    b.node("MatMul", {pairs, b.floats("w", {2 * kAudioBands, kAudioWidth}, weight)}, {},
           "audio_features");
    b.float_output("audio_features", {"batch_size", kAudioRows, kAudioWidth});
    b.save(folder / "audio_encoder.onnx");
    EXPECT_TRUE(write_file(folder / "config.json", R"({"audio_token_index": 20})").ok());
    EXPECT_TRUE(write_file(folder / "preprocessor_config.json",
                           R"({"feature_extractor_type": "WhisperFeatureExtractor",
                               "feature_size": 80, "sampling_rate": 16000})")
                    .ok());
    return folder.string();
  }
  static ProgramRun run(const std::string& model, Arguments more, bool bundle = false) {
    return run_model(model, std::move(more), "4", bundle);
  }
};

TEST_F(AudioCommand, ASoundReplacesItsToken) {
  const std::string sounds = model();
  const Tone made = tone(1100);
  const std::string wav = file("a.wav", made.wav);
  const std::string raw =
      file("a.f32", floats(hosted::log_mel(made.samples, kAudioBands, kAudioFrames)));
  const auto with = [&](const std::string& option, const std::string& path,
                        const std::string& ids = "3,20,9") {
    return hash(run(sounds, {"--ids", ids, option, path}));
  };
  const std::string from_raw = with("--source-features", raw);
  EXPECT_EQ(with("--audio", wav), from_raw);
  EXPECT_NE(hash(run(sounds, {"--ids", "3,20,9"})), from_raw);
  // A processor repeats the token for each row that is not silence.
  EXPECT_EQ(with("--audio", wav, "3,20,20,20,20,9"), from_raw);
  const std::string first_two = with("--audio", wav, "3,20,20,9");
  EXPECT_NE(first_two, from_raw);
  EXPECT_NE(with("--audio", wav, "3,20,20,20,9"), first_two);

  const std::string bundle = (folder_.path() / "bundle").string();
  const ProgramRun compiled =
      llmc({"compile", sounds, "-o", bundle, "--target", "generic", "--cflag=-O0", "-q"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_EQ(hash(run(bundle, {"--ids", "3,20,9", "--audio", wav}, true)), from_raw);
  const auto header = read_file(folder_.path() / "bundle/vision.h");
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(*header, AllOf(HasSubstr("#define VISION_AUDIO_ROWS 4u\n"),
                             HasSubstr("llmc_status vision_encode_audio(llmc_session* session,\n"
                                       "    const float* input_features,\n")));
}

TEST_F(AudioCommand, PlanVerifyAndBenchShowTheEncoder) {
  const std::string sounds = model();
  const ProgramRun plan = llmc({"plan", sounds, "--target", "generic"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("audio encoder: up to 4 rows\n"));
  EXPECT_THAT(llmc({"inspect", sounds}).out, HasSubstr("audio encoder"));
  const ProgramRun verify = llmc(
      {"verify", sounds, "--target", "generic", "--cflag=-O0", "--short", "--no-require-golden"});
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_THAT(verify.err + verify.out, HasSubstr("audio encoder: ok: relative error "));
  const ProgramRun bench = llmc({"bench", sounds, "--target", "generic", "--cflag=-O0", "-p", "4",
                                 "-n", "0", "-r", "1", "-t", "1", "-o", "csv"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("aud4"));
}

TEST_F(AudioCommand, RefusesSoundsThatDoNotFit) {
  const std::string sounds = model();
  const auto refused = [&](const Arguments& more, int code, const std::string& message) {
    const ProgramRun ran = run(sounds, more);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  const std::string wav = file("a.wav", tone(1100).wav);
  refused({"--ids", "3,9", "--audio", wav}, 2, "0 places with the audio token 20");
  refused({"--ids", "3,20", "--audio", file("long.wav", tone(1400).wav)}, 3,
          "is 0.09 seconds long, and the encoder reads 0.08");
  refused({"--ids", "3,20", "--audio", file("b.wav", "RIFF")}, 3, "b.wav");
  refused({"--ids", "3,20", "--source-features", file("c.f32", "abcd")}, 3,
          "give a WAV file, a .npy file or raw 32-bit floats");
  EXPECT_TRUE(write_file(sounds + "/preprocessor_config.json",
                         R"({"feature_extractor_type": "SeamlessM4TFeatureExtractor"})")
                  .ok());
  refused({"--ids", "3,20", "--audio", wav}, 3, "is not Whisper's spectrogram");
  EXPECT_TRUE(write_file(sounds + "/config.json", "{}").ok());
  refused({"--ids", "3,20", "--audio", wav}, 2, "no audio_token_index or audio_token_id");
}

}  // namespace
}  // namespace llmc::tests
#endif
