// Decoders in the forms that exporters write. Each must become the same few stages and still
// compute the same results.

#include <gtest/gtest.h>

#include "compiler/onnx/model.h"
#include "passes/pipeline.h"
#include "passes/recognise.h"
#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/tiny_decoder.h"

namespace llmc::passes {
namespace {

using llmc::testing::DecoderForm;
using llmc::testing::DecoderRunner;
using llmc::testing::NormForm;
using Cache = DecoderForm::Cache;
using Mask = DecoderForm::Mask;
using LayerScale = DecoderForm::LayerScale;
using Mlp = DecoderForm::Mlp;
using Positions = DecoderForm::Positions;
using Rope = DecoderForm::Rope;

std::string errors(const Error& error) {
  std::string text;
  for (const auto& d : error.diagnostics()) text += format(d) + "\n";
  return text;
}

class DecoderForms : public ::testing::TestWithParam<DecoderForm> {};

TEST_P(DecoderForms, ReachTheStageFormAndMeanTheSame) {
  const DecoderForm& form = GetParam();
  const llmc::testing::TemporaryFolder folder;
  llmc::testing::tiny_decoder(form).save(folder.path() / "model.onnx");
  auto imported = importer::import_model(folder.path() / "model.onnx");
  ASSERT_TRUE(imported.ok()) << errors(imported.error());
  ASSERT_TRUE(imported->is_decoder());
  EXPECT_EQ(std::ssize(imported->module.states), 2);
  EXPECT_EQ(imported->module.states[0].kv_heads, 2);
  EXPECT_EQ(imported->module.states[0].head_dim, 4);

  auto fused = run_pipeline(imported->graph());
  ASSERT_TRUE(fused.ok()) << errors(fused.error());
  const ModelProperties facts = recognise(fused->graph);
  EXPECT_EQ(facts.unfused, (std::map<std::string, std::int64_t>{}));
  EXPECT_EQ(facts.fused.attentions, 2);
  EXPECT_EQ(facts.fused.mlps, 2);
  EXPECT_EQ(facts.fused.ropes, form.rope == Rope::kNone ? 0 : 4);
  EXPECT_EQ(facts.fused.head_norms, form.head_norms ? 4 : 0);
  // A norm that both attention and MLP read becomes the prologue of each.
  const std::int64_t norms = form.post_norms ? 9 : 5;
  EXPECT_EQ(form.layer_norms ? facts.fused.layer_norms : facts.fused.norms, norms);
  EXPECT_EQ(facts.softcap, form.softcap ? 5.0f : 0.0f);
  const std::int64_t window = form.mask == Mask::kWindow || form.mask == Mask::kGroupQuery ? 3 : 0;
  EXPECT_EQ(facts.windows, (std::map<std::int64_t, std::int64_t>{{window, 2}}));
  EXPECT_EQ(facts.rope_interleaved, form.rope == Rope::kInterleaved);
  for (ir::ValueId input : fused->graph.inputs())
    EXPECT_NE(fused->graph.value(input).name, "attention_mask");

  importer::ImportedModel stages = *imported;
  stages.module.graph() = fused->graph;
  DecoderRunner before(*imported), after(stages);
  before.spread_positions();
  after.spread_positions();
  for (const std::vector<std::int64_t>& ids :
       {std::vector<std::int64_t>{3, 1, 20, 7, 5}, {9}, {11, 2}, {0}}) {
    const auto expected = before.feed(ids), got = after.feed(ids);
    ASSERT_TRUE(expected.ok()) << errors(expected.error());
    ASSERT_TRUE(got.ok()) << errors(got.error());
    EXPECT_LE(llmc::testing::largest_difference(*got, *expected), 1e-4f);
  }
}

std::vector<DecoderForm> forms() {
  const DecoderForm plain;
  std::vector<DecoderForm> list;
  const auto add = [&](const std::string& name, auto change) {
    DecoderForm form = plain;
    form.name = name;
    change(form);
    list.push_back(form);
  };
  add("Plain", [](auto&) {});
  for (const std::int64_t opset : {14, 15, 16, 17, 20, 21, 22, 23, 24})
    add("Opset" + std::to_string(opset), [=](auto& f) { f.opset = opset; });
  add("Float16", [](auto& f) { f.float_type = onnx::TensorProto::FLOAT16; });
  add("BFloat16", [](auto& f) { f.float_type = onnx::TensorProto::BFLOAT16; });
  add("SequenceFirst", [](auto& f) { f.cache = Cache::kSequenceFirst; });
  add("TurnedCache", [](auto& f) { f.cache = Cache::kTurned; });
  add("JoinedCache", [](auto& f) { f.cache = Cache::kJoined; });
  add("StackedCache", [](auto& f) { f.cache = Cache::kStacked; });
  add("StackedCacheTriangle", [](auto& f) {
    f.cache = Cache::kStacked;
    f.mask = Mask::kTriangle;
    f.positions = Positions::kCounted;
  });
  add("PlainNames", [](auto& f) { f.plain_names = true; });
  add("Window", [](auto& f) { f.mask = Mask::kWindow; });
  add("Triangle", [](auto& f) { f.mask = Mask::kTriangle; });
  add("GivenFloats", [](auto& f) { f.mask = Mask::kGivenFloats; });
  add("GivenBools", [](auto& f) { f.mask = Mask::kGivenBools; });
  add("GroupQuery", [](auto& f) {
    f.mask = Mask::kGroupQuery, f.rope = Rope::kHalves, f.positions = Positions::kCounted;
  });
  add("CountedPositions", [](auto& f) { f.positions = Positions::kCounted; });
  add("SummedPositions", [](auto& f) { f.positions = Positions::kSummed; });
  add("CachePosition", [](auto& f) { f.positions = Positions::kCachePosition; });
  add("Interleaved", [](auto& f) { f.rope = Rope::kInterleaved; });
  add("Table", [](auto& f) { f.rope = Rope::kTable; });
  add("TableCountedPositions",
      [](auto& f) { f.rope = Rope::kTable, f.positions = Positions::kCounted; });
  add("Sections", [](auto& f) { f.rope = Rope::kSections; });
  add("StoredSections", [](auto& f) { f.rope = Rope::kStoredSections; });
  add("Packed", [](auto& f) { f.packed = true, f.mlp = Mlp::kFused; });
  add("HeadNorms", [](auto& f) { f.head_norms = true; });
  add("LayerNormsParallelGelu", [](auto& f) {
    f.layer_norms = f.parallel = true;
    f.mlp = Mlp::kGeluTanh;
  });
  add("SoftcapPostNorms", [](auto& f) { f.softcap = f.post_norms = true; });
  add("Functions", [](auto& f) { f.functions = true; });
  add("Merged", [](auto& f) { f.merged = true; });
  add("MergedFunctions", [](auto& f) { f.merged = f.functions = true; });
  add("Grouped", [](auto& f) { f.grouped = true; });
  for (const auto& [name, norm] : {std::pair("NormWithoutEpsilon", NormForm::kNoEpsilon),
                                   std::pair("NormByIntegerPower", NormForm::kIntegerPower),
                                   std::pair("NormByDoublePower", NormForm::kDoublePower),
                                   std::pair("NormBySumSquare", NormForm::kSumSquare),
                                   std::pair("NormOfDroppedAxis", NormForm::kDroppedAxis),
                                   std::pair("NormByLength", NormForm::kEuclidean),
                                   std::pair("NormByLpNormalization", NormForm::kLpNormalization)})
    for (const std::int64_t opset : {17, 18})
      add(name + std::to_string(opset), [=](auto& f) { f.norm = norm, f.opset = opset; });
  add("HeadNormsByLength", [](auto& f) { f.head_norms = true, f.norm = NormForm::kEuclidean; });
  add("LayerScalars", [](auto& f) { f.layer_scale = LayerScale::kScalar; });
  add("LayerScalarsOfOneElement", [](auto& f) { f.layer_scale = LayerScale::kOneElement; });
  add("LayerScalarsInNodes", [](auto& f) { f.layer_scale = LayerScale::kConstantNode; });
  add("ReluSquared", [](auto& f) { f.mlp = Mlp::kReluSquared; });
  add("NoRope", [](auto& f) { f.rope = Rope::kNone; });
  return list;
}

// Comments of the emitted source and messages name these nodes.
TEST(StageOrigins, AreTheNodesThatTheStagesComeFrom) {
  for (const bool packed : {false, true}) {
    SCOPED_TRACE(packed);
    DecoderForm form;
    form.packed = packed;
    const llmc::testing::TemporaryFolder folder;
    llmc::testing::tiny_decoder(form).save(folder.path() / "model.onnx");
    auto imported = importer::import_model(folder.path() / "model.onnx");
    ASSERT_TRUE(imported.ok()) << errors(imported.error());
    auto fused = run_pipeline(imported->graph());
    ASSERT_TRUE(fused.ok()) << errors(fused.error());
    const ir::Graph* body = &fused->graph;
    for (const ir::Node& node : fused->graph.nodes())
      if (const auto* loop = std::get_if<ir::Loop>(&node.op)) body = loop->body.get();
    const ir::UseDef uses(*body);
    std::string projection, attention, angles;
    for (const ir::Node& node : body->nodes()) {
      if (std::holds_alternative<ir::Attention>(node.op)) attention = node.origin.node;
      if (std::holds_alternative<ir::Linear>(node.op)) {
        EXPECT_TRUE(node.origin.node.starts_with("/MatMul_")) << node.origin.node;
      }
      if (!std::holds_alternative<ir::QkvProjection>(node.op)) continue;
      projection = node.origin.node;
      const ir::Node* frequencies = uses.producer(node.inputs.at(5));
      ASSERT_NE(frequencies, nullptr);
      angles = frequencies->origin.node;
    }
    EXPECT_TRUE(projection.starts_with("/MatMul_")) << projection;
    EXPECT_TRUE(attention.starts_with("/MatMul_")) << attention;
    EXPECT_NE(projection, attention);
    EXPECT_TRUE(angles.starts_with("/Cos_") || angles.starts_with("/Sin_")) << angles;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecoderForms, ::testing::ValuesIn(forms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace llmc::passes
