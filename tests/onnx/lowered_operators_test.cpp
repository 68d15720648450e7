// Operators that are spelled out in simpler ones on import, with sizes that are only known when the
// graph runs: compared with numbers worked out by hand. ONNX's own node tests (tests/conformance)
// cover their attributes more widely.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "compiler/ir/verify.h"
#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using onnx::TensorProto;
using reference::Tensor;
using testing::OnnxBuilder;

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Attributes = std::vector<testing::Attribute>;

struct LoweredCase {
  std::string name;
  std::int64_t opset;
  /// Over "x" f32[a, b] = {{1, 2, 3}, {4, 5, 6}} and "v" i64[n] = {2, 0}; its output is "y".
  std::function<void(OnnxBuilder&)> build;
  Ints dims;
  Floats values;  // integers are compared as floats
};

void PrintTo(const LoweredCase& c, std::ostream* out) {
  *out << c.name << " in operator set " << c.opset;
}

class LoweredOperators : public ::testing::TestWithParam<LoweredCase> {};

TEST_P(LoweredOperators, ComputeWhatOnnxSays) {
  const LoweredCase& c = GetParam();
  OnnxBuilder b(c.opset);
  b.float_input("x", {"a", "b"});
  b.input("v", TensorProto::INT64, {"n"});
  c.build(b);
  b.float_output("y", {});
  const testing::TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  const auto model = importer::import_model(folder.path() / "m.onnx");
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  const auto verified = ir::verify(model->graph());
  ASSERT_TRUE(verified.ok()) << format(verified.error().first());
  const auto outputs = reference::evaluate(
      model->graph(), std::vector<Tensor>{reference::f32_tensor({2, 3}, {1, 2, 3, 4, 5, 6}),
                                          reference::i64_tensor({2}, {2, 0})});
  ASSERT_TRUE(outputs.ok()) << format(outputs.error().first());
  const Tensor& y = outputs->at(0);
  EXPECT_EQ(y.dims, c.dims);
  const Floats got = y.is_float() ? y.floats : Floats(y.integers.begin(), y.integers.end());
  ASSERT_EQ(got.size(), c.values.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], c.values[i], 1e-5f * (1 + std::abs(c.values[i]))) << "element " << i;
}

std::function<void(OnnxBuilder&)> one(std::string op, std::vector<std::string> inputs,
                                      Attributes attributes = {}) {
  return [=](OnnxBuilder& b) { b.node(op, inputs, attributes, "y"); };
}
std::function<void(OnnxBuilder&)> einsum(std::vector<std::string> inputs, std::string equation) {
  return one("Einsum", std::move(inputs), {{"equation", std::move(equation)}});
}

std::vector<LoweredCase> reductions() {
  const std::int64_t no = 0, last = -1;
  const Floats row{0.09003057f, 0.24472848f, 0.66524094f};
  const Floats rows{row[0], row[1], row[2], row[0], row[1], row[2]};
  const double total = std::log(std::exp(1) + std::exp(2) + std::exp(3));
  return {
      {"SoftmaxOfAllDims",
       11,
       one("Softmax", {"x"}, {{"axis", no}}),
       {2, 3},
       {0.00426978f, 0.01160646f, 0.03154963f, 0.08576079f, 0.23312201f, 0.63369131f}},
      {"SoftmaxOfRows", 13, one("Softmax", {"x"}), {2, 3}, rows},
      {"LogSoftmax",
       13,
       one("LogSoftmax", {"x"}),
       {2, 3},
       {-2.407606f, -1.407606f, -0.407606f, -2.407606f, -1.407606f, -0.407606f}},
      {"Hardmax", 13, one("Hardmax", {"x"}, {{"axis", no}}), {2, 3}, {0, 0, 0, 1, 1, 1}},
      {"ReduceL1", 18, one("ReduceL1", {"x"}, {{"keepdims", no}}), {}, {21}},
      {"ReduceL2", 13, one("ReduceL2", {"x"}, {{"axes", Ints{1}}}), {2, 1}, {3.741657f, 8.774964f}},
      {"ReduceLogSum",
       13,
       one("ReduceLogSum", {"x"}, {{"axes", Ints{1}}, {"keepdims", no}}),
       {2},
       {1.791759f, 2.70805f}},
      {"ReduceLogSumExp",
       13,
       one("ReduceLogSumExp", {"x"}, {{"axes", Ints{1}}, {"keepdims", no}}),
       {2},
       {static_cast<float>(total), static_cast<float>(total + 3)}},
      {"ReduceSumSquare",
       13,
       one("ReduceSumSquare", {"x"}, {{"axes", Ints{0}}}),
       {1, 3},
       {17, 29, 45}},
      {"LpNormalization",
       13,
       one("LpNormalization", {"x"}),
       {2, 3},
       {0.26726124f, 0.53452248f, 0.80178373f, 0.45584231f, 0.56980288f, 0.68376346f}},
      {"LpNormalizationOfZeros",
       22,
       [](auto& b) {
         b.node("LpNormalization", {b.floats("w", {2, 2}, Floats{0, -3, 0, 1})},
                {{"axis", std::int64_t{0}}, {"p", std::int64_t{1}}}, "y");
       },
       {2, 2},
       {0, -0.75f, 0, 0.25f}},
      {"ArgMin", 13, one("ArgMin", {"x"}, {{"axis", last}, {"keepdims", no}}), {2}, {0, 0}},
      {"CumSum",
       14,
       [](auto& b) { b.node("CumSum", {"x", b.integer(1)}, {}, "y"); },
       {2, 3},
       {1, 3, 6, 4, 9, 15}},
      {"TopK",
       11,
       [](auto& b) { b.raw_node("TopK", {"x", b.integers({2})}, {"y", "i"}); },
       {2, 2},
       {3, 2, 6, 5}},
      {"TopKIndices",
       1,
       [](auto& b) { b.raw_node("TopK", {"x"}, {"t", "y"}, {{"k", std::int64_t{1}}}); },
       {2, 1},
       {2, 2}},
  };
}

