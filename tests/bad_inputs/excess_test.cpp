// Small files that ask for much: importing has to stay fast and small whatever they say.

#include <chrono>
#include <climits>

#include "tests/bad_inputs/bad_inputs.h"
#include "tests/support/small_stack.h"

namespace llmc::testing {
namespace {

using onnx::TensorProto;

struct Excess {
  std::string name;
  std::function<void(OnnxBuilder&)> build;  // leaves "y"; may use the input "x" f32[n]
};

void PrintTo(const Excess& excess, std::ostream* out) {
  *out << excess.name;
}

class ExcessiveGraph : public ::testing::TestWithParam<Excess> {};

TEST_P(ExcessiveGraph, IsTakenOrRefusedQuickly) {
  OnnxBuilder b(15);
  b.float_input("x", {"n"});
  GetParam().build(b);
  b.float_output("y", {});
  const TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  const auto begin = std::chrono::steady_clock::now();
  tests::with_small_stack([&] {
    const auto model = importer::import_model(folder.path() / "m.onnx");
    if (!model.ok()) EXPECT_FALSE(model.error().first().message.empty());
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  // Generous: sanitizers and a busy machine. Work that grows with the sizes named would take hours.
  EXPECT_LT(seconds.count(), 60);
}

std::vector<Excess> inputs() {
  constexpr std::int64_t kBillion = 1'000'000'000;
  return {
      {"Range",
       [](auto& b) {
         const auto range =
             b.node("Range", {b.integer(0), b.integer(kBillion * kBillion), b.integer(1)});
         b.node("Reshape", {"x", range}, {}, "y");
       }},
      {"RangeOfZeroSteps",
       [](auto& b) {
         const auto range = b.node("Range", {b.integer(0), b.integer(5), b.integer(0)});
         b.node("Reshape", {"x", range}, {}, "y");
       }},
      {"ConstantOfShape",
       [](auto& b) {
         auto& node = b.raw_node("ConstantOfShape", {b.integers({kBillion})}, {"big"});
         auto& value = *node.add_attribute();
         value.set_name("value");
         value.set_type(onnx::AttributeProto::TENSOR);
         value.mutable_t()->set_data_type(TensorProto::INT64);
         value.mutable_t()->add_dims(1);
         value.mutable_t()->add_int64_data(1);
         b.node("Reshape", {"x", "big"}, {}, "y");
       }},
      {"NegativeShape", [](auto& b) { b.node("ConstantOfShape", {b.integers({-5})}, {}, "y"); }},
      {"Expand",
       [](auto& b) {
         const auto big = b.node("Expand", {b.integers({1}), b.integers({kBillion})});
         b.node("Reshape", {"x", big}, {}, "y");
       }},
      {"Tile",
       [](auto& b) {
         const auto big = b.node("Tile", {b.integers({1, 2}), b.integers({INT64_MAX})});
         b.node("Reshape", {"x", big}, {}, "y");
       }},
      {"DoublingConcat",
       [](auto& b) {
         std::string value = b.integers({1, 1});
         for (int i = 0; i < 60; ++i)
           value = b.node("Concat", {value, value}, {{"axis", std::int64_t{0}}});
         b.node("Reshape", {"x", value}, {}, "y");
       }},
      {"DoublingFloats",
       [](auto& b) {
         std::string value = "x";
         for (int i = 0; i < 100; ++i)
           value = b.node("Concat", {value, value}, {{"axis", std::int64_t{0}}});
         b.node("Neg", {value}, {}, "y");
       }},
      {"GrowingSymbols",
       [](auto& b) {
         std::string size = b.node("Shape", {"x"});
         for (int i = 0; i < 80; ++i) size = b.node("Mul", {size, size});
         b.node("Expand", {b.scalar(1), size}, {}, "y");
       }},
      {"LongChain",
       [](auto& b) {
         std::string value = "x";
         for (int i = 0; i < 15000; ++i) value = b.node("Neg", {value});
         b.node("Neg", {value}, {}, "y");
       }},
      {"ManyOperands",
       [](auto& b) {
         b.node("Concat", std::vector<std::string>(50000, "x"), {{"axis", std::int64_t{0}}}, "y");
       }},
      {"ManyOutputs",
       [](auto& b) {
         std::vector<std::string> outputs{"y"};
         for (int i = 0; i < 50000; ++i) outputs.push_back("o" + std::to_string(i));
         b.raw_node("Split", {b.integers({1, 2})}, outputs);
       }},
      {"SliceExtremes",
       [](auto& b) {
         b.node("Slice",
                {"x", b.integers({INT64_MIN}), b.integers({INT64_MAX}), b.integers({0}),
                 b.integers({INT64_MIN})},
                {}, "y");
       }},
      {"SliceZeroStep",
       [](auto& b) {
         b.node("Slice", {"x", b.integers({0}), b.integers({1}), b.integers({0}), b.integers({0})},
                {}, "y");
       }},
      {"GatherFarAway",
       [](auto& b) {
         const auto shape = b.node("Shape", {"x"});
         b.node("Expand", {b.scalar(1), b.node("Gather", {shape, b.integers({INT64_MAX})})}, {},
                "y");
       }},
      {"DivideByZero",
       [](auto& b) {
         const auto size = b.node("Div", {b.integers({INT64_MIN}), b.integers({0})});
         b.node("Expand", {b.scalar(1), size}, {}, "y");
       }},
      {"DivideMinimum",
       [](auto& b) {
         const auto size = b.node("Div", {b.integers({INT64_MIN}), b.integers({-1})});
         b.node("Expand", {b.scalar(1), size}, {}, "y");
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(All, ExcessiveGraph, ::testing::ValuesIn(inputs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace llmc::testing
