#include "compiler/quant/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/quant/q4.h"
#include "compiler/quant/q8.h"
#include "compiler/quant/symmetric.h"
#include "tests/quant/decode.h"
#include "tests/quant/error_stats.h"
#include "tests/quant/rows.h"

namespace llmc::quant {
namespace {

struct Shape {
  std::size_t rows, columns;
};
// Full panels, and every kind of remainder of rows, blocks and superblocks.
constexpr Shape kShapes[] = {{8, 32}, {1, 1}, {7, 31}, {9, 33}, {16, 256}, {3, 288}, {10, 321}};
constexpr WeightKind kKinds[] = {WeightKind::kF32, WeightKind::kF16, WeightKind::kQ8,
                                 coded_weight(kSixBits), WeightKind::kQ4};
constexpr TableKind kTables[] = {TableKind::kF32, TableKind::kF16, TableKind::kBF16,
                                 TableKind::kQ8};

std::vector<std::byte> pack(WeightKind kind, const std::vector<float>& values,
                            std::size_t columns) {
  std::vector<std::byte> out(weight_bytes(kind, values.size() / columns, columns), std::byte{0xee});
  EXPECT_TRUE(pack_panels(kind, values, columns, 0, out).ok());
  return out;
}

TEST(PackPanels, SplittingKeepsTheWeights) {
  for (const auto [rows, columns] : kShapes) {
    const std::vector<float> values = heavy_tailed(rows * columns, 4);
    const auto panels = pack(coded_weight(kSixBits), values, columns);
    constexpr WeightKind kSplit = coded_weight(kSplitSixBits);
    std::vector<std::byte> split(weight_bytes(kSplit, rows, columns), std::byte{0xee});
    split_panels(panels, columns, split);
    std::vector<float> want(values.size()), got(values.size());
    unpack_panels(coded_weight(kSixBits), panels, columns, want);
    unpack_panels(kSplit, split, columns, got);
    EXPECT_EQ(got, want) << rows << "x" << columns;
    const auto* panel = reinterpret_cast<const std::uint8_t*>(split.data());
    const std::size_t bound = split_bound_offset(kSplitSixBits, columns);
    for (std::size_t row = 0; row < std::min<std::size_t>(rows, 8); ++row) {
      const float stored = f16_to_f32(load_u16(panel + bound + 2 * row));
      EXPECT_GE(stored, split_bound(kSplitSixBits, panel, columns, row));
      EXPECT_LE(stored, split_bound(kSplitSixBits, panel, columns, row) * 1.01f + 1e-7f);
    }
  }
}

TEST(PackPanels, UnpackingGivesTheDecodedRows) {
  for (const auto [rows, columns] : kShapes) {
    const std::vector<float> values = heavy_tailed(rows * columns, 3);
    for (const WeightKind kind : {WeightKind::kQ4, coded_weight(kSixBits), WeightKind::kQ8}) {
      std::vector<float> unpacked(values.size()), row(columns);
      unpack_panels(kind, pack(kind, values, columns), columns, unpacked);
      for (std::size_t r = 0; r < rows; ++r) {
        const auto source = std::span(values).subspan(r * columns, columns);
        if (kind == WeightKind::kQ4) {
          Q4Row encoded;
          encode_q4_row(source, {}, encoded);
          decode_q4_row(encoded, row);
        } else if (kind == coded_weight(kSixBits)) {
          ScaledRow encoded;
          encode_symmetric_row(kSixBits, source, encoded);
          decode_scaled_row(encoded, row);
        } else {
          ScaledRow encoded;
          encode_q8_row(source, encoded);
          decode_scaled_row(encoded, row);
        }
        EXPECT_TRUE(std::ranges::equal(row, std::span(unpacked).subspan(r * columns, columns)))
            << rows << "x" << columns << " row " << r;
      }
    }
  }
}

TEST(PackPanels, FloatsRoundTrip) {
  for (const auto [rows, columns] : kShapes) {
    const std::vector<float> values = gaussian(rows * columns, 5);
    std::vector<float> unpacked(values.size());
    unpack_panels(WeightKind::kF32, pack(WeightKind::kF32, values, columns), columns, unpacked);
    EXPECT_EQ(unpacked, values);
    unpack_panels(WeightKind::kF16, pack(WeightKind::kF16, values, columns), columns, unpacked);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(unpacked[i], values[i], std::fabs(values[i]) * 0x1p-11f + 0x1p-25f);
  }
}

TEST(PackPanels, StreamingByPanelsGivesTheSameBytes) {
  const std::size_t columns = 100, rows = 27;
  const std::vector<float> values = heavy_tailed(rows * columns, 7);
  for (const WeightKind kind : kKinds) {
    const std::vector<std::byte> whole = pack(kind, values, columns);
    std::vector<std::byte> streamed;
    for (std::size_t r = 0; r < rows; r += kPanelRows) {
      const std::size_t count = std::min(kPanelRows, rows - r);
      std::vector<std::byte> part(weight_bytes(kind, count, columns));
      ASSERT_TRUE(pack_panels(kind, std::span(values).subspan(r * columns, count * columns),
                              columns, r, part)
                      .ok());
      streamed.insert(streamed.end(), part.begin(), part.end());
    }
    EXPECT_EQ(streamed, whole);
  }
}

TEST(PackPanels, MissingRowsAreZeroRows) {
  const std::size_t columns = 70;
  const std::vector<float> three = heavy_tailed(3 * columns, 9);
  std::vector<float> eight = three;
  eight.resize(8 * columns, 0.0f);
  for (const WeightKind kind : {WeightKind::kF32, WeightKind::kF16, WeightKind::kQ8}) {
    EXPECT_EQ(pack(kind, three, columns), pack(kind, eight, columns));
  }
  std::vector<float> unpacked(eight.size(), 1.0f);
  unpack_panels(WeightKind::kQ4, pack(WeightKind::kQ4, three, columns), columns, unpacked);
  for (std::size_t i = three.size(); i < eight.size(); ++i) EXPECT_EQ(unpacked[i], 0.0f);
}

TEST(PackPanels, CodesPastTheLastColumnAreZero) {
  const std::size_t columns = 33;
  const std::vector<float> values = gaussian(8 * columns, 11);
  const std::vector<std::byte> q4 = pack(WeightKind::kQ4, values, columns);
  const std::vector<std::byte> q8 = pack(WeightKind::kQ8, values, columns);
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t k = columns; k < 64; ++k) {
      EXPECT_EQ(q4_code(reinterpret_cast<const std::uint8_t*>(q4.data()), row, k), 0);
      EXPECT_EQ(q8_code(reinterpret_cast<const std::uint8_t*>(q8.data()), row, k), 0);
    }
  }
}

