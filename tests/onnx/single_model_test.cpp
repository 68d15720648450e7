// Decoders in one file: layers' caches stacked, and Hugging Face's names. The graphs here are no
// language models, only small enough to know by hand what comes out.

#include <gtest/gtest.h>

#include "compiler/ir/verify.h"
#include "tests/ir/verify_states.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/onnx_builder.h"
#include "tests/support_onnx/tiny_decoder.h"

namespace llmc {
namespace {

using onnx::TensorProto;
using testing::DecoderRunner;
using testing::OnnxBuilder;
using Floats = std::vector<float>;

constexpr std::int64_t kOne = 1, kTwo = 2;

/// Two layers; each appends its rows x (width 2) to its cache as keys and values and adds the sum
/// of all keys to every row. Logits of the last row are x W with W = [1 0 2; 0 1 3].
OnnxBuilder stacked_graph(bool quirky) {
  OnnxBuilder b(15);
  b.float_input("input_ids", {"seq_len", kOne, kTwo});
  if (quirky)
    b.float_input("past_key_values", {kTwo, kTwo, kOne, std::int64_t{0}, kOne, kTwo});
  else
    b.float_input("past_key_values", {kTwo, kTwo, kOne, "history", kOne, kTwo});
  auto x = b.reshape("input_ids", {1, -1, 2});
  std::vector<std::string> presents;
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const auto past = b.node("Gather", {"past_key_values", b.integer(layer)});
    const auto rows = b.unsqueeze(x, {2});  // [1, seq, 1, 2]
    std::vector<std::string> parts;
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto old = b.node("Gather", {past, b.integer(i)});
      parts.push_back(b.node("Concat", {old, rows}, {{"axis", kOne}}));
    }
    const auto sum = b.node("ReduceSum", {parts[0], b.integers({1, 2})}, {{"keepdims", kOne}});
    x = b.node("Add", {x, b.reshape(sum, {1, 1, 2})});
    const auto present = b.node("Concat", {b.unsqueeze(parts[0], {0}), b.unsqueeze(parts[1], {0})},
                                {{"axis", kOne - 1}});
    presents.push_back(b.unsqueeze(present, {0}));
  }
  b.node("Concat", presents, {{"axis", kOne - 1}}, "presents");
  const auto last = b.node("Gather", {x, b.integer(-1)}, {{"axis", kOne}});
  b.node("MatMul", {last, b.floats("w", {2, 3}, Floats{1, 0, 2, 0, 1, 3})}, {}, "logits");
  b.float_output("logits", {kOne, std::int64_t{3}});
  b.float_output("presents", {});
  return b;
}

/// What stacked_graph gives when `ids` come one by one, with the embedding rows of the test.
Floats stacked_expected(const std::vector<std::int64_t>& ids) {
  const float table[3][2] = {{1, 2}, {3, -1}, {0.5f, 4}};
  float sums[2][2] = {};
  Floats logits;
  for (const auto id : ids) {
    float x[2] = {table[id][0], table[id][1]};
    for (auto& sum : sums)
      for (int i = 0; i < 2; ++i) x[i] += sum[i] += x[i];
    logits = {x[0], x[1], 2 * x[0] + 3 * x[1]};
  }
  return logits;
}

class StackedModel : public ::testing::TestWithParam<bool> {};

