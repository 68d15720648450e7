// Convolutions, pooling, Resize and the normalizations of channels: what is refused, and sizes that
// are only known when the graph runs. ONNX's node tests (tests/conformance) compare their results.

#include <gtest/gtest.h>

#include <functional>

#include "compiler/ir/verify.h"
#include "compiler/reference/interpreter.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using reference::Tensor;
using testing::Attribute;
using testing::OnnxBuilder;

using Ints = std::vector<std::int64_t>;

std::string constant(OnnxBuilder& b, const Ints& dims, const std::vector<float>& values) {
  return b.floats("w" + std::to_string(b.graph().initializer_size()), dims, values);
}
std::string weight(OnnxBuilder& b, const Ints& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return constant(b, dims, std::vector<float>(static_cast<std::size_t>(count), 1.f));
}

struct RefusedWindow {
  std::string name;
  std::int64_t opset;
  /// Over "x" f32[1, 4, 9] and "s" f32[1, 4, n]; its output is "y".
  std::function<void(OnnxBuilder&)> build;
  ErrorKind kind;
  std::string message;
};

void PrintTo(const RefusedWindow& c, std::ostream* out) {
  *out << c.name;
}

class RefusedWindows : public ::testing::TestWithParam<RefusedWindow> {};

TEST_P(RefusedWindows, SayWhy) {
  const RefusedWindow& c = GetParam();
  OnnxBuilder b(c.opset);
  b.float_input("x", {std::int64_t{1}, std::int64_t{4}, std::int64_t{9}});
  b.float_input("s", {std::int64_t{1}, std::int64_t{4}, "n"});
  c.build(b);
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_FALSE(model.ok());
  const Diagnostic& d = model.error().first();
  EXPECT_EQ(d.kind, c.kind) << format(d);
  EXPECT_NE(d.message.find(c.message), std::string::npos) << format(d);
}

