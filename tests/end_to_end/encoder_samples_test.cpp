// Encoders of real exporters, compiled once for ranges of sizes, against the exporter's test data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/evaluate/test_onnx.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

/// Returns the name of a test of a sample.
std::string name_of(std::string sample) {
  std::ranges::replace_if(sample, [](char c) { return c == '-' || c == '/'; }, '_');
  return sample;
}

struct EncoderSample {
  const char* model;               // without ".onnx"; its data are in a folder of that name
  const char* length;              // a dim that is open; "" if there is none
  plan::DimRange range = {1, 64};  // of the length
};

class EncoderSamples : public ::testing::TestWithParam<EncoderSample> {};

TEST_P(EncoderSamples, OneLibraryTakesAllSizes) {
  const fs::path folder = shared_folder() / "onnx-samples" / GetParam().model;
  evaluate::TestOnnxOptions options;
  options.model = folder.string() + ".onnx";
  options.data = folder;
  options.dims = {{"batch_size", {1, 4}}};
  if (*GetParam().length != 0) options.dims[GetParam().length] = GetParam().range;
  if (!fs::exists(options.model)) GTEST_SKIP() << options.model << " is not there";
  const auto results = evaluate::test_onnx(options);
  if (!results.ok()) return expect_ok(results.error());
  EXPECT_FALSE(results->empty());
  for (const evaluate::DataSetResult& result : *results) EXPECT_TRUE(result.ok()) << result.folder;
}

#ifdef LLMC_PROGRAM
TEST_P(EncoderSamples, AtLeast95PercentOfMultiplyAddsAreInKernels) {
  const fs::path model =
      shared_folder() / "onnx-samples" / (std::string(GetParam().model) + ".onnx");
  if (!fs::exists(model)) GTEST_SKIP() << model << " is not there";
  std::vector<std::string> arguments{"inspect", model.string(), "--json", "--dim", "batch_size=1"};
  if (*GetParam().length != 0) {
    arguments.emplace_back("--dim");
    arguments.push_back(
        fmt::format("{}={}..{}", GetParam().length, GetParam().range.min, GetParam().range.max));
  }
  const ProgramRun inspected = llmc(arguments);
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  const auto loops = nlohmann::json::parse(inspected.out).at("loops");
  EXPECT_GT(loops.at("all_multiply_adds").get<std::uint64_t>(), 0u);
  EXPECT_LE(20 * loops.at("multiply_adds").get<std::uint64_t>(),
            loops.at("all_multiply_adds").get<std::uint64_t>());
}
#endif

INSTANTIATE_TEST_SUITE_P(
    Shared, EncoderSamples,
    ::testing::Values(EncoderSample{"arch-enc-deberta-ts18-eager/model", "sequence_length"},
                      EncoderSample{"arch-enc-modernbert-ts18-sdpa/model", "sequence_length"},
                      EncoderSample{"s2s-bart-ts18/encoder_model", "encoder_sequence_length"},
                      EncoderSample{"t5gated-dyn23/encoder_model", "encoder_sequence_length"},
                      EncoderSample{"arch-enc-vit-ts18-sdpa/model", ""},
                      EncoderSample{"arch-enc-convnext-ts18-eager/model", ""},
                      EncoderSample{"arch-enc-whisperenc-ts18-eager/model", ""},
                      EncoderSample{"s2s-whisper-ts18/encoder_model", ""},
                      EncoderSample{
                          "arch-enc-wav2vec2-ts18-sdpa/model", "sequence_length", {400, 20000}},
                      EncoderSample{"s2s-moonshine-ts18/encoder_model", "samples", {895, 20000}}),
    [](const ::testing::TestParamInfo<EncoderSample>& info) { return name_of(info.param.model); });

}  // namespace
}  // namespace llmc::tests