TEST_P(StackedModel, KeepsACacheForEachLayer) {
  const testing::TemporaryFolder folder;
  stacked_graph(GetParam()).save(folder.path() / "llm.onnx");
  testing::write_bytes(folder.path() / "embeddings_bf16.bin",
                       testing::encode_floats(Floats{1, 2, 3, -1, 0.5f, 4}, TensorProto::BFLOAT16));
  for (const auto& path : {folder.path(), folder.path() / "llm.onnx"}) {
    const auto model = importer::import_model(path);
    ASSERT_TRUE(model.ok()) << errors(model.error());
    ASSERT_TRUE(ir::verify(model->graph()).ok());
    ASSERT_TRUE(model->is_decoder());
    EXPECT_TRUE(ir::testing::verify_states(model->module).ok());
    EXPECT_EQ(std::ssize(model->module.states), 2);
    EXPECT_EQ(model->module.vocabulary(), 3);
    EXPECT_FALSE(model->graph().input(ir::InputKind::kMask).exists());
    EXPECT_FALSE(model->graph().input(ir::InputKind::kPositions).exists());
    DecoderRunner runner(*model);
    std::vector<std::int64_t> ids;
    for (const std::int64_t id : {1, 0, 2, 1}) {
      ids.push_back(id);
      const auto logits = runner.feed({id});
      ASSERT_TRUE(logits.ok()) << errors(logits.error());
      EXPECT_EQ(*logits, stacked_expected(ids));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DeclaredTypes, StackedModel, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "quirky" : "sound"; });

// Layer by layer: the graph takes past.i itself, not a slice of all of them.
TEST(StackedModel, NeedsNoGatherFromTheStack) {
  const testing::TemporaryFolder folder;
  stacked_graph(false).save(folder.path() / "llm.onnx");
  testing::write_bytes(folder.path() / "embeddings_bf16.bin", std::string(12, '\0'));
  const auto model = importer::import_model(folder.path());
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const ir::UseDef uses(model->graph());
  for (const auto& node : model->graph().nodes())
    if (std::holds_alternative<ir::Gather>(node.op))
      EXPECT_NE(model->graph().value(node.inputs[0]).type.rank(), 6u);
  for (const auto id : model->graph().outputs())
    EXPECT_FALSE(ir::op_as<ir::Gather>(uses.producer(id)));
}

/// One layer; key = the ids so far, value = the positions so far, [1, 1, total, 1] each; logits
/// [1, seq, 2] = (sum of keys + sum of values, number of positions the mask lets through).
OnnxBuilder hugging_face_graph() {
  OnnxBuilder b(18);
  b.input("input_ids", TensorProto::INT64, {"batch", "seq"});
  b.input("attention_mask", TensorProto::INT64, {"batch", "total"});
  b.input("position_ids", TensorProto::INT64, {"batch", "seq"});
  for (const char* which : {"key", "value"})
    b.float_input(std::string("past_key_values.0.") + which, {"batch", kOne, "past", kOne});
  const auto as_rows = [&](const std::string& ids) {
    const auto f = b.node("Cast", {ids}, {{"to", std::int64_t{TensorProto::FLOAT}}});
    return b.reshape(f, {1, 1, -1, 1});
  };
  const auto key = b.node("Concat", {"past_key_values.0.key", as_rows("input_ids")},
                          {{"axis", kTwo}}, "present.0.key");
  const auto value = b.node("Concat", {"past_key_values.0.value", as_rows("position_ids")},
                            {{"axis", kTwo}}, "present.0.value");
  const auto total = [&](const std::string& x) {
    return b.reshape(b.node("ReduceSum", {x}), {1, 1, 1});
  };
  const auto mask = b.node("Cast", {"attention_mask"}, {{"to", std::int64_t{TensorProto::FLOAT}}});
  const auto both =
      b.node("Concat", {b.node("Add", {total(key), total(value)}), total(mask)}, {{"axis", kTwo}});
  const auto shape =
      b.node("Concat", {b.node("Shape", {"input_ids"}), b.integers({2})}, {{"axis", kOne - 1}});
  b.node("Expand", {both, shape}, {}, "logits");
  b.float_output("logits", {"batch", "seq", kTwo});
  for (const char* which : {"key", "value"})
    b.float_output(std::string("present.0.") + which, {"batch", kOne, "total", kOne});
  return b;
}

TEST(HuggingFaceModel, IsFedOneSequence) {
  const testing::TemporaryFolder folder;
  hugging_face_graph().save(folder.path() / "model.onnx");
  const auto model = importer::import_model(folder.path());
  ASSERT_TRUE(model.ok()) << errors(model.error());
  ASSERT_TRUE(ir::verify(model->graph()).ok());
  ASSERT_TRUE(model->is_decoder());
  EXPECT_TRUE(ir::testing::verify_states(model->module).ok());
  EXPECT_EQ(std::ssize(model->module.states), 1);
  EXPECT_EQ(model->module.states[0].kv_heads, 1);
  EXPECT_EQ(model->module.states[0].layout, ir::CacheLayout::kHeadsFirst);
  EXPECT_TRUE(model->graph().input(ir::InputKind::kPositions).exists());
  EXPECT_FALSE(model->graph().input(ir::InputKind::kMask).exists());
  DecoderRunner runner(*model);
  EXPECT_EQ(*runner.feed({7, 1, 4}), (Floats{7 + 1 + 4 + 0 + 1 + 2, 3}));
  EXPECT_EQ(*runner.feed({10}), (Floats{7 + 1 + 4 + 10 + 0 + 1 + 2 + 3, 4}));
  EXPECT_EQ(*runner.feed({2, 2}), (Floats{26 + 0 + 1 + 2 + 3 + 4 + 5, 6}));
}

// Declared dims are often wrong: the tokens that are appended say what a cache is.
TEST(HuggingFaceModel, TakesTheCachesShapeFromTheTokens) {
  const testing::TemporaryFolder folder;
  auto b = hugging_face_graph();
  for (int i : {3, 4}) {
    auto& dims =
        *b.graph().mutable_input(i)->mutable_type()->mutable_tensor_type()->mutable_shape();
    dims.mutable_dim(1)->set_dim_value(7);
    dims.mutable_dim(3)->set_dim_param("width");
  }
  b.save(folder.path() / "model.onnx");
  const auto model = importer::import_model(folder.path());
  ASSERT_TRUE(model.ok()) << errors(model.error());
  EXPECT_EQ(model->module.states[0].kv_heads, 1);
  EXPECT_EQ(model->module.states[0].head_dim, 1);
  EXPECT_EQ(*DecoderRunner(*model).feed({7, 1, 4}), (Floats{7 + 1 + 4 + 0 + 1 + 2, 3}));
}

// No convention of names: what is appended to and comes out again is a cache.
TEST(HuggingFaceModel, FindsCachesByWhatIsDoneWithThem) {
  const testing::TemporaryFolder folder;
  auto b = hugging_face_graph();
  const auto rename = [&](const std::string& from, const std::string& to) {
    for (auto& value : *b.graph().mutable_input())
      if (value.name() == from) value.set_name(to);
    for (auto& value : *b.graph().mutable_output())
      if (value.name() == from) value.set_name(to);
    for (auto& node : *b.graph().mutable_node()) {
      for (auto& name : *node.mutable_input())
        if (name == from) name = to;
      for (auto& name : *node.mutable_output())
        if (name == from) name = to;
    }
  };
  rename("past_key_values.0.key", "onnx::Concat_5");
  rename("past_key_values.0.value", "onnx::Concat_6");
  rename("present.0.key", "210");
  rename("present.0.value", "211");
  rename("input_ids", "tokens");
  b.save(folder.path() / "model.onnx");
  const auto model = importer::import_model(folder.path());
  ASSERT_TRUE(model.ok()) << errors(model.error());
  EXPECT_EQ(*DecoderRunner(*model).feed({7, 1, 4}), (Floats{7 + 1 + 4 + 0 + 1 + 2, 3}));
}

TEST(HuggingFaceModel, FindsValuesByASoftmaxInItsParts) {
  auto b = testing::tiny_decoder({.name = "SoftmaxInParts", .plain_names = true});
  for (int i = 0, count = b.graph().node_size(); i < count; ++i) {
    auto& node = *b.graph().mutable_node(i);
    if (node.op_type() != "Softmax") continue;
    const std::string scores = node.input(0), axis = b.integers({-1});
    const auto power =
        b.node("Exp", {b.node("Sub", {scores, b.node("ReduceMax", {scores, axis})})});
    node.set_op_type("Div");
    node.set_input(0, power);
    node.add_input(b.node("ReduceSum", {power, axis}));
    node.clear_attribute();
  }
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  EXPECT_EQ(model->module.states.size(), 2u);
}

// A length that was fixed at export would make the rows of any other one wrong.
TEST(HuggingFaceModel, RefusesAFixedNumberOfTokens) {
  const testing::TemporaryFolder folder;
  auto b = hugging_face_graph();
  for (auto& node : *b.graph().mutable_node())
    if (node.op_type() == "Reshape" && node.input(0) != "logits" && node.output(0) != "logits")
      node.set_input(1, b.integers({1, 1, 1, 1}));
  b.graph().mutable_output(0)->clear_type();  // the logits, whose rank this changes
  b.save(folder.path() / "model.onnx");
  const auto model = importer::import_model(folder.path());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().first().kind, ErrorKind::kUnsupported);
  EXPECT_NE(model.error().first().message.find("fixed sequence length of 1 token"),
            std::string::npos);
}

