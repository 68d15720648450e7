// Which dynamic quantizations pass their input on in floats, and which have to be computed.

#include <gtest/gtest.h>

#include <functional>

#include "compiler/onnx/node_context.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using testing::OnnxBuilder;

/// y and t = x quantized, times two constant matrices: cast(codes w) (s 0.5), cast(codes w) s.
OnnxBuilder products() {
  OnnxBuilder b(15);
  b.float_input("x", {std::int64_t{1}, std::int64_t{2}});
  for (const char* name : {"w", "wz"}) {
    auto& tensor = *b.graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT8);
    if (name[1] == 0) {
      tensor.add_dims(2);
      tensor.add_dims(2);
    }
    for (int i = 0; i < (name[1] == 0 ? 4 : 1); ++i) tensor.add_int32_data(i);
  }
  b.raw_node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
  b.raw_node("Mul", {"s", b.scalar(0.5f)}, {"sw"});
  b.raw_node("MatMulInteger", {"q", "w", "z", "wz"}, {"i"});
  b.raw_node("Cast", {"i"}, {"f"}, {{"to", std::int64_t{1}}});
  b.raw_node("Mul", {"f", "sw"}, {"y"});
  b.raw_node("MatMulInteger", {"q", "w", "z"}, {"j"});
  b.raw_node("Cast", {"j"}, {"g"}, {{"to", std::int64_t{1}}});
  b.raw_node("Mul", {"s", "g"}, {"t"});
  b.float_output("y", {});
  b.float_output("t", {});
  return b;
}

enum Node { kQuantize, kScale, kProduct, kCast, kMul, kProduct2, kCast2, kMul2 };

TEST(FloatProducts, AreThoseThatAreScaledBackOnce) {
  const OnnxBuilder b = products();
  EXPECT_EQ(importer::float_products(b.model.graph()), (std::set<std::string>{"q"}));
}

TEST(FloatProducts, MayScaleTheirResultThemselves) {
  const std::pair<const char*, std::vector<std::string>> forms[] = {
      {"QAttention", {"q", "w", "b", "s", "ws", "", "z", "wz"}},
      {"MatMulIntegerToFloat", {"q", "w", "s", "ws", "z", "wz"}}};
  for (const auto& [op, operands] : forms) {
    OnnxBuilder b = products();
    b.raw_node(op, operands, {"u"});
    b.float_output("u", {});
    EXPECT_EQ(importer::float_products(b.model.graph()), (std::set<std::string>{"q"})) << op;
    for (const std::string operand : {"s", "z"}) {
      OnnxBuilder other = b;
      for (auto& name : *other.graph().mutable_node(other.graph().node_size() - 1)->mutable_input())
        if (name == operand) name = "x";
      EXPECT_TRUE(importer::float_products(other.model.graph()).empty()) << op << ", " << operand;
    }
  }
  OnnxBuilder b = products();
  b.raw_node("DynamicQuantizeMatMul", {"x", "w", "ws", "wz"}, {"u"});
  EXPECT_EQ(importer::float_products(b.model.graph()), (std::set<std::string>{"q", "u"}));
  b.graph().mutable_node(b.graph().node_size() - 1)->set_input(1, "x");
  EXPECT_EQ(importer::float_products(b.model.graph()), (std::set<std::string>{"q"}));
}

TEST(FloatProducts, OfPlainGraphsAreThereIfAskedFor) {
  const testing::TemporaryFolder folder;
  OnnxBuilder b = products();
  b.save(folder.path() / "m.onnx");
  const importer::ModelReader reader;
  for (const bool floats : {false, true, false}) {
    importer::ImportOptions options;
    options.float_products = floats;
    const auto model = reader.bind(folder.path() / "m.onnx", options);
    ASSERT_TRUE(model.ok()) << errors(model.error());
    int quantized = 0, ranges = 0;
    for (const auto& node : model->graph().nodes()) {
      ranges += std::holds_alternative<ir::Reduce>(node.op) ? 1 : 0;
      if (const auto* c = ir::op_as<ir::ConstantOp>(&node))
        quantized += c->data->quantization() ? 1 : 0;
    }
    EXPECT_EQ(ranges, floats ? 0 : 2);
    EXPECT_EQ(quantized, floats ? 2 : 0);
  }
}

TEST(FloatProducts, MayHave16Bits) {
  OnnxBuilder b = products();
  for (const int node : {kCast, kCast2})
    for (const int to : {onnx::TensorProto::FLOAT16, onnx::TensorProto::BFLOAT16}) {
      b.graph().mutable_node(node)->mutable_attribute(0)->set_i(to);
      EXPECT_EQ(importer::float_products(b.model.graph()), (std::set<std::string>{"q"}));
    }
}

TEST(FloatProducts, WeightsOfConvolutionsAreSome) {
  OnnxBuilder b = products();
  for (const int node : {kProduct, kProduct2})
    b.graph().mutable_node(node)->set_op_type("ConvInteger");
  EXPECT_TRUE(importer::float_products(b.model.graph()).empty()) << "a matrix is no such weight";
  for (auto& tensor : *b.graph().mutable_initializer())
    if (tensor.name() == "w") tensor.add_dims(1);
  EXPECT_EQ(importer::float_products(b.model.graph()), (std::set<std::string>{"q"}));
}

TEST(FloatProducts, AnythingElseIsComputedAsItIsWritten) {
  const std::pair<const char*, std::function<void(OnnxBuilder&)>> changes[] = {
      {"no zero point", [](auto& b) { b.graph().mutable_node(kProduct)->set_input(2, ""); }},
      {"no operand for it",
       [](auto& b) { b.graph().mutable_node(kProduct2)->mutable_input()->RemoveLast(); }},
      {"another zero point",
       [](auto& b) { b.graph().mutable_node(kProduct2)->set_input(2, "wz"); }},
      {"scale squared", [](auto& b) { b.graph().mutable_node(kScale)->set_input(1, "s"); }},
      {"scale left out", [](auto& b) { b.graph().mutable_node(kMul)->set_input(1, "x"); }},
      {"scaled by its own product",
       [](auto& b) { b.graph().mutable_node(kMul)->set_input(1, "f"); }},
      {"scale is a result", [](auto& b) { b.float_output("s", {}); }},
      {"codes are a result", [](auto& b) { b.float_output("q", {}); }},
      {"sums are a result", [](auto& b) { b.float_output("f", {}); }},
      {"scale read elsewhere", [](auto& b) { b.raw_node("Neg", {"s"}, {"u"}); }},
      {"scale times a constant read elsewhere", [](auto& b) { b.raw_node("Neg", {"sw"}, {"u"}); }},
      {"codes read elsewhere", [](auto& b) { b.raw_node("Cast", {"q"}, {"u"}); }},
      {"sums read twice", [](auto& b) { b.raw_node("Mul", {"f", "s"}, {"u"}); }},
      {"not a product of both", [](auto& b) { b.graph().mutable_node(kMul2)->set_op_type("Add"); }},
      {"cast to something else",
       [](auto& b) { b.graph().mutable_node(kCast)->mutable_attribute(0)->set_i(7); }},
      {"matrix that is computed",
       [](auto& b) { b.graph().mutable_node(kProduct)->set_input(1, "sw"); }},
  };
  for (const auto& [name, change] : changes) {
    OnnxBuilder b = products();
    change(b);
    EXPECT_TRUE(importer::float_products(b.model.graph()).empty()) << name;
  }
}

}  // namespace
}  // namespace llmc