TEST(PackPanels, Q4StaysWithinFourAndAHalfBits) {
  for (const std::size_t columns : {288u, 512u, 768u, 2048u, 4096u})
    EXPECT_LE(static_cast<double>(weight_bytes(WeightKind::kQ4, 64, columns)) * 8,
              4.5 * 64 * static_cast<double>(columns))
        << columns;
}

TEST(PackPanels, BadWeightsAreNamed) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const WeightKind kind : kKinds) {
    for (const float bad : {NAN, infinity, -infinity}) {
      std::vector<float> values = gaussian(10 * 40, 13);
      values[9 * 40 + 17] = bad;
      std::vector<std::byte> out(weight_bytes(kind, 10, 40));
      const Status status = pack_panels(kind, values, 40, 800, out);
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().first().kind, ErrorKind::kBadInput);
      EXPECT_NE(status.error().first().message.find("row 809, column 17"), std::string::npos)
          << status.error().first().message;
    }
  }
}

TEST(PackPanels, TooLargeForTheFormatIsAnErrorWithAHint) {
  const std::vector<float> values(8, 1e38f);
  for (const WeightKind kind :
       {WeightKind::kF16, WeightKind::kQ8, coded_weight(kSixBits), WeightKind::kQ4}) {
    std::vector<std::byte> out(weight_bytes(kind, 1, 8));
    const Status status = pack_panels(kind, values, 8, 0, out);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().first().hint.find("--quant=f32"), std::string::npos);
  }
  std::vector<std::byte> out(weight_bytes(WeightKind::kF32, 1, 8));
  EXPECT_TRUE(pack_panels(WeightKind::kF32, values, 8, 0, out).ok());
}

TEST(PackTable, RoundTrip) {
  for (const auto [rows, columns] : kShapes) {
    const std::vector<float> values = gaussian(rows * columns, 15);
    for (const TableKind kind : kTables) {
      std::vector<std::byte> out(table_bytes(kind, rows, columns), std::byte{0xee});
      ASSERT_TRUE(pack_table_rows(kind, values, columns, 0, out).ok());
      std::vector<float> unpacked(values.size());
      unpack_table_rows(kind, out, columns, unpacked);
      ErrorStats stats;
      stats.add(values, unpacked);
      const double bound = kind == TableKind::kF32 ? 0 : kind == TableKind::kF16 ? 0x1p-11 : 0.008;
      EXPECT_LE(stats.relative_rms(), bound) << rows << "x" << columns;
    }
  }
}

TEST(PackTable, BadValuesAreNamed) {
  for (const TableKind kind : kTables) {
    std::vector<float> values(3 * 5, 1.0f);
    values[2 * 5 + 4] = NAN;
    std::vector<std::byte> out(table_bytes(kind, 3, 5));
    const Status status = pack_table_rows(kind, values, 5, 100, out);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().first().message.find("row 102, column 4"), std::string::npos);
  }
}

TEST(ErrorStats, KnownFigures) {
  ErrorStats stats;
  EXPECT_EQ(stats.relative_rms(), 0);
  const std::vector<float> original{3, -4}, decoded{3, -3};
  stats.add(original, decoded);
  EXPECT_EQ(stats.count, 2u);
  EXPECT_DOUBLE_EQ(stats.relative_rms(), 0.2);
  EXPECT_EQ(stats.largest_error, 1);
}

}  // namespace
}  // namespace llmc::quant
