// Blocks whose graphs, tensors or names are wrong.

#include <climits>

#include "tests/bad_inputs/bad_inputs.h"

namespace llmc::testing {
namespace {

namespace fs = std::filesystem;
using onnx::ModelProto;
using onnx::TensorProto;

class BadGraph : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadGraph, IsRefused) {
  expect_refused(GetParam());
}

constexpr const char* kWeight = "layer.q.weight";  // f32[24, 32]

BadInput block(const std::string& name, std::function<void(ModelProto&)> change,
               const std::string& message, ErrorKind kind = ErrorKind::kBadInput) {
  return {name, [change](const fs::path& folder) { edit_block(folder, 1, change); }, kind,
          "block_1.onnx", message};
}

BadInput tensor(const std::string& name, std::function<void(TensorProto&)> change,
                const std::string& message, ErrorKind kind = ErrorKind::kBadInput) {
  return block(
      name, [change](ModelProto& model) { change(initializer(model, kWeight)); }, message, kind);
}

std::vector<BadInput> tensor_inputs() {
  return {
      tensor(
          "DimsLieSmall", [](auto& t) { t.set_dims(0, 23); }, "takes 2944"),
      tensor(
          "DimsLieLarge", [](auto& t) { t.set_dims(0, 25); }, "takes 3200"),
      tensor(
          "NegativeDim", [](auto& t) { t.set_dims(0, -24); }, "negative dim -24"),
      tensor(
          "MinimalDim", [](auto& t) { t.set_dims(1, INT64_MIN); }, "negative dim"),
      tensor(
          "DimsOverflow",
          [](auto& t) {
            t.set_dims(0, INT64_MAX / 2);
            t.set_dims(1, 3);
          },
          "more elements than can be addressed"),
      tensor(
          "BytesOverflow",
          [](auto& t) {
            t.set_dims(0, INT64_MAX / 2);
            t.set_dims(1, 1);
          },
          "more elements than can be addressed"),
      // 2^32 * 2^32 is 0 when it wraps, which would agree with no data at all.
      tensor(
          "DimsWrapToZero",
          [](auto& t) {
            t.clear_raw_data();
            t.set_dims(0, std::int64_t{1} << 32);
            t.set_dims(1, std::int64_t{1} << 32);
          },
          "more elements than can be addressed"),
      tensor(
          "GiganticRank",
          [](auto& t) {
            for (int i = 0; i < 100000; ++i) t.add_dims(1);
          },
          "rank 100002"),
      tensor(
          "NoData", [](auto& t) { t.clear_raw_data(); }, "holds 0 elements"),
      tensor(
          "TypedAndRaw", [](auto& t) { t.add_float_data(1); }, "more than one field"),
      tensor(
          "TypedTooShort",
          [](auto& t) {
            t.clear_raw_data();
            t.add_float_data(1);
          },
          "holds 1 elements"),
      tensor(
          "EmptyTensor",
          [](auto& t) {
            t.set_dims(0, 0);
            t.clear_raw_data();
          },
          ""),
      tensor(
          "Segment", [](auto& t) { t.mutable_segment()->set_begin(0); }, "segments"),
      tensor(
          "StringElements", [](auto& t) { t.set_data_type(TensorProto::STRING); }, "string",
          ErrorKind::kUnsupported),
      tensor(
          "Float8Elements", [](auto& t) { t.set_data_type(17); }, "float8e4m3fn",
          ErrorKind::kUnsupported),
      tensor(
          "Int2Elements", [](auto& t) { t.set_data_type(26); }, "int2", ErrorKind::kUnsupported),
      tensor(
          "Int4ElementsOfTooManyBytes", [](auto& t) { t.set_data_type(22); }, "takes 384"),
      tensor(
          "UndefinedElements", [](auto& t) { t.set_data_type(0); }, "undefined"),
      tensor(
          "ElementsOfNoType", [](auto& t) { t.set_data_type(-7); }, "number -7"),
      tensor(
          "IntegerOutOfRange",
          [](auto& t) {
            t.clear_raw_data();
            t.clear_dims();
            t.set_data_type(TensorProto::INT8);
            t.add_int32_data(300);
          },
          "holds the value 300"),
      tensor(
          "BoolByte",
          [](auto& t) {
            t.clear_dims();
            t.set_data_type(TensorProto::BOOL);
            t.set_raw_data("\x02");
          },
          "other than 0 and 1"),
      tensor(
          "Nameless", [](auto& t) { t.clear_name(); }, "has no name"),
      block(
          "DuplicateInitializer",
          [](auto& m) { *m.mutable_graph()->add_initializer() = initializer(m, kWeight); },
          "two initializers"),
      block(
          "SparseInitializer", [](auto& m) { m.mutable_graph()->add_sparse_initializer(); },
          "sparse", ErrorKind::kUnsupported),
  };
}

std::vector<BadInput> graph_inputs() {
  return {
      block(
          "NoGraph", [](auto& m) { m.clear_graph(); }, "has no graph"),
      block(
          "NoOpset", [](auto& m) { m.clear_opset_import(); }, "no operator set"),
      block(
          "AncientOpset", [](auto& m) { m.mutable_opset_import(0)->set_version(1); },
          "not supported in operator set 1", ErrorKind::kUnsupported),
      block(
          "NegativeOpset", [](auto& m) { m.mutable_opset_import(0)->set_version(-5); },
          "operator set -5, which does not exist"),
      block(
          "NoNodes", [](auto& m) { m.mutable_graph()->clear_node(); }, "is never made"),
      block(
          "Cycle",
          [](auto& m) {
            auto& first = node(m, "Pow");
            first.set_input(0, node(m, "Sigmoid").output(0));
          },
          "part of a cycle"),
      block(
          "SelfLoop",
          [](auto& m) {
            auto& n = node(m, "Sigmoid");
            n.set_input(0, n.output(0));
          },
          "part of a cycle"),
      block(
          "UndefinedOperand", [](auto& m) { node(m, "Sigmoid").set_input(0, "nobody"); },
          "'nobody' is used but never made"),
      block(
          "OutputMissing", [](auto& m) { m.mutable_graph()->mutable_output(1)->set_name("x"); },
          "no output 'presents'"),
      block(
          "OutputNeverMade",
          [](auto& m) {
            for (auto& n : *m.mutable_graph()->mutable_node())
              if (n.output(0) == "presents") n.set_output(0, "elsewhere");
          },
          "'presents' is never made"),
      block(
          "ValueMadeTwice",
          [](auto& m) { node(m, "Sigmoid").set_output(0, node(m, "Sqrt").output(0)); },
          "exists already"),
      block(
          "NodeMakesAnInput", [](auto& m) { node(m, "Sigmoid").set_output(0, "position_ids"); },
          "exists already"),
      block(
          "CacheFoldedAway",
          [](auto& m) {
            auto& inputs = *m.mutable_graph()->mutable_input();
            inputs.RemoveLast();
            auto& past = *m.mutable_graph()->add_initializer();
            past.set_name("past_key_values");
            past.set_data_type(TensorProto::FLOAT);
            for (const int dim : {2, 1, 0, 2, 8}) past.add_dims(dim);
          },
          "cannot generate"),
      block(
          "StrangeInput",
          [](auto& m) {
            *m.mutable_graph()->add_input() = m.graph().input(0);
            m.mutable_graph()->mutable_input(4)->set_name("extra");
            node(m, "Sigmoid").set_input(0, "extra");
          },
          "for which llmc has no value"),
      block(
          "DuplicateInput", [](auto& m) { *m.mutable_graph()->add_input() = m.graph().input(0); },
          "two graph inputs"),
      block(
          "MaskOfIntegers",
          [](auto& m) {
            m.mutable_graph()
                ->mutable_input(1)
                ->mutable_type()
                ->mutable_tensor_type()
                ->set_elem_type(TensorProto::INT64);
          },
          "not declared as f32", ErrorKind::kUnsupported),
      block(
          "UnknownOperator", [](auto& m) { node(m, "Sigmoid").set_op_type("Sigmoidal"); },
          "not a supported operator", ErrorKind::kUnsupported),
      block(
          "UnknownDomain", [](auto& m) { node(m, "Sigmoid").set_domain("evil.example"); },
          "not a supported operator", ErrorKind::kUnsupported),
      block(
          "OperatorWithoutName", [](auto& m) { node(m, "Sigmoid").clear_op_type(); },
          "has no operator type"),
      block(
          "AttributeOfWrongType",
          [](auto& m) {
            auto& a = *node(m, "Softmax").mutable_attribute(0);
            a.set_type(onnx::AttributeProto::FLOAT);
          },
          "wrong type"),
      block(
          "AttributeWithoutType",
          [](auto& m) { node(m, "Softmax").mutable_attribute(0)->clear_type(); }, "wrong type"),
      block(
          "AttributeOfAFunction",
          [](auto& m) {
            auto& attribute = *node(m, "Softmax").mutable_attribute(0);
            attribute.clear_i();
            attribute.set_ref_attr_name("outer");
          },
          "outside a function"),
      block(
          "AttributeOfAFunctionWithAValue",
          [](auto& m) { node(m, "Softmax").mutable_attribute(0)->set_ref_attr_name("outer"); },
          "has a value and refers to"),
      block(
          "AxisOutside", [](auto& m) { node(m, "Softmax").mutable_attribute(0)->set_i(INT64_MIN); },
          "does not fit a tensor of rank 4"),
      block(
          "PermTooLong", [](auto& m) { node(m, "Transpose").mutable_attribute(0)->add_ints(4); },
          ""),
      block(
          "ReshapeDoesNotFit",
          [](auto& m) {
            auto& shape = initializer(m, node(m, "Reshape").input(1));
            const std::int64_t dims[] = {1, -1, 25};
            shape.set_raw_data(dims, sizeof dims);
          },
          ""),
      block(
          "ReshapeTwoUnknown",
          [](auto& m) {
            auto& shape = initializer(m, node(m, "Reshape").input(1));
            const std::int64_t dims[] = {-1, -1, 24};
            shape.set_raw_data(dims, sizeof dims);
          },
          ""),
      block(
          "ReshapeOverflow",
          [](auto& m) {
            auto& shape = initializer(m, node(m, "Reshape").input(1));
            const std::int64_t dims[] = {INT64_MAX, INT64_MAX, 24};
            shape.set_raw_data(dims, sizeof dims);
          },
          "more elements than can be addressed"),
      block(
          "WeightOfWrongShape",
          [](auto& m) {
            auto& weight = initializer(m, kWeight);
            weight.set_dims(0, 32);
            weight.set_dims(1, 24);
          },
          ""),
  };
}

/// Names that a shell, a C++ comment, a terminal or a path would stumble over. The graph is sound,
/// so the importer takes them; an unsupported operator makes them appear in a message.
BadInput hostile(const std::string& name, const std::string& text) {
  return block(
      name,
      [text](ModelProto& m) {
        auto& n = node(m, "Sigmoid");
        n.set_name(text);
        n.set_op_type("Op" + text);
      },
      "not a supported operator", ErrorKind::kUnsupported);
}

std::vector<BadInput> hostile_inputs() {
  return {
      hostile("Comment", "*/ int x; /*"),
      hostile("Shell", "$(touch x) `touch y` ; rm -rf ~ | \"'"),
      hostile("Control", std::string("\x1b[2J\r\n\t\x07 \0 end", 14)),
      hostile("NotUtf8", "\xff\xfe\xc0\xaf"),
      hostile("Direction",
              "a\xe2\x80\xae"
              "b"),
      hostile("Long", std::string(100000, 'n')),
      hostile("Trigraph", "?\?/\n#include \"/etc/passwd\""),
      hostile("Path", "../../../../etc/passwd"),
  };
}

INSTANTIATE_TEST_SUITE_P(Tensors, BadGraph, ::testing::ValuesIn(tensor_inputs()), name_of);
INSTANTIATE_TEST_SUITE_P(Graphs, BadGraph, ::testing::ValuesIn(graph_inputs()), name_of);
INSTANTIATE_TEST_SUITE_P(HostileNames, BadGraph, ::testing::ValuesIn(hostile_inputs()), name_of);

TEST(HostileNames, ComeThroughWhenTheGraphIsSound) {
  const TemporaryFolder folder;
  small_model().write(folder.path());
  edit_block(folder.path(), 0, [](ModelProto& m) {
    auto& sigmoid = node(m, "Sigmoid");
    const std::string old = sigmoid.output(0), evil = "*/ int x; /* $(touch x)\n\x1b[2J";
    for (auto& n : *m.mutable_graph()->mutable_node())
      for (auto& input : *n.mutable_input())
        if (input == old) input = evil;
    sigmoid.set_output(0, evil);
    sigmoid.set_name(evil);
  });
  EXPECT_TRUE(importer::import_model(folder.path()).ok());
}

}  // namespace
}  // namespace llmc::testing
