// Weights of quantized models: their values, and that their codes stay visible.

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/half.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using onnx::TensorProto;
using reference::Tensor;
using testing::OnnxBuilder;

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

constexpr int kUint4 = 21, kInt4 = 22;

/// Small numbers in a fixed, unordered sequence.
int code_at(std::size_t i, int range) {
  return static_cast<int>((i * 2654435761u >> 7) % static_cast<std::size_t>(range));
}

/// Codes of `bits` each, packed low bits first; every `row` codes start a new byte (0: never).
std::string pack(const std::vector<int>& codes, int bits, std::size_t row = 0) {
  std::string out;
  bool half = false;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (row > 0 && i % row == 0) half = false;
    if (bits == 8) {
      out.push_back(static_cast<char>(codes[i]));
    } else if (half) {
      out.back() = static_cast<char>(out.back() | (codes[i] & 15) << 4);
    } else {
      out.push_back(static_cast<char>(codes[i] & 15));
    }
    half = bits == 4 && !half;
  }
  return out;
}

struct Output {
  Ints dims;
  Floats values;
  std::optional<ir::Quantization> quantization;  // of the only matrix of f32 among the constants
};

/// Runs the only graph there is; "x" is the identity matrix of `size` when it is an input.
Output run(const OnnxBuilder& b, std::int64_t size) {
  const auto model = import(b);
  if (!model.ok()) {
    ADD_FAILURE() << errors(model.error());
    return {};
  }
  Floats eye(static_cast<std::size_t>(size * size));
  for (std::int64_t i = 0; i < size; ++i) eye[static_cast<std::size_t>(i * (size + 1))] = 1;
  std::vector<Tensor> inputs;
  if (!model->graph().inputs().empty())
    inputs.push_back(reference::to_tensor(*ir::make_f32({size, size}, eye)));
  const auto result = reference::evaluate(model->graph(), inputs);
  if (!result.ok()) {
    ADD_FAILURE() << errors(result.error());
    return {};
  }
  Output out;
  out.dims = result->at(0).dims;
  for (const auto v : result->at(0).floats) out.values.push_back(static_cast<float>(v));
  for (const auto& node : model->graph().nodes())
    if (const auto* c = ir::op_as<ir::ConstantOp>(&node))
      if (auto q = c->data->quantization()) out.quantization = q;
  return out;
}

struct NBits {
  std::int64_t n, k, block;
  int bits;
  enum class Zero { kNone, kPacked, kFloat } zero;
  bool flat;  // scales and zero points in one dim
  bool f16;   // scales (and float zero points)
};

void PrintTo(const NBits& c, std::ostream* out) {
  *out << c.n << "x" << c.k << " block " << c.block << ", " << c.bits << " bits, zero points "
       << static_cast<int>(c.zero) << (c.flat ? ", flat" : "") << (c.f16 ? ", f16" : "");
}

class MatMulNBits : public ::testing::TestWithParam<NBits> {};

