// MoE and QMoE of com.microsoft against plain loops over tokens, experts and elements.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/half.h"
#include "tests/onnx/imported.h"

namespace llmc {
namespace {

using onnx::TensorProto;
using testing::Attribute;
using testing::OnnxBuilder;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;

constexpr std::size_t kTokens = 5, kExperts = 4, kHidden = 16, kInner = 8, kChosen = 2;

float value_at(std::size_t i, std::size_t seed) {
  return static_cast<float>(((i * 2654435761u + seed * 40503u) >> 9) % 2001) / 1000 - 1;
}
Floats values(std::size_t count, std::size_t seed) {
  Floats out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = value_at(i, seed);
  return out;
}

/// Weights of one product: [experts, rows, columns] and a bias [experts, rows], which may be empty.
struct Weights {
  std::size_t rows, columns;
  Floats matrix, bias = {};
};

Weights weights(std::size_t rows, std::size_t columns, std::size_t seed, bool bias = false) {
  return {rows, columns, values(kExperts * rows * columns, seed),
          bias ? values(kExperts * rows, seed + 1) : Floats()};
}

Floats times(const Weights& w, std::size_t expert, const Floats& x) {
  Floats y(w.rows);
  for (std::size_t r = 0; r < w.rows; ++r) {
    double sum = w.bias.empty() ? 0 : w.bias[expert * w.rows + r];
    for (std::size_t c = 0; c < w.columns; ++c)
      sum += static_cast<double>(w.matrix[(expert * w.rows + r) * w.columns + c]) * x[c];
    y[r] = static_cast<float>(sum);
  }
  return y;
}

/// A function of the first and, where there is one, the third product.
using Activation = std::function<Floats(const Floats&, const Floats&)>;

float swish(float x, float alpha = 1) {
  return x / (1 + std::exp(-alpha * x));
}

Floats layer(const Floats& x, const Floats& logits, const Weights& first, const Weights& second,
             const Weights* third, bool normalize, const Activation& activation) {
  Floats out(kTokens * kHidden);
  for (std::size_t t = 0; t < kTokens; ++t) {
    const Floats row(x.begin() + t * kHidden, x.begin() + (t + 1) * kHidden);
    std::vector<double> p(kExperts);
    double all = 0, chosen = 0;
    for (std::size_t e = 0; e < kExperts; ++e) all += p[e] = std::exp(logits[t * kExperts + e]);
    std::vector<std::size_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    for (std::size_t i = 0; i < kChosen; ++i) chosen += p[order[i]];
    for (std::size_t i = 0; i < kChosen; ++i) {
      const std::size_t e = order[i];
      const Floats h = activation(times(first, e, row), third ? times(*third, e, row) : Floats());
      const Floats y = times(second, e, h);
      for (std::size_t d = 0; d < kHidden; ++d)
        out[t * kHidden + d] += static_cast<float>(p[e] / (normalize ? chosen : all) * y[d]);
    }
  }
  return out;
}

const Floats kRows = values(kTokens * kHidden, 1), kRouterLogits = values(kTokens * kExperts, 2);

OnnxBuilder graph() {
  OnnxBuilder b(17);
  auto& set = *b.model.add_opset_import();
  set.set_domain("com.microsoft");
  set.set_version(1);
  b.float_input("x", {std::int64_t{1}, std::int64_t{kTokens}, std::int64_t{kHidden}});
  b.float_input("router", {std::int64_t{kTokens}, std::int64_t{kExperts}});
  b.float_output("y", {});
  return b;
}

void add_node(OnnxBuilder& b, const std::string& op, const Strings& operands,
              std::vector<Attribute> attributes) {
  attributes.push_back({"k", std::int64_t{kChosen}});
  b.raw_node(op, operands, {"y"}, attributes).set_domain("com.microsoft");
}

void add(OnnxBuilder& b, const std::string& name, const Weights& w, bool columns_first = false) {
  std::vector<std::int64_t> dims{kExperts, static_cast<std::int64_t>(w.rows),
                                 static_cast<std::int64_t>(w.columns)};
  Floats matrix = w.matrix;
  if (columns_first) {
    std::swap(dims[1], dims[2]);
    for (std::size_t e = 0; e < kExperts; ++e)
      for (std::size_t r = 0; r < w.rows; ++r)
        for (std::size_t c = 0; c < w.columns; ++c)
          matrix[(e * w.columns + c) * w.rows + r] = w.matrix[(e * w.rows + r) * w.columns + c];
  }
  b.floats(name, dims, matrix);
  if (!w.bias.empty()) b.floats(name + "b", {kExperts, dims[columns_first ? 2 : 1]}, w.bias);
}

void expect_result(const OnnxBuilder& b, const Floats& want) {
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const std::vector<reference::Tensor> inputs{
      reference::f32_tensor({1, kTokens, kHidden}, kRows),
      reference::f32_tensor({kTokens, kExperts}, kRouterLogits)};
  const auto got = reference::evaluate(model->graph(), inputs);
  ASSERT_TRUE(got.ok()) << errors(got.error());
  ASSERT_EQ(got->front().dims, (std::vector<std::int64_t>{1, kTokens, kHidden}));
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got->front().floats[i], want[i], 2e-5f * (1 + std::abs(want[i]))) << i;
}

Floats gated_silu(const Floats& gate, const Floats& up) {
  Floats h(gate.size());
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = swish(gate[i]) * up[i];
  return h;
}

TEST(MoE, GatedByAThirdProduct) {
  const Weights first = weights(kInner, kHidden, 3), second = weights(kHidden, kInner, 4),
                third = weights(kInner, kHidden, 5);
  for (const bool columns_first : {false, true}) {  // before onnxruntime 1.22
    OnnxBuilder b = graph();
    add(b, "w1", first, columns_first);
    add(b, "w2", second, columns_first);
    add(b, "w3", third, columns_first);
    add_node(
        b, "MoE", {"x", "router", "w1", "", "w2", "", "w3"},
        {{"activation_type", std::string("silu")}, {"normalize_routing_weights", std::int64_t{1}}});
    expect_result(b, layer(kRows, kRouterLogits, first, second, &third, true, gated_silu));
  }
}

TEST(MoE, ActivationsOfOneProduct) {
  const Weights first = weights(kInner, kHidden, 3, true),
                second = weights(kHidden, kInner, 4, true);
  const std::pair<std::string, float (*)(float)> kinds[] = {
      {"relu", [](float x) { return std::max(x, 0.0f); }},
      {"silu", [](float x) { return swish(x); }},
      {"gelu",
       [](float x) {
         return 0.5f * x * (1 + std::tanh(0.7978846f * (x + 0.044715f * x * x * x)));
       }},
      {"identity", [](float x) { return x; }}};
  for (const auto& [name, function] : kinds) {
    SCOPED_TRACE(name);
    OnnxBuilder b = graph();
    add(b, "w1", first);
    add(b, "w2", second);
    add_node(b, "MoE", {"x", "router", "w1", "w1b", "w2", "w2b"}, {{"activation_type", name}});
    expect_result(
        b, layer(kRows, kRouterLogits, first, second, nullptr, false, [&](Floats h, const Floats&) {
          for (float& x : h) x = function(x);
          return h;
        }));
  }
}

TEST(MoE, SwigluOfOneMatrix) {
  const Weights first = weights(2 * kInner, kHidden, 3, true),
                second = weights(kHidden, kInner, 4, true);
  for (const std::int64_t fusion : {1, 2}) {
    OnnxBuilder b = graph();
    add(b, "w1", first);
    add(b, "w2", second);
    add_node(b, "MoE", {"x", "router", "w1", "w1b", "w2", "w2b"},
             {{"activation_type", std::string("swiglu")},
              {"activation_alpha", 1.702f},
              {"activation_beta", 1.0f},
              {"swiglu_limit", 0.75f},
              {"swiglu_fusion", fusion}});
    expect_result(b, layer(kRows, kRouterLogits, first, second, nullptr, false,
                           [&](const Floats& all, const Floats&) {
                             Floats h(kInner);
                             for (std::size_t i = 0; i < kInner; ++i) {
                               const float gate = fusion == 1 ? all[2 * i] : all[i];
                               const float up = fusion == 1 ? all[2 * i + 1] : all[kInner + i];
                               h[i] = swish(std::min(gate, 0.75f), 1.702f) *
                                      (std::clamp(up, -0.75f, 0.75f) + 1);
                             }
                             return h;
                           }));
  }
}

/// Adds random codes with scales for blocks of columns, and returns their values. `block` 0:
/// one scale for each row, of rank 2.
Weights add_quantized(OnnxBuilder& b, const std::string& name, int bits, std::size_t rows,
                      std::size_t columns, std::size_t block, bool zeros, std::size_t seed) {
  Weights w{rows, columns, Floats(kExperts * rows * columns)};
  const std::size_t width = block > 0 ? block : columns, blocks = columns / width;
  const std::size_t per_byte = bits == 4 ? 2 : 1, zero_bytes = (blocks + per_byte - 1) / per_byte;
  std::string codes(kExperts * rows * columns / per_byte, '\0');
  std::string zero_codes(kExperts * rows * zero_bytes, '\0');
  const auto store = [&](std::string& to, std::size_t i, unsigned code) {
    char& byte = to[i / per_byte];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | code << (i % per_byte * 4));
  };
  const Floats scales = values(kExperts * rows * blocks, seed);
  for (std::size_t row = 0; row < kExperts * rows; ++row) {
    for (std::size_t k = 0; k < blocks && zeros; ++k)
      store(zero_codes, row * zero_bytes * per_byte + k, static_cast<unsigned>((row + k) % 13));
    for (std::size_t c = 0; c < columns; ++c) {
      const auto code =
          static_cast<unsigned>((row * columns + c) * 2654435761u >> 11) % (1u << bits);
      store(codes, row * columns + c, code);
      const int zero = zeros ? static_cast<int>((row + c / width) % 13) : 1 << (bits - 1);
      w.matrix[row * columns + c] =
          scales[row * blocks + c / width] * static_cast<float>(static_cast<int>(code) - zero);
    }
  }
  const auto dim = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  b.raw(name, TensorProto::UINT8, {kExperts, dim(rows), dim(columns / per_byte)}, codes);
  std::vector<std::int64_t> dims{kExperts, dim(rows), dim(blocks)};
  if (block == 0) dims.pop_back();
  b.floats(name + "s", dims, scales);
  if (zeros)
    b.raw(name + "z", TensorProto::UINT8, {kExperts, dim(rows), dim(zero_bytes)}, zero_codes);
  return w;
}

