#include "compiler/plan/source_quantization.h"

#include <gtest/gtest.h>

namespace llmc::plan {
namespace {

/// Returns a matrix of codes of `bits` bits, with multiples of `scale` as scales and of `zero` as
/// zero points (absent: none).
ir::ConstantPtr matrix(std::int64_t rows, std::int64_t columns, std::int64_t block, int bits,
                       float scale, std::optional<float> zero, ir::PackedCode code) {
  const std::int64_t blocks = (columns + block - 1) / block;
  ir::QuantizedParts parts;
  const std::int64_t bytes = (rows * columns * bits + 7) / 8;
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 & 255);
  parts.codes = ir::make_packed(ir::make_constant(ir::ElementType::kU8, {bytes}, std::move(data)),
                                {bits, code}, {rows, columns});
  std::vector<float> scales, zeros;
  for (std::int64_t i = 0; i < rows * blocks; ++i) {
    scales.push_back(scale * static_cast<float>(i % 7 - 3));
    zeros.push_back(zero.value_or(0) + static_cast<float>(zero ? i % 2 : 0));
  }
  parts.scales = ir::make_f32({rows, blocks}, scales);
  if (zero) parts.zero_points = ir::make_f32({rows, blocks}, zeros);
  parts.column_block = block;
  return ir::make_quantized(std::move(parts));
}

constexpr auto kUnsigned = ir::PackedCode::kUnsigned, kOffset = ir::PackedCode::kOffset;

CodedFormat format_of(const ir::ConstantPtr& data) {
  const SourceQuantization source = source_quantization_of({&data, 1}, 0, data->dims()[0]);
  EXPECT_TRUE(source.format) << source.requantize_reason;
  return source.format.value_or(CodedFormat{1});
}

TEST(SourceQuantization, TheSmallestFormatThatHoldsAll) {
  using enum CodedScale;
  using enum CodedZero;
  EXPECT_EQ(format_of(matrix(8, 64, 32, 4, 0.5f, {}, kOffset)), (CodedFormat{4, 32, kF16, kNone}));
  EXPECT_EQ(format_of(matrix(8, 64, 32, 4, 0.1f, {}, kOffset)), (CodedFormat{4, 32, kF32, kNone}));
  EXPECT_EQ(format_of(matrix(8, 64, 16, 4, 0.5f, 3, kUnsigned)),
            (CodedFormat{4, 16, kF16, kInteger}));
  EXPECT_EQ(format_of(matrix(8, 64, 48, 4, 0.5f, 3.5f, kUnsigned)),
            (CodedFormat{4, 16, kF16, kFloat}));
  EXPECT_EQ(format_of(matrix(8, 64, 48, 4, 0.5f, 3.1f, kUnsigned)),
            (CodedFormat{4, 16, kF32, kFloat}));
  // One block for the whole row, and blocks larger than the kernels support.
  EXPECT_EQ(format_of(matrix(8, 300, 300, 8, 0.1f, {}, kOffset)),
            (CodedFormat{8, 256, kF32, kNone}));
  EXPECT_EQ(format_of(matrix(8, 600, 512, 8, 0.1f, 7, kUnsigned)),
            (CodedFormat{8, 256, kF32, kInteger}));
}

TEST(SourceQuantization, MergedMatricesShareTheFinestBlocks) {
  const auto a = matrix(8, 128, 64, 4, 0.5f, {}, kOffset);
  const auto b = matrix(8, 128, 32, 4, 0.1f, {}, kOffset);
  EXPECT_EQ(format_of(ir::concat_rows({a, b})), (CodedFormat{4, 32, CodedScale::kF32}));
  const ir::ConstantPtr layers[] = {a, b};
  EXPECT_EQ(source_quantization_of(layers, 0, 8).format, (CodedFormat{4, 32, CodedScale::kF32}));
  // 4 and 8 bits are stored as 8 bits.
  const auto c = matrix(8, 128, 32, 8, 0.5f, {}, kOffset);
  EXPECT_EQ(format_of(ir::concat_rows({a, c})).bits, 8u);
}

TEST(SourceQuantization, SaysWhyCodesCannotBeKept) {
  const auto why = [](const ir::ConstantPtr& data) {
    const SourceQuantization source = source_quantization_of({&data, 1}, 0, data->dims()[0]);
    EXPECT_FALSE(source.format);
    EXPECT_FALSE(source.text.empty());
    return source.requantize_reason;
  };
  const auto good = matrix(8, 96, 32, 8, 0.5f, {}, kOffset);
  EXPECT_NE(why(matrix(8, 96, 24, 4, 0.5f, {}, kOffset)).find("blocks of 24"), std::string::npos);
  EXPECT_NE(why(ir::concat_rows({good, matrix(8, 96, 32, 8, 0.5f, 3, kUnsigned)})).find("signed"),
            std::string::npos);
  EXPECT_NE(why(matrix(8, 96, 32, 4, 0.5f, 0.5f, kOffset)).find("no integers"), std::string::npos);
  EXPECT_NE(why(ir::concat_rows({good, ir::make_random({1, 96}, 1, 1)})).find("float rows"),
            std::string::npos);
  const ir::ConstantPtr layers[] = {good, ir::make_random({8, 96}, 1, 1)};
  EXPECT_NE(source_quantization_of(layers, 0, 8).requantize_reason.find("other layers"),
            std::string::npos);
  const auto plain = ir::make_random({8, 96}, 1, 1);
  EXPECT_TRUE(source_quantization_of({&plain, 1}, 0, 8).text.empty());
}

}  // namespace
}  // namespace llmc::plan