TEST_P(MatMulNBits, IsTheDequantizedProduct) {
  const NBits& c = GetParam();
  const int range = 1 << c.bits;
  const std::int64_t blocks = (c.k + c.block - 1) / c.block;
  std::vector<int> codes, zeros;
  for (std::int64_t i = 0; i < c.n * blocks * c.block; ++i)
    codes.push_back(code_at(static_cast<std::size_t>(i), range));
  Floats scales, points;
  const int type = c.f16 ? TensorProto::FLOAT16 : TensorProto::FLOAT;
  for (std::int64_t i = 0; i < c.n * blocks; ++i) {
    const auto u = static_cast<std::size_t>(i);
    scales.push_back(
        testing::round_to((i % 3 == 0 ? -0.1f : 0.3f) / static_cast<float>(i + 1), type));
    zeros.push_back(code_at(u + 7, range));
    points.push_back(testing::round_to(static_cast<float>(code_at(u, 10)) + 0.1f, type));
  }
  OnnxBuilder b(21);
  auto& opset = *b.model.add_opset_import();
  opset.set_domain("com.microsoft");
  opset.set_version(1);
  b.float_input("x", {c.k, c.k});
  b.raw("B", TensorProto::UINT8, {c.n, blocks, c.block * c.bits / 8}, pack(codes, c.bits));
  const Ints dims = c.flat ? Ints{c.n * blocks} : Ints{c.n, blocks};
  b.raw("s", type, dims, testing::encode_floats(scales, type));
  std::vector<std::string> inputs{"x", "B", "s"};
  if (c.zero == NBits::Zero::kPacked) {
    const auto bytes = pack(zeros, c.bits, static_cast<std::size_t>(blocks));
    const auto count = static_cast<std::int64_t>(bytes.size());
    b.raw("z", TensorProto::UINT8, c.flat ? Ints{count} : Ints{c.n, count / c.n}, bytes);
    inputs.push_back("z");
  } else if (c.zero == NBits::Zero::kFloat) {
    b.raw("z", type, dims, testing::encode_floats(points, type));
    inputs.push_back("z");
  }
  auto& node = b.raw_node("MatMulNBits", inputs, {"y"},
                          {{"K", c.k},
                           {"N", c.n},
                           {"bits", std::int64_t{c.bits}},
                           {"block_size", c.block},
                           {"accuracy_level", std::int64_t{4}}});
  node.set_domain("com.microsoft");
  b.float_output("y", {});
  const Output out = run(b, c.k);
  ASSERT_EQ(out.dims, (Ints{c.k, c.n}));
  for (std::int64_t r = 0; r < c.n; ++r)
    for (std::int64_t k = 0; k < c.k; ++k) {
      const auto p = static_cast<std::size_t>(r * blocks + k / c.block);
      const float zero = c.zero == NBits::Zero::kNone     ? static_cast<float>(range / 2)
                         : c.zero == NBits::Zero::kPacked ? static_cast<float>(zeros[p])
                                                          : points[p];
      const auto code = codes[static_cast<std::size_t>(r * blocks * c.block + k)];
      ASSERT_EQ(out.values[static_cast<std::size_t>(k * c.n + r)],
                (static_cast<float>(code) - zero) * scales[p])
          << r << ", " << k;
    }
  ASSERT_TRUE(out.quantization);
}

INSTANTIATE_TEST_SUITE_P(Forms, MatMulNBits,
                         ::testing::Values(NBits{3, 64, 32, 4, NBits::Zero::kNone, true, false},
                                           NBits{3, 64, 32, 4, NBits::Zero::kPacked, true, false},
                                           NBits{5, 40, 16, 4, NBits::Zero::kPacked, false, true},
                                           NBits{2, 100, 32, 4, NBits::Zero::kPacked, true, false},
                                           NBits{2, 33, 64, 4, NBits::Zero::kFloat, false, false},
                                           NBits{4, 48, 16, 4, NBits::Zero::kFloat, true, true},
                                           NBits{3, 40, 128, 8, NBits::Zero::kNone, true, false},
                                           NBits{3, 70, 32, 8, NBits::Zero::kPacked, false, false},
                                           NBits{1, 16, 16, 8, NBits::Zero::kFloat, true, false}));

/// A weight [2, 6] or [6, 2] through DequantizeLinear in its granularities; the graph's output.
struct Dequantize {
  std::string name;
  int type;
  Ints dims, scale_dims;
  std::int64_t axis, block;
  bool zeros;
  std::int64_t stays;  // block of the matrix turned so that rows are outputs; -1: no matrix
};
void PrintTo(const Dequantize& c, std::ostream* out) {
  *out << c.name;
}

class DequantizeLinear : public ::testing::TestWithParam<Dequantize> {};

