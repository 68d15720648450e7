// Expert layers that the model contains as a single operator of com.microsoft (QMoE).

#include <gtest/gtest.h>

#include "compiler/onnx/model.h"
#include "passes/fusions.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc::passes {
namespace {

/// Imports a quantized layer of 4 experts, f32 [1, 5, 16] -> f32 [1, 5, 16].
Result<importer::ImportedModel> quantized_layer() {
  llmc::testing::OnnxBuilder b(17);
  auto& set = *b.model.add_opset_import();
  set.set_domain("com.microsoft");
  set.set_version(1);
  b.float_input("x", {std::int64_t{1}, std::int64_t{5}, std::int64_t{16}});
  b.float_input("router", {std::int64_t{5}, std::int64_t{4}});
  b.float_output("y", {});
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    b.raw(name, onnx::TensorProto::UINT8, {4, rows, columns / 2},
          std::string(static_cast<std::size_t>(4 * rows * columns / 2), '\x5a'));
    b.floats(name + "s", {4, rows, columns / 4},
             std::vector<float>(static_cast<std::size_t>(rows * columns), 0.5f));
    b.floats(name + "b", {4, rows}, std::vector<float>(static_cast<std::size_t>(4 * rows), 1));
  };
  add("w1", 8, 16);
  add("w2", 16, 8);
  b.raw_node("QMoE", {"x", "router", "w1", "w1s", "w1b", "w2", "w2s", "w2b"}, {"y"},
             {{"k", std::int64_t{2}}, {"block_size", std::int64_t{4}}})
      .set_domain("com.microsoft");
  const llmc::testing::TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  return importer::import_model(folder.path() / "m.onnx");
}

TEST(QMoE, OnlyChosenExpertsAreReadAndCodesStay) {
  const auto model = quantized_layer();
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  const auto fused = fuse_experts(model->graph(), {});
  ASSERT_TRUE(fused.ok()) << format(fused.error().first());
  const ir::UseDef uses(*fused);
  int layers = 0;
  for (const ir::Node& node : fused->nodes()) {
    EXPECT_FALSE(std::holds_alternative<ir::MatMul>(node.op));
    if (!std::holds_alternative<ir::ExpertLinear>(node.op)) continue;
    ++layers;
    ASSERT_EQ(node.inputs.size(), 4u) << "with its bias";
    const ir::ConstantPtr weight = uses.constant(node.inputs[1]);
    ASSERT_TRUE(weight);
    const auto quantization = weight->quantization();
    ASSERT_TRUE(quantization.has_value());
    EXPECT_EQ(quantization->block, 4);
  }
  EXPECT_EQ(layers, 2);
}

}  // namespace
}  // namespace llmc::passes