std::vector<RefusedWindow> refused_windows() {
  const auto one = [](std::string op, std::string x, std::vector<Attribute> attributes) {
    return [=](OnnxBuilder& b) { b.node(op, {x}, attributes, "y"); };
  };
  const auto weighted = [](std::string op, Ints dims, std::vector<Attribute> attributes,
                           std::string x = "x") {
    return [=](OnnxBuilder& b) { b.node(op, {x, weight(b, dims)}, attributes, "y"); };
  };
  const auto normed = [](std::string op, std::int64_t parameters, std::int64_t length,
                         std::vector<Attribute> attributes) {
    return [=](OnnxBuilder& b) {
      std::vector<std::string> operands{"x"};
      for (std::int64_t i = 0; i < parameters; ++i) operands.push_back(weight(b, {length}));
      b.node(op, operands, attributes, "y");
    };
  };
  const auto unsupported = ErrorKind::kUnsupported, bad = ErrorKind::kBadInput;
  const std::int64_t one_of = 1, three = 3;
  return {
      {"ConvRank", 18, weighted("Conv", {2, 4, 3, 3}, {}), bad, "two dims more"},
      {"ConvChannels", 18, weighted("Conv", {2, 3, 3}, {}), bad, "channels"},
      {"ConvGroups", 18, weighted("Conv", {3, 2, 3}, {{"group", std::int64_t{2}}}), bad, "groups"},
      {"ConvTooLarge", 18, weighted("Conv", {2, 4, 10}, {}), bad, "larger"},
      {"ConvKernelShape", 18, weighted("Conv", {2, 4, 3}, {{"kernel_shape", Ints{5}}}), bad,
       "'kernel_shape'"},
      {"ConvStrides", 18, weighted("Conv", {2, 4, 3}, {{"strides", Ints{0}}}), bad, "'strides'"},
      {"ConvDilations", 18, weighted("Conv", {2, 4, 3}, {{"dilations", Ints{1, 1}}}), bad,
       "'dilations'"},
      {"ConvPads", 18, weighted("Conv", {2, 4, 3}, {{"pads", Ints{-1, 0}}}), bad, "'pads'"},
      {"ConvAutoPad", 18, weighted("Conv", {2, 4, 3}, {{"auto_pad", std::string("SAME")}}), bad,
       "'auto_pad'"},
      {"ConvSameOfUnknownSize", 18,
       weighted("Conv", {2, 4, 3}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}},
                "s"),
       unsupported, "'auto_pad' with strides needs the sizes"},
      {"ConvBias", 18,
       [](OnnxBuilder& b) { b.node("Conv", {"x", weight(b, {2, 4, 2}), weight(b, {3})}, {}, "y"); },
       bad, "the bias"},
      {"ConvTransposeOfUnknownSize", 18, weighted("ConvTranspose", {4, 2, 3}, {}, "s"), unsupported,
       "needs the sizes"},
      {"ConvTransposeGroups", 18, weighted("ConvTranspose", {4, 2, 3}, {{"group", three}}), bad,
       "groups"},
      {"ConvTransposeOutputShape", 18,
       weighted("ConvTranspose", {4, 2, 3}, {{"output_shape", Ints{1, 2}}}), bad, "'output_shape'"},
      {"MaxPoolWithoutKernel", 18, one("MaxPool", "x", {}), bad, "'kernel_shape' is missing"},
      {"MaxPoolTooLarge", 18, one("MaxPool", "x", {{"kernel_shape", Ints{10}}}), bad, "larger"},
      {"MaxPoolIndices", 18,
       [](OnnxBuilder& b) {
         b.raw_node("MaxPool", {"x"}, {"y", "i"}, {{"kernel_shape", Ints{2}}});
         b.float_output("i", {});
       },
       unsupported, "indices"},
      {"AveragePoolOfUnknownSize", 18,
       one("AveragePool", "s", {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}}), unsupported,
       "need the sizes"},
      {"PoolStridesOfUnknownSize", 18,
       one("MaxPool", "s", {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}}), unsupported,
       "strides need the sizes"},
      {"ResizeOfUnknownSize", 18,
       [](OnnxBuilder& b) { b.node("Resize", {"s", "", constant(b, {3}, {1, 1, 2})}, {}, "y"); },
       unsupported, "needs the sizes"},
      {"ResizeWithoutSizes", 18, one("Resize", "x", {}), bad, "either scales or sizes"},
      {"ResizeToNothing", 18,
       [](OnnxBuilder& b) { b.node("Resize", {"x", "", "", b.integers({1, 4, 0})}, {}, "y"); }, bad,
       "cannot be resized"},
      {"ResizeAxesTwice", 18,
       [](OnnxBuilder& b) {
         b.node("Resize", {"x", "", constant(b, {2}, {1, 2})}, {{"axes", Ints{1, -2}}}, "y");
       },
       bad, "dim 1 twice"},
      {"ResizeManyTaps", 18,
       [=](OnnxBuilder& b) {
         b.float_input("long", {std::int64_t{1}, std::int64_t{1}, std::int64_t{1000}});
         b.node("Resize", {"long", "", "", b.integers({1, 1, 10})},
                {{"antialias", one_of}, {"mode", std::string("linear")}}, "y");
       },
       unsupported, "less than 1/64"},
      {"ResizeWithoutRegion", 18,
       [=](OnnxBuilder& b) {
         b.node("Resize", {"x", "", constant(b, {3}, {1, 1, 2})},
                {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}, "y");
       },
       bad, "needs a region"},
      {"ResizeRegionOfUnknownSize", 18,
       [=](OnnxBuilder& b) {
         b.node("Resize",
                {"s", constant(b, {6}, {0, 0, 0, 1, 1, 0.5f}), constant(b, {3}, {1, 1, 1})},
                {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}, "y");
       },
       unsupported, "needs the sizes"},
      {"ResizeShortRegion", 18,
       [=](OnnxBuilder& b) {
         b.node("Resize", {"x", constant(b, {2}, {0, 1}), constant(b, {3}, {1, 1, 2})},
                {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}, "y");
       },
       bad, "2 numbers in operand 1 where 6 are expected"},
      {"BatchNormInTraining", 18, normed("BatchNormalization", 4, 4, {{"training_mode", one_of}}),
       unsupported, "training"},
      {"BatchNormChannels", 18, normed("BatchNormalization", 4, 3, {}), bad, "each channel"},
      {"InstanceNormChannels", 18, normed("InstanceNormalization", 2, 3, {}), bad, "each channel"},
      {"GroupNormGroups", 21, normed("GroupNormalization", 2, 4, {{"num_groups", three}}), bad,
       "do not divide"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, RefusedWindows, ::testing::ValuesIn(refused_windows()),
                         [](const auto& info) { return info.param.name; });

