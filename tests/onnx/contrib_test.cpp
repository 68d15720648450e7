// Operators of com.microsoft become primitives that compute what onnxruntime documents.

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using onnx::TensorProto;
using testing::Attribute;
using testing::OnnxBuilder;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;

const Floats kX{1, -2, 0.5f, 3};

/// Outputs of one node on x f32[1, 2, 2] = kX and constants that `operands` may name: "w" {2, 3},
/// "b" {0.5, -1}, "s" [1, 2, 2] {1, 1, 2, 2}, "w2" {{2, 3}, {-4, 1}}, "s2" [2, 1, 2] kX, "k" [1, 1,
/// 2] {2, 3}.
Result<std::vector<Floats>> run(const std::string& op, const Strings& operands,
                                const Strings& outputs, const std::vector<Attribute>& attributes) {
  OnnxBuilder b(17);
  auto& set = *b.model.add_opset_import();
  set.set_domain("com.microsoft");
  set.set_version(1);
  b.float_input("x", {std::int64_t{1}, std::int64_t{2}, std::int64_t{2}});
  b.floats("w", {2}, Floats{2, 3});
  b.floats("b", {2}, Floats{0.5f, -1});
  b.floats("s", {1, 2, 2}, Floats{1, 1, 2, 2});
  b.floats("w2", {2, 2}, Floats{2, 3, -4, 1});
  b.floats("s2", {2, 1, 2}, Floats{1, -2, 0.5f, 3});
  b.floats("k", {1, 1, 2}, Floats{2, 3});
  b.raw_node(op, operands, outputs, attributes).set_domain("com.microsoft");
  for (const auto& name : outputs)
    if (!name.empty()) b.float_output(name, {});
  const testing::TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  LLMC_TRY(const auto model, importer::import_model(folder.path() / "m.onnx"));
  const std::vector<reference::Tensor> inputs{reference::f32_tensor({1, 2, 2}, kX)};
  LLMC_TRY(const auto results, reference::evaluate(model.graph(), inputs));
  std::vector<Floats> values;
  for (const auto& result : results) values.push_back(result.floats);
  return values;
}

void expect_near(const Floats& got, const Floats& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5f) << i;
}

template <class F>
Floats each(F f) {
  Floats out;
  for (std::size_t i = 0; i < kX.size(); ++i) out.push_back(f(kX[i], i));
  return out;
}

float gelu(float x) {
  return x * 0.5f * (1 + std::erf(x / std::sqrt(2.0f)));
}

TEST(Contrib, Activations) {
  const auto plain = run("Gelu", {"x"}, {"y"}, {});
  ASSERT_TRUE(plain.ok()) << format(plain.error().first());
  expect_near((*plain)[0], each([](float x, std::size_t) { return gelu(x); }));
  const auto biased = run("BiasGelu", {"x", "b"}, {"y"}, {});
  ASSERT_TRUE(biased.ok());
  expect_near((*biased)[0],
              each([](float x, std::size_t i) { return gelu(x + (i % 2 ? -1.0f : 0.5f)); }));
  const auto fast = run("FastGelu", {"x"}, {"y"}, {});
  ASSERT_TRUE(fast.ok());
  expect_near((*fast)[0], each([](float x, std::size_t) {
                return 0.5f * x * (1 + std::tanh(0.7978846f * (x + 0.044715f * x * x * x)));
              }));
  const auto quick = run("QuickGelu", {"x"}, {"y"}, {{"alpha", 2.0f}});
  ASSERT_TRUE(quick.ok());
  expect_near((*quick)[0], each([](float x, std::size_t) { return x / (1 + std::exp(-2 * x)); }));
}

TEST(Contrib, SkipNormsGiveTheSumToo) {
  // x + s = {2, -1}, {2.5, 5}.
  const auto rms = run("SkipSimplifiedLayerNormalization", {"x", "s", "w"}, {"y", "", "", "sum"},
                       {{"epsilon", 0.0f}});
  ASSERT_TRUE(rms.ok()) << format(rms.error().first());
  const float a = std::sqrt(2.5f), c = std::sqrt(15.625f);
  expect_near((*rms)[0], {4 / a, -3 / a, 5 / c, 15 / c});
  expect_near((*rms)[1], {2, -1, 2.5f, 5});
  const auto layer =
      run("SkipLayerNormalization", {"x", "s", "w", "b"}, {"y"}, {{"epsilon", 0.0f}});
  ASSERT_TRUE(layer.ok());
  expect_near((*layer)[0], {2.5f, -4, -1.5f, 2});
  EXPECT_FALSE(run("SkipLayerNormalization", {"x", "s", "w"}, {"y", "mean"}, {}).ok());
}

