// What onnxruntime's optimizer and quantizer make of encoders: attention with its projection,
// embeddings with a norm, products and other operators on codes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/reference/interpreter.h"
#include "tests/onnx/imported.h"

namespace llmc::contrib_encoder {
namespace {

using onnx::TensorProto;
using reference::Tensor;
using testing::Attribute;
using testing::OnnxBuilder;
using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

constexpr std::int64_t kBatch = 2, kTokens = 3, kHeads = 2, kWidth = 4;  // heads of 2

OnnxBuilder builder() {
  OnnxBuilder b(17);
  auto& set = *b.model.add_opset_import();
  set.set_domain("com.microsoft");
  set.set_version(1);
  return b;
}

void contrib(OnnxBuilder& b, const std::string& op, const Strings& operands, const Strings& outputs,
             const std::vector<Attribute>& attributes = {}) {
  b.raw_node(op, operands, outputs, attributes).set_domain("com.microsoft");
  for (const auto& name : outputs)
    if (!name.empty()) b.float_output(name, {});
}

/// Small numbers in a fixed, unordered sequence.
Floats numbers(std::size_t count, float scale, std::size_t seed = 0) {
  Floats out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back((static_cast<float>((i + seed * 131) * 2654435761u >> 8 & 255) / 127.5f - 1) *
                  scale);
  return out;
}

std::string bytes(const Floats& codes) {
  std::string out;
  for (const float code : codes) out.push_back(static_cast<char>(static_cast<int>(code)));
  return out;
}

Result<std::vector<Tensor>> outputs(const OnnxBuilder& b, const std::vector<Tensor>& inputs) {
  LLMC_TRY(const auto model, import(b));
  return reference::evaluate(model.graph(), inputs);
}

/// Elements of the outputs one after the other; a failure of the test if there are none.
Floats values(const OnnxBuilder& b, const std::vector<Tensor>& inputs) {
  const auto results = outputs(b, inputs);
  if (!results.ok()) {
    ADD_FAILURE() << errors(results.error());
    return {};
  }
  Floats all;
  for (const Tensor& result : *results) {
    all.insert(all.end(), result.floats.begin(), result.floats.end());
    all.insert(all.end(), result.integers.begin(), result.integers.end());
  }
  return all;
}

void expect_near(const Floats& got, const Floats& expected, float limit = 1e-5f) {
  ASSERT_EQ(got.size(), expected.size());
  ASSERT_FALSE(got.empty());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], limit) << i;
}

const Floats kX = numbers(kBatch * kTokens * kWidth, 1);
const Floats kWeights = numbers(kWidth * 3 * kWidth, 0.5f, 1), kBias = numbers(3 * kWidth, 0.3f, 2);

Tensor x_tensor() {
  return reference::f32_tensor({kBatch, kTokens, kWidth}, kX);
}

/// Softmax(q k^T / sqrt(2) + added) v of the projections of x, with `past` cached tokens.
/// `added(batch, query, key)` is the term of the masks; a cache is [2, batch, heads, past, 2].
Floats attention(const std::function<float(std::size_t, std::size_t, std::size_t)>& added,
                 const Floats& cache = {}, std::size_t past = 0) {
  const auto projected = [&](std::size_t row, std::size_t column) {
    float sum = kBias[column];
    for (std::size_t i = 0; i < kWidth; ++i)
      sum += kX[row * kWidth + i] * kWeights[i * 3 * kWidth + column];
    return sum;
  };
  Floats y;
  for (std::size_t b = 0; b < kBatch; ++b)
    for (std::size_t s = 0; s < kTokens; ++s)
      for (std::size_t h = 0; h < kHeads; ++h) {
        const auto at = [&](std::size_t which, std::size_t key, std::size_t i) {
          if (key < past)
            return cache[((((which - 1) * kBatch + b) * kHeads + h) * past + key) * 2 + i];
          return projected(b * kTokens + key - past, which * kWidth + h * 2 + i);
        };
        Floats weights;
        float sum = 0;
        for (std::size_t k = 0; k < past + kTokens; ++k) {
          float score = 0;
          for (std::size_t i = 0; i < 2; ++i) score += at(0, past + s, i) * at(1, k, i);
          weights.push_back(std::exp(score / std::sqrt(2.0f) + added(b, s, k)));
          sum += weights.back();
        }
        for (std::size_t i = 0; i < 2; ++i) {
          float value = 0;
          for (std::size_t k = 0; k < weights.size(); ++k) value += weights[k] * at(2, k, i) / sum;
          y.push_back(value);
        }
      }
  return y;
}

