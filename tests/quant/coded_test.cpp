#include "compiler/quant/coded.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "compiler/quant/pack.h"
#include "tests/quant/decode.h"

namespace llmc::quant {
namespace {

struct Sample {
  std::vector<float> codes, scales, zeros;
  int low = 0, high = 0;
  std::int64_t block = 0;
};

std::uint32_t mixed(std::uint32_t i) {
  return (i * 2654435761u) ^ (i >> 3) * 40503u;
}

enum class Zeros { kMiddle, kInteger, kFraction };

Sample sample(std::size_t rows, std::size_t columns, std::size_t block, int low, int high,
              float scale, Zeros zeros) {
  Sample s{{}, {}, {}, low, high, static_cast<std::int64_t>(block)};
  for (std::uint32_t i = 0; i < rows * columns; ++i)
    s.codes.push_back(static_cast<float>(
        low + static_cast<int>(mixed(i) % static_cast<unsigned>(high - low + 1))));
  const std::size_t groups = (columns + block - 1) / block;
  for (std::uint32_t i = 0; i < rows * groups; ++i) {
    s.scales.push_back(scale * (static_cast<float>(mixed(i) % 2001) - 1000));
    const float middle = static_cast<float>((low + high + 1) / 2);
    s.zeros.push_back(zeros == Zeros::kMiddle    ? middle
                      : zeros == Zeros::kInteger ? static_cast<float>(low) + mixed(i + 5) % 16
                                                 : 0.37f * static_cast<float>(mixed(i) % 40));
  }
  return s;
}

/// Every decoded weight is bit-identical to (code - zero point) * scale.
void expect_lossless(const Sample& s, std::size_t columns, CodedFormat want) {
  auto choice = CodedChoice::start(s.low, s.high, s.block);
  ASSERT_TRUE(choice);
  ASSERT_EQ(static_cast<std::size_t>(choice->block()), static_cast<std::size_t>(s.block));
  ASSERT_TRUE(choice->add(s.scales, s.zeros));
  const CodedFormat format = choice->format();
  EXPECT_EQ(format, want);
  const std::size_t rows = s.codes.size() / columns;
  const std::size_t groups = s.scales.size() / rows;
  const CodedRows source{s.codes, s.scales, s.zeros, s.low};
  std::vector<std::byte> panels(weight_bytes(coded_weight(format), rows, columns));
  std::vector<std::byte> table(table_bytes(coded_table(format), rows, columns));
  ASSERT_TRUE(pack_coded_panels(format, source, columns, 0, panels).ok());
  ASSERT_TRUE(pack_coded_table(format, source, columns, 0, table).ok());
  std::vector<float> from_panels(s.codes.size()), from_table(s.codes.size());
  unpack_panels(coded_weight(format), panels, columns, from_panels);
  unpack_table_rows(coded_table(format), table, columns, from_table);
  for (std::size_t i = 0; i < s.codes.size(); ++i) {
    const std::size_t g = i / columns * groups + i % columns / format.block;
    const float difference = s.codes[i] - s.zeros[g];
    const float weight = difference * s.scales[g];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(from_panels[i]), std::bit_cast<std::uint32_t>(weight))
        << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(from_table[i]), std::bit_cast<std::uint32_t>(weight))
        << i;
  }
}

TEST(Coded, EveryWeightIsTheSameFloat) {
  using enum CodedScale;
  using enum CodedZero;
  for (const std::size_t columns : {1u, 31u, 77u, 256u, 300u, 545u}) {
    for (const std::uint32_t block : {16u, 32u, 64u, 128u, 256u}) {
      const float third = 1.0f / 3, exact = 0.125f;
      expect_lossless(sample(9, columns, block, 0, 15, third, Zeros::kInteger), columns,
                      {4, block, kF32, kInteger});
      expect_lossless(sample(9, columns, block, 0, 15, exact, Zeros::kMiddle), columns,
                      {4, block, kF16, kNone});
      expect_lossless(sample(9, columns, block, -8, 7, third, Zeros::kMiddle), columns,
                      {4, block, kF32, kNone});
      expect_lossless(sample(9, columns, block, -8, 7, exact, Zeros::kInteger), columns,
                      {4, block, kF16, kInteger});
      expect_lossless(sample(17, columns, block, 0, 15, third, Zeros::kFraction), columns,
                      {4, block, kF32, kFloat});
      expect_lossless(sample(9, columns, block, 0, 255, third, Zeros::kFraction), columns,
                      {8, block, kF32, kFloat});
      expect_lossless(sample(9, columns, block, 0, 255, exact, Zeros::kInteger), columns,
                      {8, block, kF16, kInteger});
      expect_lossless(sample(9, columns, block, -128, 127, third, Zeros::kMiddle), columns,
                      {8, block, kF32, kNone});
    }
  }
}

TEST(Coded, SizesPerWeight) {
  const auto bits = [](CodedFormat f) {
    return 8.0 * static_cast<double>(weight_bytes(coded_weight(f), 4096, 4096)) / (4096.0 * 4096);
  };
  using enum CodedScale;
  using enum CodedZero;
  EXPECT_EQ(bits({4, 32, kF16, kNone}), 4.5);
  EXPECT_EQ(bits({4, 32, kF16, kInteger}), 4.75);
  EXPECT_EQ(bits({4, 32, kF32, kInteger}), 5.25);
  EXPECT_EQ(bits({4, 128, kF16, kNone}), 4.25);
  EXPECT_EQ(bits({8, 32, kF16, kNone}), 8.5);
  EXPECT_EQ(bits({8, 256, kF32, kNone}), 8.25);
}

TEST(Coded, WhatNoFormatHolds) {
  EXPECT_FALSE(CodedChoice::start(-128, 255, 32));
  EXPECT_FALSE(CodedChoice::start(0, 15, 24));
  EXPECT_EQ(CodedChoice::start(0, 15, 0)->block(), 256);
  EXPECT_EQ(CodedChoice::start(0, 15, 1024)->block(), 256);
  auto choice = CodedChoice::start(-8, 7, 32);
  const float one = 1, half = 0.5f;
  EXPECT_FALSE(choice->add({&one, 1}, {&half, 1}));
}

TEST(Coded, BadScalesAreNamed) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    Sample s = sample(8, 64, 32, 0, 15, 1, Zeros::kMiddle);
    s.scales[7] = bad;
    const CodedFormat format{4, 32, CodedScale::kF32, CodedZero::kNone};
    std::vector<std::byte> out(weight_bytes(coded_weight(format), 8, 64));
    const auto status = pack_coded_panels(format, {s.codes, s.scales, s.zeros, 0}, 64, 80, out);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().first().kind, ErrorKind::kBadInput);
    EXPECT_NE(status.error().first().message.find("row 83, columns from 32 on"), std::string::npos)
        << status.error().first().message;
  }
}

}  // namespace
}  // namespace llmc::quant