TEST(Contrib, FusedMatMulTurnsAndScales) {
  // x x^T / 2 of x = {{1, -2}, {0.5, 3}}.
  const auto y =
      run("FusedMatMul", {"x", "x"}, {"y"}, {{"alpha", 0.5f}, {"transB", std::int64_t{1}}});
  ASSERT_TRUE(y.ok()) << format(y.error().first());
  expect_near((*y)[0], {2.5f, -2.75f, -2.75f, 4.625f});
}

TEST(Contrib, FusedGemmEndsInAnActivation) {
  // relu(w2 wT + b) of w2 = {{2, 3}, {-4, 1}}: w2 {2, 3} = {13, -5}.
  const Attribute turned{"transB", std::int64_t{1}};
  const auto relu =
      run("FusedGemm", {"w2", "w2", "b"}, {"y"}, {{"activation", std::string("Relu")}, turned});
  ASSERT_TRUE(relu.ok()) << format(relu.error().first());
  expect_near((*relu)[0], {13.5f, 0, 0, 16});
  const auto leaky = run("FusedGemm", {"w2", "w2", "b"}, {"y"},
                         {{"activation", std::string("LeakyRelu")},
                          {"activation_alpha", 0.5f},
                          turned,
                          {"alpha", 2.0f}});
  ASSERT_TRUE(leaky.ok()) << format(leaky.error().first());
  expect_near((*leaky)[0], {26.5f, -5.5f, -4.75f, 33});
  const auto hard = run("FusedGemm", {"w2", "w2"}, {"y"},
                        {{"activation", std::string("HardSigmoid")},
                         {"activation_alpha", 0.125f},
                         {"activation_beta", 0.75f},
                         turned});
  ASSERT_TRUE(hard.ok()) << format(hard.error().first());
  expect_near((*hard)[0], {1, 0.125f, 0.125f, 1});
  const auto default_slope =
      run("FusedGemm", {"w2", "w2"}, {"y"},
          {{"activation", std::string("HardSigmoid")}, {"activation_beta", 1.5f}, turned});
  ASSERT_TRUE(default_slope.ok()) << format(default_slope.error().first());
  expect_near((*default_slope)[0], {1, 0.5f, 0.5f, 1});
  EXPECT_FALSE(
      run("FusedGemm", {"w2", "w2"}, {"y"}, {{"activation", std::string("Affine")}, turned}).ok());
}

TEST(Contrib, FusedConvEndsInAnActivation) {
  // Each row of x = {{1, -2}, {0.5, 3}} is a signal; its window is {2, 3}.
  const Floats sums{2 - 6, 1 + 9};
  const auto plain = run("FusedConv", {"s2", "k"}, {"y"}, {{"activation", std::string("Relu")}});
  ASSERT_TRUE(plain.ok()) << format(plain.error().first());
  expect_near((*plain)[0], {0, sums[1]});
  const auto leaky =
      run("FusedConv", {"s2", "k"}, {"y"}, {{"activation", std::string("LeakyRelu")}});
  ASSERT_TRUE(leaky.ok()) << format(leaky.error().first());
  expect_near((*leaky)[0], {-0.04f, sums[1]});
  EXPECT_FALSE(
      run("FusedConv", {"s2", "k", "", "s2"}, {"y"}, {{"activation", std::string("Relu")}}).ok());
}

TEST(Contrib, WhatIsNotSupportedIsRefused) {
  for (const char* op : {"SparseAttention", "LongformerAttention", "BiasSplitGelu"}) {
    const auto y = run(op, {"x"}, {"y"}, {});
    ASSERT_FALSE(y.ok());
    EXPECT_EQ(y.error().first().kind, ErrorKind::kUnsupported);
    EXPECT_EQ(y.error().first().op, std::string("com.microsoft.") + op);
  }
}

}  // namespace
}  // namespace llmc