/// An Attention node on x; operands after the bias are `operands`.
OnnxBuilder attention_node(const Strings& operands, std::vector<Attribute> attributes = {},
                           const Strings& results = {"y"}) {
  OnnxBuilder b = builder();
  b.float_input("x", {kBatch, kTokens, kWidth});
  b.floats("w", {kWidth, 3 * kWidth}, kWeights);
  b.floats("b", {3 * kWidth}, kBias);
  Strings all{"x", "w", "b"};
  all.insert(all.end(), operands.begin(), operands.end());
  attributes.push_back({"num_heads", kHeads});
  contrib(b, "Attention", all, results, attributes);
  return b;
}

Tensor i32(const Ints& dims, const Ints& elements) {
  Tensor t = reference::zeros(ir::ElementType::kI32, dims);
  t.integers = elements;
  return t;
}

TEST(ContribEncoder, AttentionProjectsItsOperands) {
  expect_near(values(attention_node({}), {x_tensor()}),
              attention([](auto, auto, auto) { return 0.0f; }));
}

TEST(ContribEncoder, AttentionHasMasksOfSeveralForms) {
  const std::pair<Ints, Ints> forms[] = {
      {{kBatch, kTokens}, {1, 1, 0, 0, 1, 1}},
      {{kBatch, kTokens, kTokens}, {1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 1, 1}},
      {{2 * kBatch}, {2, 3, 0, 1}},  // ends, begins
  };
  for (const auto& [dims, elements] : forms) {
    OnnxBuilder b = attention_node({"m"}, {{"mask_filter_value", -5.0f}});
    b.input("m", TensorProto::INT32, std::vector<testing::DeclaredDim>(dims.begin(), dims.end()));
    expect_near(values(b, {x_tensor(), i32(dims, elements)}), attention([](auto b, auto, auto k) {
                  return b == 0 ? (k == 2 ? -5.0f : 0.0f) : (k == 0 ? -5.0f : 0.0f);
                }));
  }
  OnnxBuilder b = attention_node({"m"});
  b.input("m", TensorProto::INT32, {kBatch});
  expect_near(values(b, {x_tensor(), i32({kBatch}, {2, 1})}),
              attention([](auto b, auto, auto k) { return k < 2 - b ? 0.0f : -10000.0f; }));
  b = attention_node({"m"});
  b.input("m", TensorProto::INT32, {std::int64_t{3 * kBatch + 2}});
  EXPECT_FALSE(outputs(b, {x_tensor(), i32({8}, Ints(8, 0))}).ok());
}

TEST(ContribEncoder, AttentionExtendsItsCache) {
  const Floats cache = numbers(2 * kBatch * kHeads * 2 * 2, 1, 3);
  OnnxBuilder b =
      attention_node({"", "p"}, {{"unidirectional", std::int64_t{1}}}, {"y", "present"});
  b.float_input("p", {std::int64_t{2}, kBatch, kHeads, std::int64_t{2}, std::int64_t{2}});
  const auto results = outputs(b, {x_tensor(), reference::f32_tensor({2, 2, 2, 2, 2}, cache)});
  ASSERT_TRUE(results.ok()) << errors(results.error());
  expect_near(
      (*results)[0].floats,
      attention([](auto, auto s, auto k) { return k <= s + 2 ? 0.0f : -INFINITY; }, cache, 2));
  EXPECT_EQ((*results)[1].dims, (Ints{2, kBatch, kHeads, 5, 2}));
  EXPECT_EQ((*results)[1].floats[0], cache[0]);
  EXPECT_EQ((*results)[1].floats[10], cache[4]) << "the next head begins after three new tokens";
}

