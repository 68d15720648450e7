// Files that break ONNX's own rules, however well their graphs would compute.

#include <limits>

#include "tests/bad_inputs/bad_inputs.h"

namespace llmc::testing {
namespace {

using onnx::TensorProto;

struct BrokenRule {
  std::string name;
  std::function<void(OnnxBuilder&)> build;  // there is an input "x" f32[2, 3]
  std::string node;                         // what the diagnostic has to name; "": the file alone
  std::string message;                      // part of the message
  ErrorKind kind = ErrorKind::kBadInput;
};

void PrintTo(const BrokenRule& rule, std::ostream* out) {
  *out << rule.name;
}

constexpr std::int64_t kRows = 2, kColumns = 3;

/// The model of `build`, imported from a file of its own.
Result<importer::ImportedModel> import_built(const std::function<void(OnnxBuilder&)>& build) {
  OnnxBuilder b(17);
  b.float_input("x", {kRows, kColumns});
  build(b);
  const TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  return importer::import_model(folder.path() / "m.onnx");
}

class BrokenRules : public ::testing::TestWithParam<BrokenRule> {};

TEST_P(BrokenRules, AreRefused) {
  const BrokenRule& rule = GetParam();
  const auto model = import_built(rule.build);
  ASSERT_FALSE(model.ok());
  const Diagnostic& d = model.error().first();
  EXPECT_EQ(d.kind, rule.kind) << format(d);
  EXPECT_EQ(std::filesystem::path(d.file).filename(), "m.onnx") << format(d);
  EXPECT_EQ(d.node, rule.node) << format(d);
  EXPECT_NE(d.message.find(rule.message), std::string::npos) << format(d);
  EXPECT_FALSE(d.hint.empty()) << format(d);
}

/// y = op(x, operands…) named "n", and y as an output without a declared shape.
onnx::NodeProto& add_node(OnnxBuilder& b, const std::string& op,
                          const std::vector<std::string>& operands,
                          const std::vector<Attribute>& attributes = {}) {
  auto& node = b.raw_node(op, operands, {"y"}, attributes);
  node.set_name("n");
  b.float_output("y", {});
  return node;
}

void add_relu(OnnxBuilder& b) {
  add_node(b, "Relu", {"x"});
}

std::string tensor_of(OnnxBuilder& b, const std::string& name, int element,
                      const std::vector<std::int64_t>& dims, std::int64_t value = 0) {
  auto& tensor = *b.graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(element);
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= dim;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (element == TensorProto::FLOAT)
      tensor.add_float_data(static_cast<float>(value));
    else if (element == TensorProto::INT64)
      tensor.add_int64_data(value);
    else
      tensor.add_int32_data(static_cast<std::int32_t>(value));
  }
  return name;
}

std::string indices(OnnxBuilder& b, const std::vector<std::int64_t>& dims,
                    const std::vector<std::int64_t>& values) {
  auto& tensor = *b.graph().add_initializer();
  tensor.set_name("indices");
  tensor.set_data_type(TensorProto::INT64);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return "indices";
}

BrokenRule opset(const std::string& name, std::int64_t version, const std::string& message,
                 ErrorKind kind) {
  return {name,
          [version](OnnxBuilder& b) {
            add_relu(b);
            b.model.mutable_opset_import(0)->set_version(version);
          },
          "", message, kind};
}

BrokenRule ir_version(const std::string& name, std::int64_t version, const std::string& message,
                      ErrorKind kind) {
  return {name,
          [version](OnnxBuilder& b) {
            add_relu(b);
            b.model.set_ir_version(version);
          },
          "", message, kind};
}

BrokenRule second_import(const std::string& name, const std::string& domain) {
  return {name,
          [domain](OnnxBuilder& b) {
            add_relu(b);
            auto& set = *b.model.add_opset_import();
            set.set_domain(domain);
            set.set_version(13);
          },
          "", "'ai.onnx' twice"};
}

std::vector<BrokenRule> model_rules() {
  const auto bad = ErrorKind::kBadInput, unsupported = ErrorKind::kUnsupported;
  return {
      opset("OpsetOfFarFuture", std::int64_t{1} << 31, "operator set 2147483648", unsupported),
      opset("NextOpset", 27, "newer than 26", unsupported),
      opset("OpsetZero", 0, "operator set 0", bad),
      ir_version("IrVersionZero", 0, "ir_version is 0", bad),
      ir_version("IrVersionNegative", -1, "ir_version is -1", bad),
      ir_version("IrVersionOfFarFuture", 99, "ir_version 99", unsupported),
      second_import("DefaultDomainTwice", ""),
      second_import("DefaultDomainByBothNames", "ai.onnx"),
      {"AttributeTwice",
       [](OnnxBuilder& b) {
         add_node(b, "Softmax", {"x"}, {{"axis", std::int64_t{0}}, {"axis", std::int64_t{1}}});
       },
       "n", "'axis' twice"},
      {"AttributeOfTwoValues",
       [](OnnxBuilder& b) {
         add_node(b, "Softmax", {"x"}, {{"axis", std::int64_t{0}}}).mutable_attribute(0)->set_f(1);
       },
       "n", "more than one type"},
      {"AttributeOfAnotherType",
       [](OnnxBuilder& b) {
         add_node(b, "Softmax", {"x"}, {{"axis", 1.f}})
             .mutable_attribute(0)
             ->set_type(onnx::AttributeProto::INT);
       },
       "n", "wrong type"},
      {"NodeWithoutOutputs",
       [](OnnxBuilder& b) {
         add_relu(b);
         b.raw_node("Neg", {"x"}, {}).set_name("mute");
       },
       "mute", "no output"},
      {"NodeWithUnnamedOutput",
       [](OnnxBuilder& b) {
         add_relu(b);
         b.raw_node("Neg", {"x"}, {""}).set_name("mute");
       },
       "mute", "no output"},
      {"UnusedNodeReadsNothing",
       [](OnnxBuilder& b) {
         add_relu(b);
         b.raw_node("Neg", {"nobody"}, {"z"}).set_name("unused");
       },
       "unused", "never made"},
      {"UnusedCycle",
       [](OnnxBuilder& b) {
         add_relu(b);
         b.raw_node("Neg", {"p"}, {"q"}).set_name("unused");
         b.raw_node("Neg", {"q"}, {"p"});
       },
       "unused", "cycle"},
      {"FunctionTwice",
       [](OnnxBuilder& b) {
         add_relu(b);
         for (int i = 0; i < 2; ++i) {
           auto& function = *b.model.add_functions();
           function.set_domain("local");
           function.set_name("f");
         }
       },
       "f", "two functions of domain 'local'"},
      {"FunctionWithOneParameterTwice",
       [](OnnxBuilder& b) {
         add_relu(b);
         auto& function = *b.model.add_functions();
         function.set_name("f");
         for (int i = 0; i < 2; ++i) function.add_input("a");
       },
       "f", "two inputs called 'a'"},
  };
}

BrokenRule initializer_of(const std::string& name, int element, std::vector<DeclaredDim> dims) {
  return {name,
          [element, dims](OnnxBuilder& b) {
            b.input("w", element, dims);
            tensor_of(b, "w", TensorProto::FLOAT, {kColumns});
            add_node(b, "Add", {"x", "w"});
          },
          "w", "but its initializer is float [3]"};
}

/// An output or, `inner`, a value on the way, declared wrong.
BrokenRule declared(const std::string& name, bool inner, int element, std::vector<DeclaredDim> dims,
                    const std::string& message) {
  return {name,
          [=](OnnxBuilder& b) {
            b.raw_node("Neg", {"x"}, {inner ? "t" : "y"}).set_name("n");
            if (inner) b.node("Relu", {"t"}, {}, "y");
            b.output(inner ? "t" : "y", element, dims);
            if (!inner) return;
            b.graph().mutable_value_info()->Swap(b.graph().mutable_output());
            b.float_output("y", {});
          },
          "n", message};
}

std::vector<BrokenRule> type_rules() {
  return {
      initializer_of("InitializerOfAnotherType", TensorProto::INT64, {kColumns}),
      initializer_of("InitializerOfAnotherSize", TensorProto::FLOAT, {std::int64_t{4}}),
      initializer_of("InitializerOfAnotherRank", TensorProto::FLOAT, {kColumns, std::int64_t{1}}),
      declared("OutputOfAnotherType", false, TensorProto::INT64, {kRows, kColumns},
               "'y' is declared as i64[2, 3], but it is f32[2, 3]"),
      declared("OutputOfNarrowFloats", false, TensorProto::FLOAT16, {kRows, kColumns},
               "f16[2, 3], but it is f32[2, 3]"),
      declared("OutputOfStrings", false, TensorProto::STRING, {kRows, kColumns}, "string[2, 3]"),
      declared("OutputOfAnotherRank", false, TensorProto::FLOAT, {kRows}, "f32[2], but"),
      declared("ValueOfAnotherType", true, TensorProto::BOOL, {kRows, kColumns}, "bool[2, 3]"),
      declared("ValueOfAnotherRank", true, TensorProto::FLOAT, {kRows, kColumns, kRows},
               "f32[2, 3, 2]"),
      {"FloatsOfTwoTypes",
       [](OnnxBuilder& b) {
         tensor_of(b, "w", TensorProto::FLOAT16, {});
         add_node(b, "Add", {"x", "w"});
       },
       "n", "float against float16"},
      {"TensorWithDataInTwoFields",
       [](OnnxBuilder& b) {
         tensor_of(b, "w", TensorProto::FLOAT, {kColumns});
         b.graph().mutable_initializer(0)->add_int64_data(1);
         add_node(b, "Add", {"x", "w"});
       },
       "m.onnx:w", "a field of another element type"},
  };
}

BrokenRule index(const std::string& op, std::vector<std::int64_t> dims,
                 std::vector<std::int64_t> values, std::vector<std::int64_t> updates = {}) {
  return {op + "OutsideAt" + std::to_string(values.size()),
          [=](OnnxBuilder& b) {
            std::vector<std::string> operands{"x", indices(b, dims, values)};
            if (!updates.empty())
              operands.push_back(tensor_of(b, "u", TensorProto::FLOAT, updates));
            add_node(b, op, operands);
          },
          "n", "is outside a dim of"};
}

BrokenRule range(const std::string& name, float start, float limit, float step,
                 const std::string& message) {
  return {name,
          [=](OnnxBuilder& b) {
            add_node(b, "Range", {b.scalar(start), b.scalar(limit), b.scalar(step)});
          },
          "n", message};
}

BrokenRule one_hot(const std::string& name, std::int64_t depth) {
  return {name,
          [=](OnnxBuilder& b) {
            b.input("i", TensorProto::INT64, {kRows});
            const std::string values = tensor_of(b, "v", TensorProto::FLOAT, {2});
            add_node(b, "OneHot", {"i", b.integers({depth}), values});
          },
          "n", "the depth " + std::to_string(depth)};
}

BrokenRule dequantized(const std::string& name, int codes, int zero,
                       std::vector<std::int64_t> zero_dims, const std::string& message) {
  return {name,
          [=](OnnxBuilder& b) {
            tensor_of(b, "q", codes, {kRows, kColumns});
            tensor_of(b, "s", TensorProto::FLOAT, {kColumns}, 1);
            tensor_of(b, "z", zero, zero_dims);
            add_node(b, "DequantizeLinear", {"q", "s", "z"}, {{"axis", std::int64_t{1}}});
          },
          "n", message};
}

std::vector<BrokenRule> operator_rules() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  return {
      index("Gather", {1}, {2}),
      index("GatherElements", {1, 3}, {0, -3, 0}),
      index("GatherND", {1, 2}, {1, 3}),
      index("ScatterND", {1, 2}, {-3, 0}, {1}),
      index("ScatterElements", {1, 3}, {0, 0, 7}, {1, 3}),
      one_hot("OneHotOfNegativeDepth", -4),
      one_hot("OneHotOfNoDepth", 0),
      range("RangeToNan", 0, nan, 1, "finite"),
      range("RangeToInfinity", 0, infinity, 1, "finite"),
      range("RangeOfNoStep", 0, 1, 0, "step is 0"),
      range("RangeOfManySteps", 0, 1, 1e-30F, "more elements"),
      dequantized("ZeroPointOfAnotherType", TensorProto::INT8, TensorProto::UINT8, {kColumns},
                  "its zero point is uint8, but its operand has type int8"),
      dequantized("ZeroPointOfAnotherShape", TensorProto::INT8, TensorProto::INT8, {kRows},
                  "differ in shape"),
      dequantized("CodesOfNoType", TensorProto::INT64, TensorProto::INT64, {kColumns},
                  "not an integer type for codes"),
      {"QuantizeToInt32",
       [](OnnxBuilder& b) {
         tensor_of(b, "z", TensorProto::INT32, {});
         add_node(b, "QuantizeLinear", {"x", b.scalar(1), "z"});
       },
       "n", "cannot quantize to int32"},
  };
}

