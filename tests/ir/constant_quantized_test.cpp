#include <gtest/gtest.h>

#include <cstring>

#include "compiler/ir/constant.h"
#include "compiler/support/half.h"
#include "tests/ir/rows.h"

namespace llmc::ir {
namespace {

using Dims = std::vector<std::int64_t>;

ConstantPtr bytes_constant(std::vector<int> values) {
  std::vector<std::byte> bytes;
  for (const int v : values) bytes.push_back(static_cast<std::byte>(v & 0xff));
  const auto count = static_cast<std::int64_t>(bytes.size());
  return make_constant(ElementType::kU8, {count}, std::move(bytes));
}

TEST(PackedConstant, UnpacksNibblesLowFirst) {
  const auto source = bytes_constant({0x21, 0x43, 0xf8});
  const auto u = make_packed(source, {4, PackedCode::kUnsigned}, {6});
  EXPECT_EQ(u->element(), ElementType::kU8);
  EXPECT_EQ(u->element_bits(), 4);
  EXPECT_EQ(to_integers(*u).value(), (Dims{1, 2, 3, 4, 8, 15}));
  const auto i = make_packed(source, {4, PackedCode::kSigned}, {6});
  EXPECT_EQ(i->element(), ElementType::kI8);
  EXPECT_EQ(to_integers(*i).value(), (Dims{1, 2, 3, 4, -8, -1}));
  const auto o = make_packed(source, {4, PackedCode::kOffset}, {6});
  EXPECT_EQ(to_integers(*o).value(), (Dims{-7, -6, -5, -4, 0, 7}));
  // An odd width without padding: the second row starts in the middle of a byte.
  const auto flat = make_packed(source, {4, PackedCode::kUnsigned}, {2, 3});
  EXPECT_EQ(rows_of(*flat, 1, 1), (std::vector<float>{4, 8, 15}));
  // Rows padded to a byte.
  const auto padded = make_packed(source, {4, PackedCode::kUnsigned, 2}, {3, 1});
  EXPECT_EQ(to_integers(*padded).value(), (Dims{1, 3, 8}));
}

TEST(PackedConstant, ReadsBytesOfEitherSignAndCutsRows) {
  const auto source = bytes_constant({0, 127, 128, 255});
  EXPECT_EQ(to_integers(*make_packed(source, {8, PackedCode::kUnsigned}, {4})).value(),
            (Dims{0, 127, 128, 255}));
  EXPECT_EQ(to_integers(*make_packed(source, {8, PackedCode::kSigned}, {4})).value(),
            (Dims{0, 127, -128, -1}));
  EXPECT_EQ(to_integers(*make_packed(source, {8, PackedCode::kOffset}, {4})).value(),
            (Dims{-128, -1, 0, 127}));
  EXPECT_EQ(rows_of(*make_packed(source, {8, PackedCode::kUnsigned, 2}, {2, 1}), 0, 2),
            (std::vector<float>{0, 128}));
}

TEST(PackedConstant, SizesAreChecked) {
  EXPECT_EQ(packed_bytes({4, PackedCode::kUnsigned}, Dims{3, 3}), 5);
  EXPECT_EQ(packed_bytes({4, PackedCode::kUnsigned, 4}, Dims{3, 3}), 6);
  EXPECT_EQ(packed_bytes({8, PackedCode::kUnsigned, 4}, Dims{0, 3}), 0);
  EXPECT_EQ(packed_bytes({4, PackedCode::kUnsigned, 2}, Dims{3, 3}), std::nullopt);
  EXPECT_EQ(packed_bytes({3, PackedCode::kUnsigned}, Dims{3}), std::nullopt);
  EXPECT_EQ(packed_bytes({8, PackedCode::kUnsigned, INT64_MAX}, Dims{3, 3}), std::nullopt);
}

/// [rows, columns] codes i % 16, scales 1, 2, 3, … over 8, zero points 0, 1, 2, …
ConstantPtr sample(std::int64_t rows, std::int64_t columns, std::int64_t block, bool zeros) {
  std::vector<std::byte> codes(static_cast<std::size_t>((rows * columns + 1) / 2));
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::byte>((2 * i % 16) | ((2 * i + 1) % 16) << 4);
  const std::int64_t blocks = (columns + block - 1) / block;
  std::vector<float> scales(static_cast<std::size_t>(rows * blocks));
  std::vector<std::byte> points(scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<float>(i + 1) / 8;
    points[i] = static_cast<std::byte>(i % 16);
  }
  const auto count = static_cast<std::int64_t>(codes.size());
  QuantizedParts parts;
  parts.codes = make_packed(make_constant(ElementType::kU8, {count}, std::move(codes)),
                            {4, PackedCode::kUnsigned}, {rows, columns});
  parts.scales = make_f32({rows, blocks}, std::move(scales));
  if (zeros) parts.zero_points = make_constant(ElementType::kU8, {rows, blocks}, std::move(points));
  parts.column_block = block;
  return make_quantized(std::move(parts));
}

TEST(QuantizedConstant, IsCodesMinusZeroTimesScale) {
  const auto q = sample(2, 5, 2, true);
  EXPECT_EQ(q->element(), ElementType::kF32);
  // Row 1: codes 5 6 | 7 8 | 9, zero points 3 4 5, scales 4/8 5/8 6/8.
  EXPECT_EQ(rows_of(*q, 1, 1), (std::vector<float>{1, 1.5f, 1.875f, 2.5f, 3}));
  std::vector<float> part(4);
  q->read_block(0, 2, 1, 2, part);
  EXPECT_EQ(part, (std::vector<float>{0.125f, 0.25f, 1.5f, 1.875f}));
  EXPECT_EQ(to_floats(*q).size(), 10u);
  EXPECT_EQ(to_floats(*q)[5], 1.0f);
}

TEST(QuantizedConstant, SubtractsAndMultipliesInSingleSteps) {
  // 8 codes whose (q - zp) * s differs from q*s - zp*s.
  QuantizedParts parts;
  parts.codes = make_packed(bytes_constant({3}), {8, PackedCode::kUnsigned}, {1, 1});
  parts.scales = make_f32({1, 1}, {0.1f});
  parts.zero_points = make_f32({1, 1}, {0.3f});
  EXPECT_EQ(rows_of(*make_quantized(parts), 0, 1)[0], (3.0f - 0.3f) * 0.1f);
}

TEST(QuantizedConstant, BlocksOfRowsAndColumns) {
  // One scale for each column block of the whole matrix, as per tensor and per axis make them.
  QuantizedParts parts;
  parts.codes = make_packed(bytes_constant({1, 2, 3, 4, 5, 6}), {8, PackedCode::kSigned}, {3, 2});
  parts.scales = make_f32({1, 2}, {10, 100});
  parts.row_block = 3;
  const auto q = make_quantized(parts);
  EXPECT_EQ(to_floats(*q), (std::vector<float>{10, 200, 30, 400, 50, 600}));
  const auto turned = transposed(q);
  EXPECT_EQ(to_floats(*turned), (std::vector<float>{10, 30, 50, 200, 400, 600}));
  EXPECT_EQ(turned->quantization()->block, 0);
  EXPECT_EQ(q->quantization()->block, 1);
  EXPECT_EQ(transposed(turned), q);
}

TEST(QuantizedConstant, ViewsKeepTheParts) {
  const auto a = sample(3, 8, 4, true), b = sample(2, 8, 2, false);
  const auto view = reorder_rows(concat_rows({a, b}), {4, -1, 0, 1, 2});
  const auto q = view->quantization();
  ASSERT_TRUE(q);
  EXPECT_EQ(*q, (Quantization{0, 15, 2, Quantization::Zero::kInteger}));
  EXPECT_EQ(view->quantization(2, 5)->block, 4);  // rows of a alone
  EXPECT_EQ(view->quantization(0, 1)->zero, Quantization::Zero::kNone);
  std::vector<float> codes(40), scales(20), zeros(20);
  view->read_quantized(0, 5, 2, {codes, scales, zeros});
  std::vector<float> decoded;
  for (std::size_t i = 0; i < 40; ++i) {
    const std::size_t p = i / 8 * 4 + i % 8 / 2;
    decoded.push_back((codes[i] - zeros[p]) * scales[p]);
  }
  EXPECT_EQ(decoded, rows_of(*view, 0, 5));
  // A float matrix among them leaves nothing in common.
  EXPECT_FALSE(concat_rows({a, make_random({1, 8}, 1, 1)})->quantization());
  EXPECT_FALSE(make_random({4, 8}, 1, 1)->quantization());
}

TEST(QuantizedConstant, ScaledRowsMultiplyTheScales) {
  const auto q = sample(2, 4, 2, true);
  const auto twice = scaled_rows(q, std::vector<float>{2});
  const auto each = scaled_rows(q, std::vector<float>{2, -4});
  const auto before = to_floats(*q);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(to_floats(*twice)[i], 2 * before[i]);
    EXPECT_EQ(to_floats(*each)[i], (i < 4 ? 2.0f : -4.0f) * before[i]);
  }
  EXPECT_EQ(scaled_rows(make_random({2, 2}, 1, 1), std::vector<float>{2}), nullptr);
  // One scale for the tensor becomes one for each row.
  QuantizedParts parts = *quantized_parts(*q);
  parts.scales = make_f32({1, 1}, {1});
  parts.zero_points = make_constant(ElementType::kU8, {1, 1}, {std::byte{8}});
  parts.row_block = 2;
  parts.column_block = 4;
  const auto rows = scaled_rows(make_quantized(parts), std::vector<float>{3, 5});
  EXPECT_EQ(rows_of(*rows, 0, 1), (std::vector<float>{-24, -21, -18, -15}));
  EXPECT_EQ(rows_of(*rows, 1, 1), (std::vector<float>{-20, -15, -10, -5}));
}

TEST(QuantizedConstant, ReadsF16ScalesExactly) {
  std::vector<std::byte> half(2);
  const std::uint16_t bits = f32_to_f16(0.1f);
  std::memcpy(half.data(), &bits, 2);
  QuantizedParts parts;
  parts.codes = make_packed(bytes_constant({0x05}), {4, PackedCode::kOffset}, {1, 1});
  parts.scales = make_constant(ElementType::kF16, {1, 1}, half);
  EXPECT_EQ(rows_of(*make_quantized(parts), 0, 1)[0], -3 * f16_to_f32(bits));
}

TEST(MatrixOfStack, StaysPackedIfItBeginsInAByte) {
  std::vector<std::byte> bytes(15);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(37 * i + 5);
  const auto source = make_constant(ElementType::kU8, {15}, bytes);
  for (const std::int64_t columns : {4, 5}) {
    const auto stack = make_packed(source, {4, PackedCode::kSigned}, {2, 3, columns});
    const auto second = matrix_of_stack(stack, 1);
    EXPECT_EQ(second->dims(), (std::vector<std::int64_t>{3, columns}));
    EXPECT_EQ(second->element(), ElementType::kI8);
    EXPECT_EQ(second->element_bits(), columns == 4 ? 4 : 8);
    const auto all = to_floats(*stack);
    EXPECT_EQ(to_floats(*second), std::vector<float>(all.begin() + 3 * columns, all.end()));
  }
  const auto floats = make_f32({2, 1, 2}, {1, 2, 3, 4});
  EXPECT_EQ(to_floats(*matrix_of_stack(floats, 1)), (std::vector<float>{3, 4}));
}

TEST(Reshaped, KeepsIntegersPacked) {
  const auto source = bytes_constant({0x21, 0x43, 0x65, 0x07});
  const auto stack = make_packed(source, {4, PackedCode::kUnsigned}, {1, 2, 3});
  const auto matrix = reshaped(stack, {3, 2});
  EXPECT_EQ(matrix->element_bits(), 4);
  EXPECT_EQ(to_integers(*matrix).value(), (Dims{1, 2, 3, 4, 5, 6}));
  const auto padded = make_packed(source, {4, PackedCode::kUnsigned, 4}, {2, 3});
  EXPECT_EQ(to_integers(*reshaped(padded, {6})).value(), (Dims{1, 2, 3, 5, 6, 7}));
}

}  // namespace
}  // namespace llmc::ir
