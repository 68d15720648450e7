#include "compiler/onnx/inspect.h"

#include <gtest/gtest.h>

#include "tests/support_onnx/tiny_llama.h"

namespace llmc {
namespace {

using importer::Inspection;
using testing::TinyLlama;
using testing::TinyLlamaConfig;

TEST(Inspect, ShowsASplitModel) {
  const testing::TemporaryFolder folder;
  TinyLlama(TinyLlamaConfig{}).write(folder.path());
  const auto result = importer::inspect_model(folder.path());
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->onnx.size(), 3u);
  EXPECT_EQ(result->onnx[0].file, "block_0.onnx");
  EXPECT_EQ(result->onnx[2].file, "lm.onnx");
  const auto& block = result->onnx[0];
  EXPECT_EQ(block.producer, "llmc tests");
  EXPECT_EQ(block.opsets, (std::map<std::string, std::int64_t>{{"", 15}}));
  ASSERT_EQ(block.inputs.size(), 4u);
  EXPECT_EQ(block.inputs[3].name, "past_key_values");
  EXPECT_EQ(block.inputs[3].element, "f32");
  EXPECT_EQ(block.inputs[3].dims, (std::vector<std::string>{"2", "1", "history_len", "2", "8"}));
  EXPECT_EQ(block.operators.at("MatMul"), 9);
  EXPECT_EQ(block.operators.at("Softmax"), 1);
  EXPECT_EQ(result->onnx[2].weight_bytes, 24u * 300 * 4);
  EXPECT_FALSE(result->refused.has_value());
  ASSERT_TRUE(result->model.has_value());
  EXPECT_EQ(result->files.size(), 6u);
}

TEST(Inspect, CountsPackedIntegers) {
  const testing::TemporaryFolder folder;
  testing::OnnxBuilder b(21);
  constexpr int kUint4 = 21;
  b.raw("q", kUint4, {3, 5}, std::string(8, '\0'));  // 15 integers
  b.node("DequantizeLinear", {"q", b.scalar(1)}, {}, "y");
  b.float_output("y", {std::int64_t{3}, std::int64_t{5}});
  b.save(folder.path() / "m.onnx");
  const auto result = importer::inspect_model(folder.path() / "m.onnx");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->onnx[0].weight_bytes, 8u + 4);
}

TEST(Inspect, ListsEveryUnsupportedOperatorOfEveryFile) {
  const testing::TemporaryFolder folder;
  const TinyLlama model{TinyLlamaConfig{}};
  model.write(folder.path());
  for (int i = 0; i < 2; ++i) {
    auto block = model.block(i);
    for (auto& node : *block.graph().mutable_node()) {
      if (node.op_type() == "Sigmoid") node.set_op_type("Mystery");
      if (node.op_type() == "Softmax") node.set_domain("com.example");
    }
    block.save(folder.path() / ("block_" + std::to_string(i) + ".onnx"));
  }
  const auto result = importer::inspect_model(folder.path());
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->model.has_value());
  ASSERT_TRUE(result->refused.has_value());
  std::vector<std::string> found;
  for (const auto& d : result->refused->diagnostics()) {
    EXPECT_EQ(d.kind, ErrorKind::kUnsupported);
    found.push_back(std::filesystem::path(d.file).filename().string() + " " + d.op);
    EXPECT_FALSE(d.node.empty());
    EXPECT_FALSE(d.hint.empty());
  }
  EXPECT_EQ(found,
            (std::vector<std::string>{"block_0.onnx com.example.Softmax", "block_0.onnx Mystery",
                                      "block_1.onnx com.example.Softmax", "block_1.onnx Mystery"}));
  EXPECT_EQ(result->onnx.size(), 3u);
  EXPECT_EQ(result->onnx[0].operators.at("com.example.Softmax"), 1);
}

TEST(Inspect, ShowsTheFilesOfAModelThatCannotBeImported) {
  const testing::TemporaryFolder folder;
  TinyLlama(TinyLlamaConfig{}).write(folder.path());
  testing::write_bytes(folder.path() / "block_1.onnx", "\xff\xff\xff");
  const auto result = importer::inspect_model(folder.path());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->onnx.size(), 2u);
  ASSERT_TRUE(result->refused.has_value());
  ASSERT_EQ(result->refused->diagnostics().size(), 1u);
  EXPECT_EQ(result->refused->first().file, folder.path() / "block_1.onnx");
  EXPECT_EQ(result->files.size(), 6u);
}

TEST(Inspect, FailsWhenThereIsNothingToShow) {
  const testing::TemporaryFolder folder;
  EXPECT_FALSE(importer::inspect_model(folder.path()).ok());
  EXPECT_FALSE(importer::inspect_model(folder.path() / "none.onnx").ok());
  testing::write_bytes(folder.path() / "x.onnx", "no protobuf");
  const auto result = importer::inspect_model(folder.path() / "x.onnx");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(std::filesystem::path(result.error().first().file).filename(), "x.onnx");
}

TEST(Inspect, DescribesOneFile) {
  const testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.input("x", onnx::TensorProto::FLOAT16, {"n", std::int64_t{4}});
  b.node("Relu", {"x"}, {}, "y");
  b.output("y", onnx::TensorProto::FLOAT16, {"n", std::int64_t{4}});
  b.save(folder.path() / "relu.onnx");
  const auto result = importer::inspect_model(folder.path() / "relu.onnx");
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->model.has_value());
  EXPECT_FALSE(result->model->is_decoder());
  EXPECT_EQ(result->onnx.at(0).inputs.at(0).element, "f16");
  ASSERT_EQ(result->files.size(), 1u);
  EXPECT_EQ(result->files[0].role, importer::FileRole::kModel);
}

}  // namespace
}  // namespace llmc