TEST(QMoE, CodesOfRowsAndOfBlocks) {
  struct Form {
    std::int64_t bits;
    std::size_t block;
    bool zeros;
  };
  for (const Form& form : {Form{4, 0, false}, Form{8, 0, false}, Form{4, 4, false},
                           Form{8, 4, true}, Form{4, 4, true}}) {
    SCOPED_TRACE(std::to_string(form.bits) + " bits, block " + std::to_string(form.block));
    OnnxBuilder b = graph();
    const auto matrix = [&](const char* name, std::size_t rows, std::size_t columns,
                            std::size_t seed) {
      return add_quantized(b, name, static_cast<int>(form.bits), rows, columns, form.block,
                           form.zeros, seed);
    };
    const Weights first = matrix("w1", kInner, kHidden, 3),
                  second = matrix("w2", kHidden, kInner, 4),
                  third = matrix("w3", kInner, kHidden, 5);
    Strings operands{"x", "router", "w1", "w1s", "", "w2", "w2s", "", "w3", "w3s"};
    if (form.zeros) operands.insert(operands.end(), {"", "w1z", "w2z", "w3z"});
    std::vector<Attribute> attributes{{"activation_type", std::string("silu")},
                                      {"expert_weight_bits", form.bits},
                                      {"normalize_routing_weights", std::int64_t{1}}};
    if (form.block > 0) attributes.push_back({"block_size", static_cast<std::int64_t>(form.block)});
    add_node(b, "QMoE", operands, attributes);
    expect_result(b, layer(kRows, kRouterLogits, first, second, &third, true, gated_silu));
  }
}

