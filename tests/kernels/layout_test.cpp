#include <gmock/gmock.h>

#include <set>

#include "harness.h"
#include "llmc/sizes.h"

namespace llmc::test {
namespace {

TEST(LayoutTest, Q4HoldsEveryElementApart) {
  for (const std::size_t k_total : {1, 31, 32, 33, 256, 257, 288, 511, 1100}) {
    const std::size_t bytes = q4_panel_bytes(k_total);
    EXPECT_EQ(bytes % 16, 0u);
    std::vector<std::uint8_t> panel(bytes), codes(8 * k_total), scales(8 * block_count(k_total)),
        mins(8 * block_count(k_total));
    Random random(k_total);
    for (std::size_t row = 0; row < 8; ++row) {
      q4_set_row(panel.data(), row, f32_to_bf16(0.5f + static_cast<float>(row)), f32_to_bf16(-1));
      for (std::size_t k = 0; k < k_total; ++k) {
        q4_set_code(panel.data(), row, k,
                    codes[row * k_total + k] = static_cast<std::uint8_t>(random.below(16)));
      }
      for (std::size_t b = 0; b < block_count(k_total); ++b) {
        const std::size_t at = row * block_count(k_total) + b;
        q4_set_scale(panel.data(), k_total, row, b,
                     scales[at] = static_cast<std::uint8_t>(random.below(16)));
        q4_set_min(panel.data(), k_total, row, b,
                   mins[at] = static_cast<std::uint8_t>(random.next()));
      }
    }
    for (std::size_t row = 0; row < 8; ++row) {
      EXPECT_EQ(q4_row_scale(panel.data(), row), 0.5f + static_cast<float>(row));
      EXPECT_EQ(q4_row_min(panel.data(), row), -1.0f);
      for (std::size_t k = 0; k < k_total; ++k) {
        const std::size_t at = row * block_count(k_total) + k / 32;
        ASSERT_EQ(q4_code(panel.data(), row, k), codes[row * k_total + k]);
        ASSERT_EQ(q4_scale(panel.data(), k_total, row, k / 32), scales[at]);
        ASSERT_EQ(q4_min(panel.data(), k_total, row, k / 32), mins[at]);
        const float want = (0.5f + static_cast<float>(row)) *
                               static_cast<float>(scales[at] * codes[row * k_total + k]) -
                           static_cast<float>(mins[at]);
        ASSERT_EQ(q4_decode(panel.data(), k_total, row, k), want);
      }
    }
  }
}

TEST(LayoutTest, Q4TakesLessThanFourAndAHalfBits) {
  // Rows of whole superblocks: 4 bits, 12 bits for each 32, 32 bits for the row.
  EXPECT_EQ(q4_bytes(1024, 1024) * 8, 1024 * (1024 * 4 + 1024 / 32 * 12 + 32));
  EXPECT_LE(q4_bytes(768, 288) * 8.0 / (768 * 288), 4.5);
}

TEST(LayoutTest, Q8HoldsEveryElementApart) {
  for (const std::size_t k_total : {1, 32, 33, 256, 288, 511}) {
    std::vector<std::uint8_t> panel(q8_panel_bytes(k_total));
    EXPECT_EQ(panel.size() % 64, 0u);
    Random random(k_total);
    std::vector<int> codes(8 * k_total);
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t k = 0; k < k_total; ++k) {
        codes[row * k_total + k] = static_cast<int>(random.below(255)) - 127;
        q8_set_code(panel.data(), row, k, static_cast<std::int8_t>(codes[row * k_total + k]));
      }
      for (std::size_t b = 0; b < block_count(k_total); ++b) {
        q8_set_scale(panel.data(), k_total, row, b,
                     f32_to_f16(static_cast<float>(row * 100 + b) / 64));
      }
    }
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t k = 0; k < k_total; ++k) {
        ASSERT_EQ(q8_decode(panel.data(), k_total, row, k),
                  static_cast<float>(codes[row * k_total + k]) *
                      static_cast<float>(row * 100 + k / 32) / 64);
      }
    }
  }
}