TEST(ContribEncoder, AttentionThatCannotBeReadIsRefused) {
  for (const auto& [attribute, text] :
       {std::pair(Attribute{"do_rotary", std::int64_t{1}}, "do_rotary"),
        std::pair(Attribute{"past_present_share_buffer", std::int64_t{1}}, "shared cache"),
        std::pair(Attribute{"qkv_hidden_sizes", Ints{4, 2, 6}}, "are not queries")}) {
    const auto refused = import(attention_node({}, {attribute}));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(errors(refused.error()).find(text), std::string::npos) << errors(refused.error());
  }
}

TEST(ContribEncoder, QuantizedAttentionIsThatOfItsNumbers) {
  const Floats codes = numbers(kX.size(), 100, 4), weights = numbers(kWeights.size(), 100, 5);
  for (const bool by_column : {false, true}) {
    Floats scales = by_column ? numbers(3 * kWidth, 0.01f, 6) : Floats{0.02f};
    OnnxBuilder b = builder();
    b.input("x", TensorProto::UINT8, {kBatch, kTokens, kWidth});
    b.raw("w", TensorProto::INT8, {kWidth, 3 * kWidth}, bytes(weights));
    b.floats("b", {3 * kWidth}, kBias);
    b.floats("ws", by_column ? Ints{3 * kWidth} : Ints{}, scales);
    b.raw("wz", TensorProto::INT8, by_column ? Ints{3 * kWidth} : Ints{},
          std::string(scales.size(), '\3'));
    b.raw("xz", TensorProto::UINT8, {}, "\x64");
    b.input("m", TensorProto::INT32, {kBatch, kTokens});
    contrib(b, "QAttention", {"x", "w", "b", b.scalar(0.01f), "ws", "m", "xz", "wz"}, {"y"},
            {{"num_heads", kHeads}});
    Tensor x = reference::zeros(ir::ElementType::kU8, {kBatch, kTokens, kWidth});
    Floats real;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      x.integers[i] = static_cast<std::int64_t>(codes[i]) + 100;
      real.push_back(0.01f * static_cast<float>(static_cast<int>(codes[i])));
    }
    OnnxBuilder plain = attention_node({"m"});
    plain.input("m", TensorProto::INT32, {kBatch, kTokens});
    for (auto& tensor : *plain.graph().mutable_initializer()) {
      if (tensor.name() != "w") continue;
      Floats w;
      for (std::size_t i = 0; i < weights.size(); ++i)
        w.push_back(static_cast<float>(static_cast<int>(weights[i]) - 3) *
                    scales[by_column ? i % (3 * kWidth) : 0]);
      tensor.set_raw_data(testing::encode_floats(w, TensorProto::FLOAT));
    }
    const Tensor mask = i32({kBatch, kTokens}, {1, 1, 0, 1, 1, 1});
    expect_near(values(b, {x, mask}),
                values(plain, {reference::f32_tensor({kBatch, kTokens, kWidth}, real), mask}));
  }
}