TEST_P(DequantizeLinear, SubtractsAndScales) {
  const Dequantize& c = GetParam();
  const int bits = c.type == kUint4 || c.type == kInt4 ? 4 : 8;
  const bool is_signed = c.type == kInt4 || c.type == TensorProto::INT8;
  const int low = is_signed ? -(1 << (bits - 1)) : 0;
  std::size_t count = 1, parameters = 1;
  for (const auto d : c.dims) count *= static_cast<std::size_t>(d);
  for (const auto d : c.scale_dims) parameters *= static_cast<std::size_t>(d);
  std::vector<int> codes, zeros;
  for (std::size_t i = 0; i < count; ++i) codes.push_back(low + code_at(i, 1 << bits));
  Floats scales;
  for (std::size_t i = 0; i < parameters; ++i) {
    zeros.push_back(low + code_at(i + 3, 1 << bits));
    scales.push_back(0.1f * static_cast<float>(i + 1));
  }
  OnnxBuilder b(c.block > 0 || bits == 4 ? 21 : 13);
  b.raw("q", c.type, c.dims, pack(codes, bits));
  b.raw("s", TensorProto::FLOAT, c.scale_dims, testing::encode_floats(scales, TensorProto::FLOAT));
  std::vector<std::string> inputs{"q", "s"};
  if (c.zeros) {
    b.raw("z", c.type, c.scale_dims, pack(zeros, bits));
    inputs.push_back("z");
  }
  std::vector<testing::Attribute> attributes;
  if (c.axis != 1) attributes.push_back({"axis", c.axis});
  if (c.block > 0) attributes.push_back({"block_size", c.block});
  b.node("DequantizeLinear", inputs, attributes, "y");
  b.float_output("y", {});
  const Output out = run(b, 0);
  ASSERT_EQ(out.dims, c.dims);
  const std::int64_t axis = c.axis < 0 ? c.axis + static_cast<std::int64_t>(c.dims.size()) : c.axis;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t p = 0;
    if (parameters > 1) {
      std::size_t rest = i;
      Ints index(c.dims.size());
      for (std::size_t d = c.dims.size(); d-- > 0;) {
        index[d] = static_cast<std::int64_t>(rest % static_cast<std::size_t>(c.dims[d]));
        rest /= static_cast<std::size_t>(c.dims[d]);
      }
      if (c.block > 0) {
        for (std::size_t d = 0; d < index.size(); ++d)
          p = p * static_cast<std::size_t>(c.scale_dims[d]) +
              static_cast<std::size_t>(static_cast<std::int64_t>(d) == axis ? index[d] / c.block
                                                                            : index[d]);
      } else {
        p = static_cast<std::size_t>(index[static_cast<std::size_t>(axis)]);
      }
    }
    const float zero = c.zeros ? static_cast<float>(zeros[p]) : 0.0f;
    EXPECT_EQ(out.values[i], (static_cast<float>(codes[i]) - zero) * scales[p]) << i;
  }
  EXPECT_EQ(out.quantization.has_value(), c.stays >= 0);
  if (out.quantization) {
    EXPECT_EQ(out.quantization->high - out.quantization->low, (1 << bits) - 1);
    EXPECT_EQ(out.quantization->block, c.stays);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, DequantizeLinear,
    ::testing::Values(
        Dequantize{"per tensor", TensorProto::INT8, {2, 6}, {}, 1, 0, true, 0},
        Dequantize{"per tensor, one element", TensorProto::UINT8, {2, 6}, {1}, 1, 0, true, 0},
        Dequantize{"per column", TensorProto::INT8, {2, 6}, {6}, 1, 0, false, 1},
        Dequantize{"per row", TensorProto::UINT8, {2, 6}, {2}, 0, 0, true, 0},
        Dequantize{"odd rows of nibbles", kInt4, {3, 5}, {3}, 0, 0, true, 0},
        Dequantize{"blocks along rows", kUint4, {2, 6}, {2, 3}, -1, 2, true, 2},
        Dequantize{"blocks along rows, last one short", kInt4, {2, 7}, {2, 2}, 1, 4, true, 4},
        Dequantize{"blocks along columns", kUint4, {6, 2}, {2, 2}, 0, 3, true, 1},
        Dequantize{"blocks of bytes", TensorProto::INT8, {2, 6}, {2, 2}, 1, 3, false, 3},
        Dequantize{"three dims", TensorProto::UINT8, {2, 2, 3}, {2}, 1, 0, true, -1},
        Dequantize{"blocks in three dims", TensorProto::INT8, {2, 2, 4}, {2, 2, 2}, 2, 2, true, -1},
        Dequantize{"a vector", TensorProto::INT8, {5}, {}, 1, 0, true, -1}));

TEST(Quantized, RowsOfAQuantizedTableComeFromTheTable) {
  OnnxBuilder b(18);
  b.raw("q", TensorProto::UINT8, {3, 2}, pack({1, 2, 3, 4, 255, 6}, 8));
  b.raw("s", TensorProto::FLOAT, {}, testing::encode_floats(Floats{0.5f}, TensorProto::FLOAT));
  b.raw("z", TensorProto::UINT8, {}, pack({2}, 8));
  const auto rows = b.node("Gather", {"q", b.integers({2, 0})});
  b.node("DequantizeLinear", {rows, "s", "z"}, {}, "y");
  b.float_output("y", {});
  const Output out = run(b, 0);
  EXPECT_EQ(out.values, (Floats{126.5f, 2, -0.5f, 0}));
  EXPECT_TRUE(out.quantization);
}

