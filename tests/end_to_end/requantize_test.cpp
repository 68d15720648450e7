// Models with integer codes whose matrices are rounded again: --requantize.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/evaluate/verify.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Stores the matrices [inputs, outputs] of a graph as int8 codes with a scale for each output.
void quantize(onnx::GraphProto& graph) {
  const onnx::GraphProto before = graph;
  graph.clear_node();
  graph.clear_initializer();
  for (const onnx::TensorProto& tensor : before.initializer()) {
    if (tensor.dims_size() != 2) {
      *graph.add_initializer() = tensor;
      continue;
    }
    const auto rows = static_cast<std::size_t>(tensor.dims(0));
    const auto columns = static_cast<std::size_t>(tensor.dims(1));
    std::vector<float> values(rows * columns), scales(columns);
    ASSERT_EQ(tensor.raw_data().size(), values.size() * sizeof(float));
    std::copy_n(tensor.raw_data().data(), tensor.raw_data().size(),
                reinterpret_cast<char*>(values.data()));
    std::string codes;
    for (std::size_t i = 0; i < values.size(); ++i)
      scales[i % columns] = std::max(scales[i % columns], std::fabs(values[i]) / 127);
    for (std::size_t i = 0; i < values.size(); ++i)
      codes.push_back(static_cast<char>(std::lround(values[i] / scales[i % columns])));
    onnx::TensorProto& code = *graph.add_initializer();
    code = tensor;
    code.set_name(tensor.name() + ".codes");
    code.set_data_type(onnx::TensorProto::INT8);
    code.set_raw_data(codes);
    onnx::TensorProto& scale = *graph.add_initializer();
    scale.set_name(tensor.name() + ".scales");
    scale.set_data_type(onnx::TensorProto::FLOAT);
    scale.add_dims(tensor.dims(1));
    scale.set_raw_data(scales.data(), scales.size() * sizeof(float));
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type("DequantizeLinear");
    for (const char* part : {".codes", ".scales"}) node.add_input(tensor.name() + part);
    node.add_output(tensor.name());
    onnx::AttributeProto& axis = *node.add_attribute();
    axis.set_name("axis");
    axis.set_type(onnx::AttributeProto::INT);
    axis.set_i(1);
  }
  for (const onnx::NodeProto& node : before.node()) *graph.add_node() = node;
}

class Requantize : public ::testing::Test {
 protected:
  Requantize() : model_({.head_dim = 16, .hidden = 64, .intermediate = 96}) {
    for (std::int64_t i = 0; i < model_.model().config.layers; ++i) {
      testing::OnnxBuilder block = model_.model().block(i);
      quantize(block.graph());
      block.save(model_.path() / ("block_" + std::to_string(i) + ".onnx"));
    }
    testing::OnnxBuilder head = model_.model().lm();
    quantize(head.graph());
    head.save(model_.path() / "lm.onnx");
  }
  evaluate::VerifyReport verified(bool requantize) {
    evaluate::VerifyOptions options;
    options.native.compile = options_for(model_.path(), "avx2", ir::WeightFormat::kQ4);
    options.native.compile.requantize = requantize;
    options.long_run = false;
    auto report = evaluate::verify_model(options);
    if (!report.ok()) expect_ok(report.error());
    return report.ok() ? *std::move(report) : evaluate::VerifyReport();
  }

  ModelFolder model_;
};

TEST_F(Requantize, RoundsTheCodesOfTheModelWhenAsked) {
  const auto kept = verified(false), rounded = verified(true);
  EXPECT_GT(kept.rounding.kept, 0u);
  EXPECT_EQ(kept.rounding.requantized, 0u);
  EXPECT_EQ(rounded.rounding.kept, 0u);
  EXPECT_EQ(rounded.rounding.requantized, kept.rounding.kept);
  // The limits are those of the formats that the weights really have.
  EXPECT_EQ(kept.max_kl_allowed, 0.02);
  EXPECT_EQ(rounded.max_kl_allowed, 0.5);
  EXPECT_TRUE(kept.reference_ok);
  EXPECT_TRUE(rounded.reference_ok);
  EXPECT_LT(kept.mean_kl, rounded.mean_kl);
  EXPECT_NE(kept.runs.front().golden_key, rounded.runs.front().golden_key);
}

#ifdef LLMC_PROGRAM
TEST_F(Requantize, IsCalibratedAndSaysSo) {
  testing::TemporaryFolder folder;
  const auto compile = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{
        "compile",    model_.path().string(), "-o",      (folder.path() / "out").string(),
        "--quant=q4", "--cflag=-O0",          "--ctx=64"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llmc(arguments);
  };
  const ProgramRun kept = compile({"--calibrate=self"});
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("no matrix is rounded"));
  EXPECT_THAT(kept.err, HasSubstr("keep the model's codes"));
  const ProgramRun rounded = compile({"--calibrate=self", "--requantize"});
  EXPECT_EQ(rounded.code, 0) << rounded.err;
  EXPECT_THAT(rounded.err, HasSubstr("matrices of integer codes rounded again"));
  EXPECT_THAT(rounded.err, Not(HasSubstr("no matrix is rounded")));
  const ProgramRun plan = llmc({"plan", model_.path().string(), "--quant=q4", "--requantize"});
  EXPECT_THAT(plan.out, HasSubstr("requantized (8-bit, one block a row; --requantize)"));
  const ProgramRun floats = llmc({"plan", tinyfable().string(), "--quant=q4", "--requantize"});
  EXPECT_THAT(floats.err, HasSubstr("--requantize has no effect"));
}
#endif

}  // namespace
}  // namespace llmc::tests