TEST(HuggingFaceModel, KnowsThatACacheIsMissing) {
  const testing::TemporaryFolder folder;
  OnnxBuilder b(18);
  b.input("input_ids", TensorProto::INT64, {"batch", "seq"});
  b.node("Gather", {b.floats("table", {2, 3}, Floats{1, 2, 3, 4, 5, 6}), "input_ids"}, {},
         "logits");
  b.float_output("logits", {"batch", "seq", std::int64_t{3}});
  b.save(folder.path() / "model.onnx");
  const auto model = importer::import_model(folder.path());
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE(model->is_decoder());
  EXPECT_TRUE(model->lacks_cache);
}

// A name that cannot be typed is treated as missing.
TEST(HuggingFaceModel, NamesOfDimsAreWhatDimTakes) {
  const auto symbol_of = [](const std::string& name) {
    OnnxBuilder b(18);
    b.float_input("x", {name});
    b.node("Exp", {"x"}, {}, "y");
    b.float_output("y", {name});
    const auto model = import(b);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : errors(model.error()));
    if (!model.ok()) return std::string();
    return model->graph().value(model->graph().inputs()[0]).type.dims[0].to_string();
  };
  EXPECT_EQ(symbol_of("length"), "length");
  EXPECT_EQ(symbol_of("a\nb"), "x_dim0");
  EXPECT_EQ(symbol_of("a\x1b[2Jb"), "x_dim0");
  EXPECT_EQ(symbol_of(std::string(200, 'n')), std::string(200, 'n'));
  EXPECT_EQ(symbol_of(std::string(201, 'n')), "x_dim0");
}