/// Imports a QMoE whose attributes replace the usual ones, and returns what is wrong.
std::string refusal(const std::vector<Attribute>& attributes,
                    const Strings& operands = {"x", "router", "w1", "w1s", "", "w2", "w2s"}) {
  OnnxBuilder b = graph();
  add_quantized(b, "w1", 4, kInner, kHidden, 0, false, 3);
  add_quantized(b, "w2", 4, kHidden, kInner, 0, false, 4);
  b.raw_node("QMoE", operands, {"y"}, attributes).set_domain("com.microsoft");
  const auto model = import(b);
  return model.ok() ? "" : errors(model.error());
}

TEST(QMoE, RefusesWhatItCannotMean) {
  const auto number = [](const char* name, std::int64_t value) {
    return std::vector<Attribute>{{name, value}};
  };
  EXPECT_EQ(refusal({}), "");
  const std::pair<std::string, const char*> cases[] = {
      {refusal(number("k", 5)), "k is 5 with 4 experts"},
      {refusal(number("k", 0)), "k is 0 with 4 experts"},
      {refusal(number("expert_weight_bits", 2)), "2-bit weights are not supported"},
      {refusal(number("expert_weight_bits", 8)), "do not fit each other"},
      {refusal(number("block_size", 4)), "scales of 32 elements"},
      {refusal(number("block_size", -4)), "block_size must be positive"},
      {refusal(number("use_sparse_mixer", 1)), "use_sparse_mixer is not supported"},
      {refusal({{"activation_type", std::string("tanh")}}), "'tanh' is not supported"},
      {refusal({{"activation_type", std::string("swiglu")}}), "swiglu_fusion = 0"},
      {refusal({}, {"x", "router", "w2", "w2s", "", "w1", "w1s"}), "do not fit each other"},
      {refusal({}, {"x", "router", "x", "w1s", "", "w2", "w2s"}), "not constant"},
      {refusal({}, {"x", "router", "w1s", "w1s", "", "w2", "w2s"}), "is not [experts, rows"},
      {refusal({}, {"x", "router", "w1", "w1s", "w2s", "w2", "w2s"}), "the bias w2s is not [4, 8]"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(text.find(expected), text.npos) << expected << " in: " << text;
}

}  // namespace
}  // namespace llmc