std::string rule_name(const ::testing::TestParamInfo<BrokenRule>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Models, BrokenRules, ::testing::ValuesIn(model_rules()), rule_name);
INSTANTIATE_TEST_SUITE_P(Types, BrokenRules, ::testing::ValuesIn(type_rules()), rule_name);
INSTANTIATE_TEST_SUITE_P(Operators, BrokenRules, ::testing::ValuesIn(operator_rules()), rule_name);

TEST(DeclaredSizes, ThatAreWrongAreWarnings) {
  std::vector<std::string> heard;
  OnnxBuilder b(17);
  b.float_input("x", {kRows, kColumns});
  add_relu(b);
  b.graph().clear_output();
  b.float_output("y", {kRows, std::int64_t{7}});
  const TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  importer::ImportOptions options;
  options.on_warning = [&](const Diagnostic& d) { heard.push_back(d.message); };
  const auto model = importer::import_model(folder.path() / "m.onnx", options);
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  ASSERT_EQ(model->warnings.size(), 1U);
  EXPECT_EQ(model->warnings[0].node, "y");
  EXPECT_EQ(model->warnings[0].message, "is declared as f32[2, 7], but it is f32[2, 3]");
  EXPECT_EQ(heard, std::vector<std::string>{model->warnings[0].message});
  EXPECT_EQ(to_string(model->graph().value(model->graph().outputs()[0]).type), "f32[2, 3]");
}