// Without strides, convolutions, pools and norms take any length.
TEST(WindowOperators, TakeAnyLength) {
  OnnxBuilder b(18);
  b.float_input("x", {"n", std::int64_t{2}, "length"});
  const std::string kernel = constant(b, {1, 2, 3}, {1, 2, 3, 0, 1, 0}),
                    one = constant(b, {1}, {1});
  const std::string bias = constant(b, {1}, {10});
  const auto conv = b.node("Conv", {"x", kernel, bias}, {{"pads", Ints{1, 1}}});
  const auto pool = b.node("MaxPool", {conv}, {{"kernel_shape", Ints{2}}});
  b.node("BatchNormalization", {pool, one, bias, one, one}, {{"epsilon", 0.f}}, "y");
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const auto verified = ir::verify(model->graph());
  ASSERT_TRUE(verified.ok()) << errors(verified.error());
  const auto outputs = reference::evaluate(
      model->graph(),
      std::vector<Tensor>{reference::f32_tensor({1, 2, 4}, {1, 2, 3, 4, 0, 1, 0, -1})});
  ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
  // The convolution is 18, 25, 30, 20.
  EXPECT_EQ(outputs->at(0).dims, (Ints{1, 1, 3}));
  EXPECT_EQ(outputs->at(0).floats, (std::vector<float>{34, 39, 39}));
}

/// The batch of feature maps may be open.
TEST(WindowOperators, ResizeToSizesWithTheOwnBatch) {
  OnnxBuilder b(18);
  b.float_input("x", {"batch", std::int64_t{1}, std::int64_t{1}, std::int64_t{2}});
  const auto batch = b.node("Shape", {"x"}, {{"end", std::int64_t{2}}});
  const auto sizes = b.node("Concat", {batch, b.integers({1, 4})}, {{"axis", std::int64_t{0}}});
  b.node("Resize", {"x", "", "", sizes}, {{"mode", std::string("nearest")}}, "y");
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const auto outputs = reference::evaluate(
      model->graph(), std::vector<Tensor>{reference::f32_tensor({2, 1, 1, 2}, {1, 2, 3, 4})});
  ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
  EXPECT_EQ(outputs->at(0).dims, (Ints{2, 1, 1, 4}));
  EXPECT_EQ(outputs->at(0).floats, (std::vector<float>{1, 1, 2, 2, 3, 3, 4, 4}));
}

/// The mean of an image whose size is at most that of the window (EfficientNet).
TEST(WindowOperators, AWindowMayBeLargerThanTheDim) {
  OnnxBuilder b(18);
  b.float_input("x", {std::int64_t{1}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}});
  b.node("AveragePool", {"x"},
         {{"kernel_shape", Ints{5, 4}}, {"strides", Ints{5, 4}}, {"ceil_mode", std::int64_t{1}}},
         "y");
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const auto outputs = reference::evaluate(
      model->graph(), std::vector<Tensor>{reference::f32_tensor({1, 1, 2, 3}, {1, 2, 3, 4, 5, 9})});
  ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
  EXPECT_EQ(outputs->at(0).dims, (Ints{1, 1, 1, 1}));
  EXPECT_EQ(outputs->at(0).floats, (std::vector<float>{4}));
}

