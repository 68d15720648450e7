// Encoders of real exporters, compiled once for ranges of sizes, against the exporter's test data.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/evaluate/test_onnx.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

struct EncoderSample {
  const char* model;  // without ".onnx"; its data are in a folder of that name
  const char* length;
};

class EncoderSamples : public ::testing::TestWithParam<EncoderSample> {};

TEST_P(EncoderSamples, OneLibraryTakesAllSizes) {
  const fs::path folder = shared_folder() / "onnx-samples" / GetParam().model;
  evaluate::TestOnnxOptions options;
  options.model = folder.string() + ".onnx";
  options.data = folder;
  if (!fs::exists(options.model)) GTEST_SKIP() << options.model << " is not there";
  options.dims = {{"batch_size", {1, 4}}, {GetParam().length, {1, 64}}};
  const auto results = evaluate::test_onnx(options);
  if (!results.ok()) return expect_ok(results.error());
  EXPECT_FALSE(results->empty());
  for (const evaluate::DataSetResult& result : *results) EXPECT_TRUE(result.ok()) << result.folder;
}

INSTANTIATE_TEST_SUITE_P(
    Shared, EncoderSamples,
    ::testing::Values(EncoderSample{"arch-enc-deberta-ts18-eager/model", "sequence_length"},
                      EncoderSample{"arch-enc-modernbert-ts18-sdpa/model", "sequence_length"},
                      EncoderSample{"s2s-bart-ts18/encoder_model", "encoder_sequence_length"},
                      EncoderSample{"t5gated-dyn23/encoder_model", "encoder_sequence_length"}),
    [](const ::testing::TestParamInfo<EncoderSample>& info) {
      std::string name = info.param.model;
      std::ranges::replace_if(name, [](char c) { return c == '-' || c == '/'; }, '_');
      return name;
    });

}  // namespace
}  // namespace llmc::tests