TEST(Quantized, GatherBlockQuantizedInItsTwoForms) {
  for (const bool bytes : {false, true}) {
    OnnxBuilder b(21);
    auto& opset = *b.model.add_opset_import();
    opset.set_domain("com.microsoft");
    opset.set_version(1);
    std::vector<int> codes, zeros{3, 1, 15};
    for (std::size_t i = 0; i < 3 * 16; ++i) codes.push_back(code_at(i, 16));
    if (bytes) {
      b.raw("q", TensorProto::UINT8, {3, 8}, pack(codes, 4));
    } else {
      b.raw("q", kUint4, {3, 16}, pack(codes, 4));
      b.raw("z", kUint4, {3, 1}, pack(zeros, 4));
    }
    const Floats scales{0.1f, 0.2f, -0.3f};
    b.raw("s", TensorProto::FLOAT, {3, 1}, testing::encode_floats(scales, TensorProto::FLOAT));
    std::vector<std::string> inputs{"q", b.integers({2, 1}), "s"};
    if (!bytes) inputs.push_back("z");
    auto& node =
        b.raw_node("GatherBlockQuantized", inputs, {"y"},
                   {{"block_size", std::int64_t{16}}, {"quantize_axis", std::int64_t{-1}}});
    node.set_domain("com.microsoft");
    b.float_output("y", {});
    const Output out = run(b, 0);
    ASSERT_EQ(out.dims, (Ints{2, 16}));
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t row = i < 16 ? 2 : 1;
      const float zero = bytes ? 8 : static_cast<float>(zeros[row]);
      EXPECT_EQ(out.values[i], (static_cast<float>(codes[row * 16 + i % 16]) - zero) * scales[row]);
    }
    EXPECT_TRUE(out.quantization);
  }
}

TEST(Quantized, GatherBlockQuantizedSelectsMatrices) {
  for (const bool along_rows : {false, true})
    for (const std::int64_t index : {1, -1, 2, 0}) {  // 0: the second one, chosen at run time
      OnnxBuilder b(21);
      auto& opset = *b.model.add_opset_import();
      opset.set_domain("com.microsoft");
      opset.set_version(1);
      std::vector<int> codes;
      for (std::size_t i = 0; i < 2 * 32 * 16; ++i) codes.push_back(code_at(i, 16));
      const Ints scale_dims = along_rows ? Ints{2, 2, 16} : Ints{2, 32, 1};
      Floats scales;
      std::vector<int> zeros;
      for (int i = 0; i < 64; ++i) {
        scales.push_back(0.1f * static_cast<float>(i % 7 + 1));
        zeros.push_back(i % 15);
      }
      b.raw("q", kUint4, {2, 32, 16}, pack(codes, 4));
      b.raw("z", kUint4, scale_dims, pack(zeros, 4));
      b.raw("s", TensorProto::FLOAT, scale_dims,
            testing::encode_floats(scales, TensorProto::FLOAT));
      std::string chosen = b.integer(index);
      if (index == 0) {
        b.float_input("x", {std::int64_t{1}, std::int64_t{1}});
        chosen = b.node("Cast", {b.reshape("x", {})}, {{"to", std::int64_t{TensorProto::INT64}}});
      }
      auto& node = b.raw_node(
          "GatherBlockQuantized", {"q", chosen, "s", "z"}, {"y"},
          {{"block_size", std::int64_t{16}}, {"quantize_axis", std::int64_t{along_rows ? 1 : 2}}});
      node.set_domain("com.microsoft");
      b.float_output("y", {});
      if (index == 2) {
        const auto model = import(b);
        ASSERT_FALSE(model.ok());
        EXPECT_NE(errors(model.error()).find("selects matrix 2 of 2"), std::string::npos);
        continue;
      }
      const Output out = run(b, index == 0 ? 1 : 0);
      ASSERT_EQ(out.dims, (Ints{32, 16}));
      for (std::size_t i = 0; i < 32 * 16; ++i) {
        const std::size_t row = i / 16, column = i % 16;
        const std::size_t at = 32 + (along_rows ? row / 16 * 16 + column : row);
        EXPECT_EQ(out.values[i], static_cast<float>(codes[32 * 16 + i] - zeros[at]) * scales[at]);
      }
      EXPECT_EQ(out.quantization.has_value(), index != 0);
    }
}