std::vector<LoweredCase> elements() {
  const std::int64_t f16 = TensorProto::FLOAT16, yes = 1;
  const auto with_number = [](std::string op, float number, Attributes attributes = {}) {
    return [=](OnnxBuilder& b) { b.node(op, {"x", b.scalar(number)}, attributes, "y"); };
  };
  return {
      {"FloatModOfDividend",
       13,
       with_number("Mod", -4, {{"fmod", yes}}),
       {2, 3},
       {1, 2, 3, 0, 1, 2}},
      {"FloatModOfDivisor", 13, with_number("Mod", -4), {2, 3}, {-3, -2, -1, 0, -3, -2}},
      {"IntegerModOfDividend",
       13,
       [](auto& b) {
         b.node("Mod", {b.integers({-7, 7}), b.integers({3, -3})}, {{"fmod", std::int64_t{1}}},
                "y");
       },
       {2},
       {-1, 1}},
      {"Clip",
       13,
       [](auto& b) { b.node("Clip", {"x", b.scalar(2), b.scalar(4)}, {}, "y"); },
       {2, 3},
       {2, 2, 3, 4, 4, 4}},
      {"IsInf",
       20,
       [](auto& b) {
         b.node("IsInf", {b.floats("w", {3}, Floats{1, INFINITY, -INFINITY})},
                {{"detect_negative", std::int64_t{0}}}, "y");
       },
       {3},
       {0, 1, 0}},
      {"IntegerToAFloatPower",
       15,
       [](auto& b) { b.node("Pow", {b.integers({4, 9}), b.scalar(0.5f)}, {}, "y"); },
       {2},
       {2, 3}},
      // 2049 is no f16: a cast rounds it, though all is computed in f32.
      {"CastToHalfRounds",
       13,
       [=](auto& b) {
         const auto sum = b.node("Add", {"x", b.scalar(2048)});
         b.node("Cast", {b.node("Cast", {sum}, {{"to", f16}})}, {{"to", std::int64_t{1}}}, "y");
       },
       {2, 3},
       {2048, 2050, 2052, 2052, 2052, 2054}},
      {"Softplus", 13, with_number("Sub", 3), {2, 3}, {-2, -1, 0, 1, 2, 3}},
      {"DropoutMask",
       13,
       [](auto& b) { b.raw_node("Dropout", {"x"}, {"d", "y"}); },
       {2, 3},
       {1, 1, 1, 1, 1, 1}},
  };
}

