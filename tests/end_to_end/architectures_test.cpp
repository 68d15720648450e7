// Exports of architectures with forms of their own: native code against the ids that the exporter's
// runtime chose, and against the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/evaluate/verify.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

std::string architecture_name(const ::testing::TestParamInfo<const char*>& info) {
  return test_name(info.param);
}

class ArchitectureSamples : public ::testing::TestWithParam<const char*> {};

TEST_P(ArchitectureSamples, AgreeInFloats) {
  const fs::path folder = shared_folder() / "onnx-samples" / GetParam();
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const auto compile = options_for(folder / "model.onnx", "avx2", ir::WeightFormat::kF32);
  evaluate::VerifyOptions options;
  options.native.compile = compile;
  const auto report = evaluate::verify_model(options);
  if (!report.ok()) return expect_ok(report.error());
  EXPECT_TRUE(report->reference_ok);
  EXPECT_LT(report->max_difference, 1e-4);
  EXPECT_EQ(report->greedy_agreement, 1.0);
  if (!fs::exists(folder / "greedy.json")) return;  // a probe that no runtime has run
  const auto golden = nlohmann::json::parse(testing::read_bytes(folder / "greedy.json"));
  const auto expected = golden["greedy"].get<std::vector<std::int32_t>>();
  ASSERT_FALSE(expected.empty());
  const auto model = load(compile);
  ASSERT_NE(model, nullptr);
  const auto prompt = golden["prompt"].get<std::vector<std::int32_t>>();
  EXPECT_EQ(generate(*model, prompt, expected.size()).ids, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Shared, ArchitectureSamples,
    ::testing::Values(
        "arch-apertus-ts18-eager", "arch-bloom-ts18-eager", "arch-deepseek_v3-dyn18-sdpa-dense",
        "arch-falcon40-dyn18-sdpa", "arch-gemma4-ts18-eager", "arch-gemma4ple-ts18-eager",
        "arch-gpt_neox-ts18-eager", "arch-gpt_oss-ts18-eager-dense", "arch-gptj-dyn18-eager",
        "arch-granitemoehybrid-ts18-eager", "arch-lfm2-ts18-eager", "arch-mamba2-ts18-eager",
        "arch-qwen3_next-ts18-eager", "arch-helium-dyn18-sdpa", "arch-hunyuan-ts18-eager",
        "arch-llama3yarn-ts18-eager", "arch-llama4d-ts18-eager", "arch-ministral3-ts18-eager",
        "arch-mixtral-ts18-eager", "arch-mixtral-ts18-eager-nonzero", "arch-mla-ts18-eager",
        "arch-olmoe-ts18-eager", "arch-opt-ts18-eager", "arch-phi3longw-ts18-eager",
        "arch-probe-scalar-perlayer", "arch-qwen3_moe-dyn18-sdpa", "arch-sinks-ts18-eager-dense"),
    architecture_name);

}  // namespace
}  // namespace llmc::tests
