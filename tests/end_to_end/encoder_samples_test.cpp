// Encoders of real exporters, compiled once for ranges of sizes, against the exporter's test data.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/evaluate/test_onnx.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

void expect_agreement(const evaluate::TestOnnxOptions& options) {
  if (!fs::exists(options.model)) GTEST_SKIP() << options.model << " is not there";
  const auto results = evaluate::test_onnx(options);
  if (!results.ok()) return expect_ok(results.error());
  EXPECT_FALSE(results->empty());
  for (const evaluate::DataSetResult& result : *results) EXPECT_TRUE(result.ok()) << result.folder;
}

/// Returns the name of a test of a sample.
std::string name_of(std::string sample) {
  std::ranges::replace_if(sample, [](char c) { return c == '-' || c == '/'; }, '_');
  return sample;
}

struct EncoderSample {
  const char* model;   // without ".onnx"; its data are in a folder of that name
  const char* length;  // a dim that is open; "" if there is none
};

class EncoderSamples : public ::testing::TestWithParam<EncoderSample> {};

TEST_P(EncoderSamples, OneLibraryTakesAllSizes) {
  const fs::path folder = shared_folder() / "onnx-samples" / GetParam().model;
  evaluate::TestOnnxOptions options;
  options.model = folder.string() + ".onnx";
  options.data = folder;
  options.dims = {{"batch_size", {1, 4}}};
  if (*GetParam().length != 0) options.dims[GetParam().length] = {1, 64};
  expect_agreement(options);
}

INSTANTIATE_TEST_SUITE_P(
    Shared, EncoderSamples,
    ::testing::Values(EncoderSample{"arch-enc-deberta-ts18-eager/model", "sequence_length"},
                      EncoderSample{"arch-enc-modernbert-ts18-sdpa/model", "sequence_length"},
                      EncoderSample{"s2s-bart-ts18/encoder_model", "encoder_sequence_length"},
                      EncoderSample{"t5gated-dyn23/encoder_model", "encoder_sequence_length"},
                      EncoderSample{"arch-enc-vit-ts18-sdpa/model", ""},
                      EncoderSample{"arch-enc-convnext-ts18-eager/model", ""},
                      EncoderSample{"arch-enc-whisperenc-ts18-eager/model", ""},
                      EncoderSample{"s2s-whisper-ts18/encoder_model", ""}),
    [](const ::testing::TestParamInfo<EncoderSample>& info) { return name_of(info.param.model); });

// The strides of their convolutions need the number of samples: one library for each data set.
class SoundEncoderSamples : public ::testing::TestWithParam<const char*> {};

TEST_P(SoundEncoderSamples, Agree) {
  const fs::path folder = shared_folder() / "onnx-samples" / GetParam();
  evaluate::TestOnnxOptions options;
  options.model = folder.string() + ".onnx";
  options.data = folder;
  expect_agreement(options);
}

INSTANTIATE_TEST_SUITE_P(Shared, SoundEncoderSamples,
                         ::testing::Values("arch-enc-wav2vec2-ts18-sdpa/model",
                                           "s2s-moonshine-ts18/encoder_model"),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace llmc::tests