std::vector<LoweredCase> indices() {
  return {
      {"EyeLike",
       13,
       [](auto& b) { b.node("EyeLike", {"x"}, {{"k", std::int64_t{1}}}, "y"); },
       {2, 3},
       {0, 1, 0, 0, 0, 1}},
      // Blocks of four images become an image of blocks, and the four images again.
      {"BlocksOfUnknownSizes",
       13,
       [](auto& b) {
         std::vector<std::string> images;
         for (const float more : {0.f, 6.f, 12.f, 18.f})
           images.push_back(b.unsqueeze(b.node("Add", {"x", b.scalar(more)}), {0, 1}));
         const std::vector<testing::Attribute> block{{"blocksize", std::int64_t{2}}};
         const auto all = b.node("Concat", images, {{"axis", std::int64_t{1}}});
         b.node("SpaceToDepth", {b.node("DepthToSpace", {all}, block)}, block, "y");
       },
       {1, 4, 2, 3},
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}},
      {"OneHot",
       11,
       [](auto& b) {
         b.node("OneHot", {"v", b.integer(3), b.floats("w", {2}, Floats{-1, 1})}, {}, "y");
       },
       {2, 3},
       {-1, -1, 1, 1, -1, -1}},
      {"PadOfOneAxis",
       18,
       [](auto& b) {
         b.node("Pad", {"x", b.integers({1, 0}), b.scalar(9), b.integers({-1})}, {}, "y");
       },
       {2, 4},
       {9, 1, 2, 3, 9, 4, 5, 6}},
      {"PadByRunTimeSizes",
       18,
       [](auto& b) { b.node("Pad", {"x", "v", "", b.integers({0})}, {}, "y"); },
       {4, 3},
       {0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6}},
      {"GatherND",
       13,
       [](auto& b) {
         b.node("GatherND", {"x", b.node("Unsqueeze", {"v", b.integers({1})})},
                {{"batch_dims", std::int64_t{1}}}, "y");
       },
       {2},
       {3, 4}},
      {"ScatterND",
       18,
       [](auto& b) {
         const auto at = b.node("Unsqueeze", {b.integers({1, 1}), b.integers({1})});
         b.node("ScatterND", {"x", at, "x"}, {{"reduction", std::string("add")}}, "y");
       },
       {2, 3},
       {1, 2, 3, 9, 12, 15}},
      {"TensorScatterGoesRound",
       24,
       [](auto& b) {
         const auto cache = b.floats("w", {2, 3, 1}, Floats{0, 0, 0, 0, 0, 0});
         const auto fresh = b.floats("u", {2, 2, 1}, Floats{1, 2, 3, 4});
         b.node("TensorScatter", {cache, fresh, "v"}, {{"mode", std::string("circular")}}, "y");
       },
       {2, 3, 1},
       {2, 0, 1, 3, 4, 0}},
  };
}