TEST(LayoutTest, FloatPanels) {
  std::vector<std::uint8_t> half(f16_panel_bytes(77)), full(f32_panel_bytes(77));
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t k = 0; k < 77; ++k) {
      f16_set(half.data(), row, k, f32_to_f16(static_cast<float>(row * 77 + k)));
      f32_set(full.data(), row, k, static_cast<float>(row * 77 + k) + 0.25f);
    }
  }
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t k = 0; k < 77; ++k) {
      EXPECT_EQ(f16_decode(half.data(), row, k), static_cast<float>(row * 77 + k));
      EXPECT_EQ(f32_decode(full.data(), row, k), static_cast<float>(row * 77 + k) + 0.25f);
    }
  }
}

TEST(LayoutTest, SixBitsAreWhereTheyAreSaidToBe) {
  std::vector<std::uint8_t> panel(coded_panel_bytes(kSixBits, 64));
  EXPECT_EQ(panel.size(), 448u);  // 2 x 192, 2 x 16, rounded up
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t k = 0; k < 64; ++k)
      coded_set_code(kSixBits, panel.data(), 64, row, k,
                     static_cast<int>((row * 64 + k) % 64) - 32);
  }
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t k = 0; k < 64; ++k) {
      const int code = static_cast<int>((row * 64 + k) % 64) - 32, stored = code + 32;
      EXPECT_EQ(coded_code(kSixBits, panel.data(), 64, row, k), code);
      const std::size_t block = k / 32, in_block = k % 32, i = k % 4;
      const std::uint8_t low = panel[block * 192 + in_block / 8 * 32 + row * 4 + i];
      const std::uint8_t upper = panel[block * 192 + 128 + in_block / 16 * 32 + row * 4 + i];
      EXPECT_EQ(low >> (k % 8 / 4 * 4) & 15, stored & 15) << row << ' ' << k;
      EXPECT_EQ(upper >> (k % 16 / 4 * 2) & 3, stored >> 4) << row << ' ' << k;
    }
  }
  // The number of a format names it.
  EXPECT_EQ(coded_format(coded_weight(kSixBits)), kSixBits);
  EXPECT_EQ(coded_format(coded_weight(kSplitSixBits)), kSplitSixBits);
  EXPECT_EQ(unsplit(coded_weight(kSplitSixBits)), coded_weight(kSixBits));
  EXPECT_EQ(unsplit(WeightKind::kQ4), WeightKind::kQ4);
  EXPECT_EQ(coded_format(coded_weight({8, 16, CodedScale::kF32, CodedZero::kFloat})),
            (CodedFormat{8, 16, CodedScale::kF32, CodedZero::kFloat}));
}

TEST(LayoutTest, SizesAreMultiplesOfALine) {
  for (const WeightKind kind : {WeightKind::kF32, WeightKind::kF16, WeightKind::kQ8,
                                coded_weight(kSixBits), WeightKind::kQ4}) {
    for (const std::size_t k : {1, 77, 288, 4096}) {
      EXPECT_EQ(weight_panel_bytes(kind, k) % (kind == WeightKind::kQ4 ? 16 : 64), 0u);
      for (const std::size_t tokens : {1, 3, 64, 130}) {
        EXPECT_EQ(linear_work_bytes(kind, k, 6, tokens, 3) % 64, 0u);
        // What is enough for many is enough for one.
        EXPECT_LE(linear_work_bytes(kind, k, 6, 1, 3), linear_work_bytes(kind, k, 6, tokens, 3));
        EXPECT_LE(linear_work_bytes(kind, k, 6, tokens, 1),
                  linear_work_bytes(kind, k, 6, tokens, 3));
      }
    }
  }
  EXPECT_EQ(attention_work_bytes(6, 2, 20, 700, 32, 3) % 64, 0u);
  EXPECT_EQ(kv_block_bytes(6, 2, 20, 8) % 64, 0u);
}

}  // namespace
}  // namespace llmc::test