TEST(ContribEncoder, EmbeddingsAreNormalized) {
  const Floats words = numbers(5 * kWidth, 1), places = numbers(4 * kWidth, 1, 7),
               segments = numbers(2 * kWidth, 1, 8);
  const Ints ids{4, 0, 2, 1, 1, 3}, kinds{0, 1, 1, 0, 0, 1};
  OnnxBuilder b = builder();
  for (const char* name : {"ids", "kinds", "mask"})
    b.input(name, TensorProto::INT32, {kBatch, kTokens});
  b.floats("words", {5, kWidth}, words);
  b.floats("places", {4, kWidth}, places);
  b.floats("segments", {2, kWidth}, segments);
  b.floats("scale", {kWidth}, numbers(kWidth, 1, 9));
  b.floats("shift", {kWidth}, numbers(kWidth, 1, 10));
  contrib(b, "EmbedLayerNormalization",
          {"ids", "kinds", "words", "places", "segments", "scale", "shift", "mask"},
          {"y", "count", "sum"}, {{"epsilon", 0.0f}});
  const auto results = outputs(b, {i32({kBatch, kTokens}, ids), i32({kBatch, kTokens}, kinds),
                                   i32({kBatch, kTokens}, {1, 1, 0, 1, 0, 0})});
  ASSERT_TRUE(results.ok()) << errors(results.error());
  Floats sums, normed;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    Floats row;
    float mean = 0, square = 0;
    for (std::size_t i = 0; i < kWidth; ++i) {
      row.push_back(words[static_cast<std::size_t>(ids[t]) * kWidth + i] +
                    places[t % kTokens * kWidth + i] +
                    segments[static_cast<std::size_t>(kinds[t]) * kWidth + i]);
      mean += row.back() / kWidth;
    }
    for (const float v : row) square += (v - mean) * (v - mean) / kWidth;
    for (std::size_t i = 0; i < kWidth; ++i) {
      sums.push_back(row[i]);
      normed.push_back((row[i] - mean) / std::sqrt(square) * numbers(kWidth, 1, 9)[i] +
                       numbers(kWidth, 1, 10)[i]);
    }
  }
  expect_near((*results)[0].floats, normed, 1e-4f);
  EXPECT_EQ((*results)[1].integers, (Ints{2, 1}));
  expect_near((*results)[2].floats, sums);
}

TEST(ContribEncoder, QuantizedEmbeddingsKeepTheirCodes) {
  OnnxBuilder b = builder();
  b.input("ids", TensorProto::INT32, {std::int64_t{1}, std::int64_t{2}});
  b.raw("words", TensorProto::UINT8, {2, 2}, "\x0c\x0a\x0e\x14");   // 1 0, 2 5
  b.raw("places", TensorProto::UINT8, {2, 2}, "\x0a\x0a\x0c\x0a");  // 0 0, 1 0
  b.raw("scale", TensorProto::UINT8, {2}, "\x0e\x0e");              // 2 2
  b.raw("shift", TensorProto::UINT8, {2}, "\x0a\x0c");              // 0 1
  b.raw("z", TensorProto::UINT8, {}, "\x0a");
  const auto s = b.scalar(0.5f);
  contrib(b, "QEmbedLayerNormalization",
          {"ids", "", "words", "places", "", "scale", "shift", "", s, s, "", s, s, "z", "z", "",
           "z", "z"},
          {"y", "count"}, {{"epsilon", 0.0f}});
  // Rows {2, 5} + {0, 0} and {1, 0} + {1, 0}.
  const auto y = values(b, {i32({1, 2}, {1, 0})});
  expect_near(y, {-2, 3, 2, -1, 0});
  const auto model = import(b);
  ASSERT_TRUE(model.ok());
  int quantized = 0;
  for (const auto& node : model->graph().nodes())
    if (const auto* c = ir::op_as<ir::ConstantOp>(&node))
      quantized += c->data->quantization() ? 1 : 0;
  EXPECT_EQ(quantized, 2) << "tables";
}

/// Codes u8 [2, 3] 100 + kA with scale 0.5, and the constant i8 [3, 2] kB with zero point 1.
const Floats kA{-4, 2, 10, 0, 7, -20}, kB{3, -2, 0, 5, 1, -7};
constexpr float kProduct[] = {-4 * 2 - 2 + 0, -4 * -3 + 2 * 4 + 10 * -8, -7,
                              7 * 4 + 160};  // kA (kB - 1)