TEST(HuggingFaceModel, RefusesInputsThatNobodyCouldFill) {
  const testing::TemporaryFolder folder;
  auto b = hugging_face_graph();
  b.input("adapter", TensorProto::INT64, {kOne});
  const auto cast = b.node("Cast", {"adapter"}, {{"to", std::int64_t{TensorProto::FLOAT}}});
  b.graph().mutable_node(b.graph().node_size() - 2)->set_output(0, "bare");
  b.node("Add", {"bare", cast}, {}, "logits");
  b.save(folder.path() / "model.onnx");
  const auto model = importer::import_model(folder.path());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().first().node, "adapter");
  EXPECT_EQ(model.error().first().kind, ErrorKind::kUnsupported);
}

// One integer matrix and something of rank 4 are no decoder yet.
TEST(HuggingFaceModel, IsNotSeenInAnyGraphOfIntegersAndImages) {
  const testing::TemporaryFolder folder;
  OnnxBuilder b(18);
  b.input("where", TensorProto::INT64, {std::int64_t{2}, std::int64_t{3}});
  b.float_input("image", {std::int64_t{1}, std::int64_t{3}, std::int64_t{4}, std::int64_t{5}});
  b.float_input("scale", {std::int64_t{5}});
  b.node("Gather", {"scale", "where"}, {}, "picked");
  b.node("Mul", {"image", "scale"}, {}, "scaled");
  b.float_output("picked", {});
  b.float_output("scaled", {});
  b.save(folder.path() / "m.onnx");
  const auto model = importer::import_model(folder.path() / "m.onnx");
  ASSERT_TRUE(model.ok()) << errors(model.error());
  EXPECT_FALSE(model->is_decoder());
}

}  // namespace
}  // namespace llmc