std::vector<LoweredCase> matrix_products() {
  return {
      {"EinsumMatrixProduct", 12, einsum({"x", "x"}, "ij,kj->ik"), {2, 2}, {14, 32, 32, 77}},
      {"EinsumImplicit", 12, einsum({"x"}, "ba"), {3, 2}, {1, 4, 2, 5, 3, 6}},
      {"EinsumSum", 12, einsum({"x"}, "ij->j"), {3}, {5, 7, 9}},
      {"EinsumAll", 12, einsum({"x", "x"}, "ij,ij->"), {}, {91}},
      {"EinsumOuter",
       12,
       einsum({"x", "x"}, "...i,...j->...ij"),
       {2, 3, 3},
       {1, 2, 3, 2, 4, 6, 3, 6, 9, 16, 20, 24, 20, 25, 30, 24, 30, 36}},
      {"EinsumDiagonal",
       12,
       [](auto& b) {
         const auto square = b.node("Einsum", {"x", "x"}, {{"equation", std::string("ij,kj->ik")}});
         b.node("Einsum", {square}, {{"equation", std::string("ii->i")}}, "y");
       },
       {2},
       {14, 77}},
      {"EinsumOfThree",
       12,
       einsum({"x", "x", "x"}, "ij,kj,kl->il"),
       {2, 3},
       {142, 188, 234, 340, 449, 558}},
      {"IntegerGemm",
       13,
       [](auto& b) {
         const auto x = b.node("Cast", {"x"}, {{"to", std::int64_t{TensorProto::INT32}}});
         const auto one_i32 =
             b.node("Cast", {b.integer(1)}, {{"to", std::int64_t{TensorProto::INT32}}});
         b.node("Gemm", {x, x, one_i32}, {{"transB", std::int64_t{1}}}, "y");
       },
       {2, 2},
       {15, 33, 33, 78}},
      {"LayerNormInverse",
       17,
       [](auto& b) {
         b.raw_node("LayerNormalization", {"x", b.scalar(1)}, {"n", "m", "y"}, {{"epsilon", 0.f}});
       },
       {2, 1},
       {1.2247449f, 1.2247449f}},
      {"RmsNormOfAllDims",
       23,
       [](auto& b) {
         b.node("RMSNormalization", {"x", b.scalar(2)}, {{"axis", std::int64_t{0}}}, "y");
       },
       {2, 3},
       {0.513553f, 1.027105f, 1.540658f, 2.054210f, 2.567763f, 3.081316f}},
      {"QuantizeLinear",
       10,
       [](auto& b) { b.node("QuantizeLinear", {"x", b.scalar(0.4f)}, {}, "y"); },
       {2, 3},
       {2, 5, 8, 10, 12, 15}},
      {"QuantizeDynamic",
       11,
       [](auto& b) { b.raw_node("DynamicQuantizeLinear", {"x"}, {"y", "s", "z"}); },
       {2, 3},
       {42, 85, 128, 170, 212, 255}},
      {"QuantizeDynamicZeros",
       11,
       [](auto& b) {
         b.raw_node("DynamicQuantizeLinear", {b.node("Sub", {"x", "x"})}, {"y", "s", "z"});
       },
       {2, 3},
       {0, 0, 0, 0, 0, 0}},
      {"MatMulInteger",
       10,
       [](auto& b) {
         const auto codes = b.node("Cast", {"x"}, {{"to", std::int64_t{TensorProto::UINT8}}});
         const auto turned = b.node("Transpose", {codes});
         const auto zero =
             b.node("Cast", {b.integer(2)}, {{"to", std::int64_t{TensorProto::UINT8}}});
         b.node("MatMulInteger", {codes, turned, zero, zero}, {}, "y");
       },
       {2, 2},
       {2, 2, 2, 29}},
      // x - 2 in windows of two with a 0 before them, times {-1, 1} and {1, 0}.
      {"ConvInteger",
       10,
       [](auto& b) {
         const std::int64_t u8 = TensorProto::UINT8;
         const auto codes = b.node("Cast", {"x"}, {{"to", u8}});
         const auto zero = b.node("Cast", {b.integer(2)}, {{"to", u8}});
         const auto rows = b.node("Unsqueeze", {codes}, {{"axes", Ints{1}}});
         const auto four = b.node("Cast", {b.integers({3, 5, 8, 7})}, {{"to", u8}});
         const auto weight = b.node("Reshape", {four, b.integers({2, 1, 2})});
         const auto zeros = b.node("Cast", {b.integers({4, 7})}, {{"to", u8}});
         b.node("ConvInteger", {rows, weight, zero, zeros}, {{"pads", Ints{1, 0}}}, "y");
       },
       {2, 2, 3},
       {-1, 1, 1, 0, -1, 0, 2, 1, 1, 0, 2, 3}},
      // One head of width 3 over two tokens; the second sees both.
      {"AttentionCausal",
       23,
       [](auto& b) {
         const auto x = b.node("Unsqueeze", {"x", b.integers({0})});
         const std::int64_t one_head = 1;
         b.node("Attention", {x, x, x},
                {{"q_num_heads", one_head},
                 {"kv_num_heads", one_head},
                 {"is_causal", one_head},
                 {"scale", 0.01f}},
                "y");
       },
       {1, 2, 3},
       {1, 2, 3, 2.831936f, 3.831936f, 4.831936f}},
      {"RotaryOfOnePair",
       23,
       [](auto& b) {
         const auto x = b.node("Unsqueeze", {"x", b.integers({0})});
         const auto cosine = b.floats("c", {1, 2, 1}, Floats{1, 0});
         const auto sine = b.floats("s", {1, 2, 1}, Floats{0, 1});
         b.node("RotaryEmbedding", {b.reshape(x, {1, 2, 3}), cosine, sine},
                {{"num_heads", std::int64_t{1}}}, "y");
       },
       {1, 2, 3},
       {1, 2, 3, -5, 4, 6}},
  };
}

TEST(ComputedValues, AreFoundAfterAnyNumberOfNodes) {
  OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{1}});
  const auto limit = b.node("Sqrt", {b.floats("nine", {}, Floats{9})});
  std::string x = "x";
  for (int i = 0; i < 5000; ++i) x = b.node("Neg", {x});
  const auto range =
      b.node("Range", {b.floats("zero", {}, Floats{0}), limit, b.floats("one", {}, Floats{1})});
  b.node("Add", {range, x}, {}, "y");
  b.float_output("y", {});
  const testing::TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  const auto model = importer::import_model(folder.path() / "m.onnx");
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  const ir::Graph& graph = model->graph();
  EXPECT_EQ(ir::to_string(graph.value(graph.outputs()[0]).type), "f32[3]");
}

INSTANTIATE_TEST_SUITE_P(Reductions, LoweredOperators, ::testing::ValuesIn(reductions()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Elements, LoweredOperators, ::testing::ValuesIn(elements()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Indices, LoweredOperators, ::testing::ValuesIn(indices()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Products, LoweredOperators, ::testing::ValuesIn(matrix_products()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace llmc