TEST(DeclaredSizes, GiveFewWarnings) {
  const auto model = import_built([](OnnxBuilder& b) {
    std::string value = "x";
    for (int i = 0; i < 300; ++i) {
      value = b.node("Neg", {value}, {}, "t" + std::to_string(i));
      b.output(value, TensorProto::FLOAT, {kRows, std::int64_t{7}});
    }
    b.graph().mutable_value_info()->Swap(b.graph().mutable_output());
    b.node("Relu", {value}, {}, "y");
    b.float_output("y", {});
  });
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  ASSERT_EQ(model->warnings.size(), importer::kMaxWarnings);
  EXPECT_EQ(model->warnings.back().message, "295 more warnings of this kind not shown");
}

TEST(DeclaredSizes, ThatBlocksShareAreOneWarning) {
  const TemporaryFolder folder;
  small_model().write(folder.path());
  for (const int block : {0, 1})
    edit_block(folder.path(), block, [](onnx::ModelProto& m) {
      for (auto& input : *m.mutable_graph()->mutable_input())
        if (input.name() == "past_key_values")
          input.mutable_type()
              ->mutable_tensor_type()
              ->mutable_shape()
              ->mutable_dim(0)
              ->set_dim_value(5);
    });
  const auto model = importer::import_model(folder.path());
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  ASSERT_EQ(model->warnings.size(), 1U);
  EXPECT_EQ(model->warnings[0].node, "past_key_values");
  EXPECT_NE(model->warnings[0].message.find("the same in 1 more file"), std::string::npos);
}

TEST(DeclaredTypes, OfOpenSizesAreTaken) {
  const auto model = import_built([](OnnxBuilder& b) {
    b.node("Neg", {"x"}, {}, "y");
    b.float_output("y", {"rows", std::int64_t{-1}});
  });
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  EXPECT_TRUE(model->warnings.empty());
}

}  // namespace
}  // namespace llmc::testing
