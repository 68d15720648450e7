#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "compiler/ir/text.h"
#include "compiler/onnx/model.h"
#include "passes/pipeline.h"
#include "passes/recognise.h"
#include "tests/passes/evaluation.h"

/// Whole models: the imported graph and the stages compute the same results, and the stages are the
/// expected ones.
namespace llmc::passes {
namespace {

using Counts = std::map<std::string, std::int64_t>;

std::filesystem::path shared_folder() {
  const char* given = std::getenv("LLMC_SHARED_DIR");
  return given ? std::filesystem::path(given)
               : std::filesystem::path(LLMC_SOURCE_DIR).parent_path() / "shared";
}

struct Model {
  std::string folder;  // in shared/ or in the repository
  std::int64_t layers, heads, kv_heads, head_dim, hidden, intermediate, vocabulary;
  double theta;
  float epsilon;
  bool bias;
  ir::CacheLayout layout;

  friend void PrintTo(const Model& c, std::ostream* out) { *out << c.folder; }
};

class Models : public ::testing::TestWithParam<Model> {
 protected:
  std::filesystem::path folder() const {
    const auto own = std::filesystem::path(LLMC_SOURCE_DIR) / GetParam().folder;
    return std::filesystem::exists(own) ? own : shared_folder() / GetParam().folder;
  }
};

TEST_P(Models, ReachTheStageFormAndMeanTheSame) {
  const Model& m = GetParam();
  if (!std::filesystem::exists(folder()))
    GTEST_SKIP() << folder() << " is not there (LLMC_SHARED_DIR)";
  auto imported = importer::import_model(folder());
  ASSERT_TRUE(imported.ok()) << format(imported.error().first());
  auto fused = run_pipeline(imported->graph());
  ASSERT_TRUE(fused.ok()) << format(fused.error().first());

  const ModelProperties facts = recognise(fused->graph);
  EXPECT_EQ(facts.unfused, Counts{});
  EXPECT_EQ(facts.operators, (Counts{{"embedding", 1},
                                     {"loop", 1},
                                     {"qkv_projection", m.layers},
                                     {"attention", m.layers},
                                     {"linear", 3 * m.layers + 1},
                                     {"gather", 1},
                                     {"reshape", 3}}));
  EXPECT_EQ(facts.layers, m.layers);
  EXPECT_EQ(facts.heads, m.heads);
  EXPECT_EQ(facts.kv_heads, m.kv_heads);
  EXPECT_EQ(facts.head_dim, m.head_dim);
  EXPECT_EQ(facts.rotary_dim, m.head_dim);
  EXPECT_EQ(facts.hidden, m.hidden);
  EXPECT_EQ(facts.intermediate, m.intermediate);
  EXPECT_EQ(facts.vocabulary, m.vocabulary);
  EXPECT_EQ(facts.fused.norms, 2 * m.layers + 1);
  EXPECT_EQ(facts.fused.ropes, 2 * m.layers);
  EXPECT_EQ(facts.fused.mlps, m.layers);
  ASSERT_TRUE(facts.rope_theta.has_value());
  EXPECT_DOUBLE_EQ(*facts.rope_theta, m.theta);
  EXPECT_EQ(facts.norm_epsilon, m.epsilon);
  EXPECT_EQ(facts.qkv_bias, m.bias);
  EXPECT_EQ(facts.cache_layout, m.layout);
  for (const PassReport& report : fused->reports)
    EXPECT_EQ(report.dropped_inputs, report.name == "fuse_attention"
                                         ? std::vector<std::string>{"attention_mask"}
                                         : std::vector<std::string>{})
        << report.name;

  // A prompt, then a step on the prompt's cache. Both graphs get the original graph's cache.
  testing::Inputs inputs = testing::make_inputs(imported->graph(), {{"seq", 5}, {"past", 0}}, 7);
  testing::expect_same_results(imported->graph(), fused->graph, inputs, 1e-4);
  const auto cache = testing::evaluate(imported->graph(), inputs);
  inputs = testing::make_inputs(imported->graph(), {{"seq", 1}, {"past", 5}}, 8);
  for (std::int64_t l = 0; l < m.layers; ++l)
    inputs["past." + std::to_string(l)] = cache.at("present." + std::to_string(l));
  testing::expect_same_results(imported->graph(), fused->graph, inputs, 1e-4);
}

constexpr auto kSequence = ir::CacheLayout::kSequenceFirst;
constexpr auto kHeads = ir::CacheLayout::kHeadsFirst;

INSTANTIATE_TEST_SUITE_P(All, Models,
                         ::testing::Values(Model{"models/tinyfable", 4, 6, 2, 32, 192, 432, 1100,
                                                 1e4, 1e-5f, false, kSequence},
                                           Model{"models/stories15M-split", 6, 6, 6, 48, 288, 768,
                                                 32000, 1e4, 1e-5f, false, kSequence},
                                           Model{"onnx-samples/split-llama-ts17-bhsd", 2, 4, 2, 16,
                                                 64, 176, 320, 1e4, 1e-5f, false, kHeads},
                                           Model{"onnx-samples/split-qwen15-ts15-bhsd", 2, 4, 4, 16,
                                                 64, 176, 320, 1e4, 1e-6f, true, kHeads},
                                           Model{"onnx-samples/split-qwen15-ts15-bshd-quirk-slim24",
                                                 2, 4, 4, 16, 64, 176, 320, 1e4, 1e-6f, true,
                                                 kSequence},
                                           Model{"onnx-samples/split-qwen2gqa-ts15-bshd", 2, 4, 2,
                                                 16, 64, 176, 320, 1e6, 1e-6f, true, kSequence},
                                           Model{"onnx-samples/split-qwen2gqa-dyn18-bshd", 2, 4, 2,
                                                 16, 64, 176, 320, 1e6, 1e-6f, true, kSequence}),
                         [](const auto& info) {
                           std::string name =
                               std::filesystem::path(info.param.folder).filename().string();
                           for (char& ch : name)
                             if (ch == '-') ch = '_';
                           return name;
                         });

/// Models in one file from other exporters. They must compute the same results after the passes,
/// however much of them is fused.
struct OtherExport {
  std::string file;
  Counts operators;  // numbers of operators after the passes; empty: not compared