/// The position table of an image encoder: its side is the root of its rows, computed in floats.
TEST(WindowOperators, SizesMayBeComputedInFloats) {
  OnnxBuilder b(18);
  b.float_input("x", {std::int64_t{1}, std::int64_t{4}, std::int64_t{1}});
  const Attribute to_float{"to", std::int64_t{onnx::TensorProto::FLOAT}};
  const Attribute to_integer{"to", std::int64_t{onnx::TensorProto::INT64}};
  const auto rows = b.node("Gather", {b.node("Shape", {"x"}), b.integers({1})});
  const auto root = b.node("Pow", {b.node("Cast", {rows}, {to_float}), b.scalar(0.5F)});
  const auto side = b.node("Cast", {root}, {to_integer});
  const auto shape =
      b.node("Concat", {b.integers({1, 1}), side, side}, {{"axis", std::int64_t{0}}});
  const auto square = b.node("Reshape", {"x", shape});
  // The centers of 3 columns: 0.5, 1.5, 2.5.
  const auto centers = b.node("Range", {b.scalar(0.5F), b.scalar(3), b.scalar(1)});
  const auto columns = b.node("Shape", {centers});
  const auto sizes =
      b.node("Concat", {b.integers({1, 1, 2}), columns}, {{"axis", std::int64_t{0}}});
  b.node("Resize", {square, "", "", sizes}, {{"mode", std::string("nearest")}}, "y");
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const auto outputs = reference::evaluate(
      model->graph(), std::vector<Tensor>{reference::f32_tensor({1, 4, 1}, {1, 2, 3, 4})});
  ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
  EXPECT_EQ(outputs->at(0).dims, (Ints{1, 1, 2, 3}));
  EXPECT_EQ(outputs->at(0).floats, (std::vector<float>{1, 1, 2, 3, 3, 4}));
}

/// A ConvInteger of codes u8 "x" with codes 255 of a weight, except a first one of 254.
OnnxBuilder integer_convolution(const Ints& x, const Ints& weight, std::int64_t groups,
                                std::int64_t stride) {
  OnnxBuilder b(18);
  b.input("x", onnx::TensorProto::UINT8, {x.begin(), x.end()});
  std::int64_t count = 1;
  for (const std::int64_t dim : weight) count *= dim;
  std::string codes(static_cast<std::size_t>(count), '\xFF');
  codes[0] = '\xFE';
  b.raw("w", onnx::TensorProto::UINT8, weight, codes);
  b.node("ConvInteger", {"x", "w"}, {{"group", groups}, {"strides", Ints{stride}}}, "y");
  b.float_output("y", {});
  return b;
}

TEST(WindowOperators, IntegerConvolutionsAreExact) {
  struct Form {
    Ints x, weight;
    std::int64_t groups, stride, sums;
  };
  // Odd sums over 2^24 are no f32.
  for (const Form& form :
       {Form{{1, 300, 2}, {1, 300, 1}, 1, 1, 2}, Form{{1, 150, 4}, {1, 150, 2}, 1, 1, 3},
        Form{{1, 600, 1}, {2, 300, 1}, 2, 1, 2}, Form{{1, 1, 600}, {1, 1, 300}, 1, 300, 2},
        Form{{1, 1, 600}, {1, 1, 300}, 1, 1, 0}}) {
    const auto model = import(integer_convolution(form.x, form.weight, form.groups, form.stride));
    if (form.sums == 0) {
      ASSERT_FALSE(model.ok());
      EXPECT_NE(model.error().first().message.find("300 elements"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(model.ok()) << errors(model.error());
    Tensor x = reference::zeros(ir::ElementType::kU8, form.x);
    std::ranges::fill(x.integers, 255);
    const auto outputs = reference::evaluate(model->graph(), std::vector<Tensor>{x});
    ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
    Ints expected(static_cast<std::size_t>(form.sums), 255 * 255 * 300 - 255);
    if (form.groups == 2) expected[1] += 255;
    EXPECT_EQ(outputs->at(0).integers, expected);
  }
}

}  // namespace
}  // namespace llmc