TEST(Quantized, QLinearMatMulMayHaveScalesOfRows) {
  const auto product = [](const Floats& a_scale, const Floats& y_scale) {
    OnnxBuilder b(21);
    const auto count = [](const Floats& scales) { return Ints{std::ssize(scales)}; };
    b.raw("a", TensorProto::UINT8, {2, 2}, pack({2, 4, 6, 8}, 8));
    b.raw("b", TensorProto::UINT8, {2, 2}, pack({1, 0, 0, 1}, 8));
    b.raw("one", TensorProto::FLOAT, {}, testing::encode_floats(Floats{1}, TensorProto::FLOAT));
    b.raw("zero", TensorProto::UINT8, {}, pack({0}, 8));
    b.floats("a_scale", count(a_scale), a_scale);
    b.floats("y_scale", count(y_scale), y_scale);
    const auto y =
        b.node("QLinearMatMul", {"a", "a_scale", "zero", "b", "one", "zero", "y_scale", "zero"});
    b.node("Cast", {y}, {{"to", std::int64_t{TensorProto::FLOAT}}}, "f");
    b.float_output("f", {});
    return b;
  };
  EXPECT_EQ(run(product({3, 5}, {1}), 0).values, (Floats{6, 12, 30, 40}));
  EXPECT_EQ(run(product({1}, {1, 2}), 0).values, (Floats{2, 4, 3, 4}));
  EXPECT_EQ(run(product({3, 5}, {2, 10}), 0).values, (Floats{3, 6, 3, 4}));
  const auto refused = import(product({1}, {1, 2, 3}));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(errors(refused.error()).find("result has 3 elements"), std::string::npos)
      << errors(refused.error());
  EXPECT_NE(refused.error().first().hint.find("each of the 2 rows"), std::string::npos);
}

TEST(Quantized, WhatCannotBeReadIsRefused) {
  const auto refusal = [](const std::vector<testing::Attribute>& attributes, std::size_t b_bytes,
                          bool g_idx) {
    OnnxBuilder b(21);
    auto& opset = *b.model.add_opset_import();
    opset.set_domain("com.microsoft");
    opset.set_version(1);
    b.float_input("x", {std::int64_t{1}, std::int64_t{32}});
    b.raw("B", TensorProto::UINT8, {static_cast<std::int64_t>(b_bytes)}, std::string(b_bytes, 'a'));
    b.floats("s", {2}, Floats{1, 2});
    std::vector<std::string> inputs{"x", "B", "s"};
    if (g_idx) inputs.insert(inputs.end(), {"", b.integers(Ints(32, 0))});
    b.raw_node("MatMulNBits", inputs, {"y"}, attributes).set_domain("com.microsoft");
    b.float_output("y", {});
    const auto model = import(b);
    return model.ok() ? std::string("accepted") : errors(model.error());
  };
  const auto attributes = [](std::int64_t bits, std::int64_t block) {
    return std::vector<testing::Attribute>{
        {"K", std::int64_t{32}}, {"N", std::int64_t{2}}, {"bits", bits}, {"block_size", block}};
  };
  EXPECT_EQ(refusal(attributes(4, 32), 32, false), "accepted");
  EXPECT_NE(refusal(attributes(4, 32), 32, true).find("g_idx"), std::string::npos);
  EXPECT_NE(refusal(attributes(2, 32), 16, false).find("2-bit"), std::string::npos);
  EXPECT_NE(refusal(attributes(4, 32), 31, false).find("are not 2 rows"), std::string::npos);
  EXPECT_NE(refusal(attributes(4, 16), 32, false).find("scales of 2 elements"), std::string::npos);
  EXPECT_NE(refusal(attributes(4, INT64_MAX), 32, false).find("are not"), std::string::npos);
  EXPECT_NE(refusal(attributes(4, 0), 32, false).find("positive"), std::string::npos);
}

}  // namespace
}  // namespace llmc
