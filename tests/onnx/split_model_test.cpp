// Whole split models through the importer and the interpreter, against TinyLlama's own forward
// pass.

#include <gtest/gtest.h>

#include <ostream>

#include "compiler/ir/verify.h"
#include "compiler/onnx/model.h"
#include "tests/ir/verify_states.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/tiny_llama.h"

namespace llmc {
namespace {

using importer::FileRole;
using importer::ImportedModel;
using testing::DecoderRunner;
using testing::TinyLayout;
using testing::TinyLlama;
using testing::TinyLlamaConfig;

struct SplitCase {
  std::string name;
  TinyLlamaConfig config;
  float tolerance = 2e-5f;

  friend void PrintTo(const SplitCase& c, std::ostream* out) { *out << c.name; }
};

/// The width of the embedded rows.
std::int64_t width_of_rows(const ir::Graph& graph) {
  for (const ir::Value& value : graph.values())
    if (value.name.ends_with("inputs_embeds")) return value.type.dims.back().constant().value_or(0);
  return 0;
}

class SplitModel : public ::testing::TestWithParam<SplitCase> {};

TEST_P(SplitModel, ComputesWhatItsForwardPassSays) {
  const TinyLlama model(GetParam().config);
  const testing::TemporaryFolder folder;
  model.write(folder.path());
  const auto imported = importer::import_model(folder.path());
  ASSERT_TRUE(imported.ok()) << errors(imported.error());
  const auto verified = ir::verify(imported->graph());
  ASSERT_TRUE(verified.ok()) << errors(verified.error());
  EXPECT_TRUE(ir::testing::verify_states(imported->module).ok());

  // Once in one go, once in chunks of 3, 1 and 2 tokens over the cache.
  const std::vector<std::int64_t> ids{1, 17, 258, 40, 5, 99};
  const auto expected = model.logits(ids);
  DecoderRunner whole(*imported);
  const auto at_once = whole.feed(ids);
  ASSERT_TRUE(at_once.ok()) << errors(at_once.error());
  EXPECT_LT(testing::largest_difference(*at_once, expected), GetParam().tolerance);
  DecoderRunner steps(*imported);
  ASSERT_TRUE(steps.feed({1, 17, 258}).ok());
  ASSERT_TRUE(steps.feed({40}).ok());
  const auto in_steps = steps.feed({5, 99});
  ASSERT_TRUE(in_steps.ok()) << errors(in_steps.error());
  EXPECT_LT(testing::largest_difference(*in_steps, expected), GetParam().tolerance);
}

TEST_P(SplitModel, SaysWhatItIs) {
  const auto& config = GetParam().config;
  const testing::TemporaryFolder folder;
  TinyLlama(config).write(folder.path());
  const auto imported = importer::import_model(folder.path());
  ASSERT_TRUE(imported.ok()) << errors(imported.error());
  EXPECT_TRUE(imported->is_decoder());
  EXPECT_EQ(std::ssize(imported->module.states), config.layers);
  EXPECT_EQ(width_of_rows(imported->graph()), config.hidden);
  EXPECT_EQ(imported->module.states[0].kv_heads, config.kv_heads);
  EXPECT_EQ(imported->module.states[0].head_dim, config.head_dim);
  EXPECT_EQ(imported->module.vocabulary(), config.vocabulary);
  EXPECT_EQ(imported->module.states[0].layout, config.layout == TinyLayout::kSequenceFirst
                                                   ? ir::CacheLayout::kSequenceFirst
                                                   : ir::CacheLayout::kHeadsFirst);
  EXPECT_TRUE(imported->graph().input(ir::InputKind::kMask).exists());
  EXPECT_TRUE(imported->graph().input(ir::InputKind::kPositions).exists());
  EXPECT_EQ(imported->prompt_template, "%s");
  ASSERT_TRUE(imported->tokenizer.has_value());
  EXPECT_EQ(imported->tokenizer->tokens, config.vocabulary);

  const auto& graph = imported->graph();
  std::vector<std::string> inputs;
  for (const auto id : graph.inputs())
    inputs.push_back(graph.value(id).name + " " + ir::to_string(graph.value(id).type));
  const std::string kv = std::to_string(config.kv_heads), dim = std::to_string(config.head_dim);
  const bool sequence_first = config.layout == TinyLayout::kSequenceFirst;
  const auto cache = [&](const std::string& length) {
    return "f32[2, 1, " + (sequence_first ? length + ", " + kv : kv + ", " + length) + ", " + dim +
           "]";
  };
  std::vector<std::string> expected{"input_ids i64[seq]",
                                    "attention_mask f32[1, 1, seq, past + seq]",
                                    "position_ids i64[1, seq]"};
  for (std::int64_t i = 0; i < config.layers; ++i)
    expected.push_back("past." + std::to_string(i) + " " + cache("past"));
  EXPECT_EQ(inputs, expected);
  ASSERT_EQ(graph.outputs().size(), static_cast<std::size_t>(config.layers) + 1);
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "logits");
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto& present = graph.value(graph.outputs()[static_cast<std::size_t>(i) + 1]);
    EXPECT_EQ(present.name, "present." + std::to_string(i));
    EXPECT_EQ(ir::to_string(present.type), cache("past + seq"));
  }
}