  friend void PrintTo(const OtherExport& c, std::ostream* out) { *out << c.file; }
};

class OtherExports : public ::testing::TestWithParam<OtherExport> {};

TEST_P(OtherExports, MeanTheSame) {
  const auto path = shared_folder() / "onnx-samples" / GetParam().file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there (LLMC_SHARED_DIR)";
  auto imported = importer::import_model(path);
  ASSERT_TRUE(imported.ok()) << format(imported.error().first());
  auto fused = run_pipeline(imported->graph());
  ASSERT_TRUE(fused.ok()) << format(fused.error().first());
  if (!GetParam().operators.empty())
    EXPECT_EQ(recognise(fused->graph).operators, GetParam().operators);
  for (const auto& [seq, past] : {std::pair(4, 0), std::pair(1, 4), std::pair(3, 2)})
    testing::expect_same_results(
        imported->graph(), fused->graph,
        testing::make_inputs(imported->graph(), {{"seq", seq}, {"past", past}}, 3), 1e-4);
}

const Counts kLlamaStages{{"embedding", 1}, {"loop", 1},   {"qkv_projection", 2},
                          {"attention", 2}, {"linear", 7}, {"reshape", 1}};

/// The same with a scalar factor for the attention of each layer.
const Counts kScaledStages{{"embedding", 1}, {"loop", 1},   {"qkv_projection", 2},
                           {"attention", 2}, {"linear", 7}, {"reshape", 1},
                           {"mul", 2},       {"add", 2}};

INSTANTIATE_TEST_SUITE_P(
    All, OtherExports,
    ::testing::Values(OtherExport{"hf-llama-ts14-eager/model.onnx", kLlamaStages},
                      OtherExport{"hf-llama-ts18-eager-fp16/model.onnx", kLlamaStages},
                      OtherExport{"hf-llama-ts18-sdpa/model.onnx", kLlamaStages},
                      OtherExport{"hf-qwen2-ts18-sdpa/model.onnx", kLlamaStages},
                      OtherExport{"arch-helium-dyn18-sdpa/model.onnx", kLlamaStages},
                      OtherExport{"arch-gptj-dyn18-eager/model.onnx", kLlamaStages},
                      OtherExport{"arch-probe-scalar-perlayer/model.onnx", kScaledStages},
                      OtherExport{"hf-phi-ts18-eager/model.onnx", {}},
                      OtherExport{"split-qwen2gqa-ts15-bshd/llm.onnx", {}},
                      OtherExport{"t5-ts18/encoder_model.onnx", {}},
                      OtherExport{"t5-ts18/decoder_model.onnx", {}}),
    [](const auto& info) {
      std::string name = info.param.file;
      for (char& ch : name)
        if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
      return name;
    });

}  // namespace
}  // namespace llmc::passes