OnnxBuilder product(bool floats) {
  OnnxBuilder b = builder();
  b.input("a", floats ? TensorProto::FLOAT : TensorProto::UINT8,
          {std::int64_t{2}, std::int64_t{3}});
  b.raw("w", TensorProto::INT8, {3, 2}, bytes(kB));
  b.raw("az", TensorProto::UINT8, {}, "\x64");
  b.raw("wz", TensorProto::INT8, {}, "\1");
  b.floats("as", {}, Floats{0.5f});
  b.floats("ws", {2}, Floats{0.25f, 2});
  b.floats("bias", {2}, Floats{1, -1});
  return b;
}

Tensor a_codes() {
  Tensor a = reference::zeros(ir::ElementType::kU8, {2, 3});
  for (std::size_t i = 0; i < kA.size(); ++i)
    a.integers[i] = static_cast<std::int64_t>(kA[i]) + 100;
  return a;
}

TEST(ContribEncoder, ProductsOfCodesAreScaled) {
  const Floats expected{0.125f * kProduct[0] + 1, kProduct[1] - 1, 0.125f * kProduct[2] + 1,
                        kProduct[3] - 1};
  OnnxBuilder b = product(false);
  contrib(b, "MatMulIntegerToFloat", {"a", "w", "as", "ws", "az", "wz", "bias"}, {"y"});
  expect_near(values(b, {a_codes()}), expected);
  // The range of a, -20 to 10, gives the scale 30 / 255 and the zero point 170.
  b = product(true);
  contrib(b, "DynamicQuantizeMatMul", {"a", "w", "ws", "wz", "bias"}, {"y"});
  const float step = 30.0f / 255;
  Floats rounded;
  for (const float a : kA) rounded.push_back(std::nearbyint(a / step) * step);
  Floats dynamic;
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t column = 0; column < 2; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < 3; ++k) sum += rounded[row * 3 + k] * (kB[k * 2 + column] - 1);
      dynamic.push_back(column == 0 ? 0.25f * sum + 1 : 2 * sum - 1);
    }
  expect_near(values(b, {reference::f32_tensor({2, 3}, kA)}), dynamic, 1e-4f);
}

TEST(ContribEncoder, GemmOfCodesHasABiasOfCodes) {
  OnnxBuilder b = product(false);
  b.raw("c", TensorProto::INT32, {2}, std::string("\4\0\0\0\xfe\xff\xff\xff", 8));  // 4, -2
  contrib(b, "QGemm", {"a", "as", "az", "w", "ws", "wz", "c"}, {"y"}, {{"alpha", 2.0f}});
  expect_near(values(b, {a_codes()}), {2 * 0.125f * (kProduct[0] + 4), 2 * (kProduct[1] - 2),
                                       2 * 0.125f * (kProduct[2] + 4), 2 * (kProduct[3] - 2)});
  // The rows of the turned matrix have scales.
  b = builder();
  b.input("a", TensorProto::UINT8, {std::int64_t{2}, std::int64_t{3}});
  b.raw("w", TensorProto::INT8, {2, 3}, bytes({3, 0, 1, -2, 5, -7}));
  b.raw("az", TensorProto::UINT8, {}, "\x64");
  b.raw("wz", TensorProto::INT8, {2}, "\1\1");
  b.floats("ws", {2}, Floats{0.25f, 2});
  b.raw("yz", TensorProto::UINT8, {}, "\x80");
  contrib(b, "QGemm", {"a", b.scalar(0.5f), "az", "w", "ws", "wz", "", b.scalar(1), "yz"}, {"y"},
          {{"transB", std::int64_t{1}}});
  expect_near(values(b, {a_codes()}),
              {128 - 1, 128 - 60, 128 - 1, 255});  // -1.25, -60, -0.875, 188
}