std::vector<SplitCase> cases() {
  std::vector<SplitCase> all{{"plain", {}}};
  const auto add = [&](const std::string& name, auto change, float tolerance = 2e-5f) {
    SplitCase c{name, {}, tolerance};
    change(c.config);
    all.push_back(std::move(c));
  };
  add("heads_first", [](auto& c) { c.layout = TinyLayout::kHeadsFirst; });
  add("multi_head", [](auto& c) { c.kv_heads = c.heads; });
  add("one_kv_head", [](auto& c) { c.kv_heads = 1; });
  add("bias", [](auto& c) { c.bias = true; });
  add("one_layer", [](auto& c) { c.layers = 1; });
  add("eleven_layers", [](auto& c) { c.layers = 11; });  // block_10 is after block_9
  add("norm_in_head", [](auto& c) { c.norm_in_head = true; });
  add("token_id_head", [](auto& c) { c.token_id_head = true; });
  add("embedding_graph", [](auto& c) { c.embedding_graph = true; });
  add("external_data", [](auto& c) { c.external_data = true; });
  add("quirky_types", [](auto& c) { c.quirky_types = true; });
  add("quirky_types_heads_first", [](auto& c) {
    c.quirky_types = true;
    c.layout = TinyLayout::kHeadsFirst;
  });
  add("opset_11", [](auto& c) { c.opset = 11; });
  add("opset_21", [](auto& c) { c.opset = 21; });
  // The oracle computes cos and sin in double; the half-precision graph rounds its constants only.
  add("float16", [](auto& c) { c.weight_type = onnx::TensorProto::FLOAT16; }, 2e-3f);
  add("bfloat16", [](auto& c) { c.weight_type = onnx::TensorProto::BFLOAT16; }, 2e-2f);
  add(
      "float16_external_embedding_graph",
      [](auto& c) {
        c.weight_type = onnx::TensorProto::FLOAT16;
        c.external_data = c.embedding_graph = true;
      },
      2e-3f);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, SplitModel, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(SplitModelFiles, AreListedWithTheirRoles) {
  const testing::TemporaryFolder folder;
  TinyLlamaConfig config;
  config.external_data = true;
  TinyLlama(config).write(folder.path());
  testing::write_bytes(folder.path() / "README", "hello");
  testing::write_bytes(folder.path() / "llm.onnx", "not read");
  const auto imported = importer::import_model(folder.path());
  ASSERT_TRUE(imported.ok()) << errors(imported.error());
  std::map<std::string, FileRole> roles;
  for (const auto& file : imported->files) roles[file.name] = file.role;
  const std::map<std::string, FileRole> expected{{"README", FileRole::kIgnored},
                                                 {"block_0.onnx", FileRole::kBlock},
                                                 {"block_0.onnx.data", FileRole::kExternalData},
                                                 {"block_1.onnx", FileRole::kBlock},
                                                 {"block_1.onnx.data", FileRole::kExternalData},
                                                 {"embeddings_bf16.bin", FileRole::kEmbedding},
                                                 {"llm.onnx", FileRole::kIgnored},
                                                 {"llm_config.json", FileRole::kConfig},
                                                 {"lm.onnx", FileRole::kHead},
                                                 {"lm.onnx.data", FileRole::kExternalData},
                                                 {"tokenizer.txt", FileRole::kTokenizer}};
  EXPECT_EQ(roles, expected);
}

TEST(SplitModelFiles, HashChangesWithTheContentOnly) {
  const testing::TemporaryFolder a, b;
  const TinyLlama model{TinyLlamaConfig{}};
  model.write(a.path());
  model.write(b.path());
  const auto hash = [](const testing::TemporaryFolder& folder) {
    const auto imported = importer::import_model(folder.path());
    EXPECT_TRUE(imported.ok());
    return *importer::content_hash(*imported);
  };
  const std::string first = hash(a);
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first, hash(b));
  testing::write_bytes(b.path() / "notes.txt", "ignored");
  EXPECT_EQ(first, hash(b));
  auto table = testing::read_bytes(b.path() / "embeddings_bf16.bin");
  table[100] = static_cast<char>(table[100] ^ 1);
  testing::write_bytes(b.path() / "embeddings_bf16.bin", table);
  EXPECT_NE(first, hash(b));
}

TEST(SplitModelConfig, MayBeMissingWhenTheGraphTells) {
  const testing::TemporaryFolder folder;
  const TinyLlama model{TinyLlamaConfig{}};
  model.write(folder.path());
  std::filesystem::remove(folder.path() / "llm_config.json");
  const auto imported = importer::import_model(folder.path());
  ASSERT_TRUE(imported.ok()) << errors(imported.error());
  EXPECT_EQ(width_of_rows(imported->graph()), 24);
  EXPECT_EQ(imported->module.states[0].kv_heads, 2);
}

TEST(SplitModelConfig, LayoutComesFromTheGraphWhereTheyDisagree) {
  const testing::TemporaryFolder folder;
  TinyLlamaConfig config;
  const TinyLlama model{config};
  model.write(folder.path());
  config.layout = TinyLayout::kHeadsFirst;
  testing::write_bytes(folder.path() / "llm_config.json", models::config_json(config));
  const auto imported = importer::import_model(folder.path());
  ASSERT_TRUE(imported.ok()) << errors(imported.error());
  EXPECT_EQ(imported->module.states[0].layout, ir::CacheLayout::kSequenceFirst);
}

// Weights have to stay where they are: opening a model may not copy them.
TEST(SplitModelWeights, AreWindowsIntoTheFiles) {
  const testing::TemporaryFolder folder;
  TinyLlama(TinyLlamaConfig{}).write(folder.path());
  const auto imported = importer::import_model(folder.path());
  ASSERT_TRUE(imported.ok()) << errors(imported.error());
  int matrices = 0;
  for (const auto& node : imported->graph().nodes()) {
    const auto* constant = std::get_if<ir::ConstantOp>(&node.op);
    if (!constant || constant->data->dims().size() != 2) continue;
    ++matrices;
    EXPECT_TRUE(constant->data->describe().starts_with("mapped")) << constant->data->describe();
  }
  EXPECT_EQ(matrices, 2 * 7 + 2);
}

}  // namespace
}  // namespace llmc