TEST(ContribEncoder, ScalesThatDoNotFitAndFloatsAreNoCodes) {
  const auto message = [](std::int64_t scales, int element) {
    OnnxBuilder b = builder();
    b.input("a", element, {std::int64_t{2}, std::int64_t{3}});
    b.raw("w", TensorProto::INT8, {3, 2}, bytes({3, 0, 1, -2, 5, -7}));
    b.floats("ws", {scales}, Floats(static_cast<std::size_t>(scales), 0.5f));
    b.raw("wz", TensorProto::INT8, {2}, "\1\1");
    b.raw("az", TensorProto::UINT8, {}, "\x64");
    contrib(b, "QGemm", {"a", b.scalar(0.5f), "az", "w", "ws", "wz"}, {"y"});
    const auto imported = import(b);
    return imported.ok() ? std::string() : errors(imported.error());
  };
  EXPECT_EQ(message(2, TensorProto::UINT8), "");
  for (const std::int64_t scales : {0, 3})
    EXPECT_THAT(message(scales, TensorProto::UINT8),
                ::testing::HasSubstr("neither 1 nor that of the columns"));
  EXPECT_THAT(message(2, TensorProto::FLOAT), ::testing::HasSubstr("its codes have type f32"));
}

TEST(ContribEncoder, OperatorsOnCodesRoundTheirResult) {
  // a = {-2, 1, 5, 0, 3.5, -10}; results have the scale 0.25 and the zero point 120.
  const auto run = [](const std::string& op, const Strings& operands,
                      const std::vector<Attribute>& attributes = {}) {
    OnnxBuilder b = product(false);
    b.raw("d", TensorProto::UINT8, {3}, "\2\4\6");  // 0.5, 1, 1.5
    b.raw("dz", TensorProto::UINT8, {}, std::string(1, '\0'));
    b.floats("ds", {}, Floats{0.25f});
    b.raw("yz", TensorProto::UINT8, {}, "\x78");
    b.floats("ys", {}, Floats{0.25f});
    b.raw("t", TensorProto::BOOL, {3}, std::string("\1\0\1", 3));
    contrib(b, op, operands, {"y"}, attributes);
    Floats y = values(b, {a_codes()});
    for (float& v : y) v = (v - 120) * 0.25f;
    return y;
  };
  const Strings unary{"a", "as", "az", "ys", "yz"};
  const Strings binary{"a", "as", "az", "d", "ds", "dz", "ys", "yz"};
  expect_near(run("QLinearAdd", binary), {-1.5f, 2, 6.5f, 0.5f, 4.5f, -8.5f});
  expect_near(run("QLinearMul", binary), {-1, 1, 7.5f, 0, 3.5f, -15});
  expect_near(run("QLinearSigmoid", unary), {0, 0.75f, 1, 0.5f, 1, 0});
  expect_near(run("QLinearLeakyRelu", unary, {{"alpha", 0.125f}}), {-0.25f, 1, 5, 0, 3.5f, -1.25f});
  expect_near(run("QLinearConcat", {"ys", "yz", "a", "as", "az", "a", "as", "az"},
                  {{"axis", std::int64_t{0}}}),
              {-2, 1, 5, 0, 3.5f, -10, -2, 1, 5, 0, 3.5f, -10});
  expect_near(run("QLinearWhere", {"t", "a", "as", "az", "d", "ds", "dz", "ys", "yz"}),
              {-2, 1, 5, 0, 1, -10});
  const Attribute rows{"opset", std::int64_t{13}}, all{"opset", std::int64_t{12}};
  expect_near(run("QLinearSoftmax", unary, {rows}), {0, 0, 1, 0, 1, 0});
  const Attribute first{"axis", std::int64_t{0}};
  expect_near(run("QLinearSoftmax", unary, {all, first}), {0, 0, 0.75f, 0, 0.25f, 0});
}

}  // namespace
}  // namespace llmc::contrib_encoder
