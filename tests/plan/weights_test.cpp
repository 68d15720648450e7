#include "compiler/plan/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llmc::plan {
namespace {

using ::testing::ElementsAre;

PackedWeight matrix(std::uint64_t rows, std::uint64_t columns, RowOrder order) {
  PackedWeight weight;
  weight.use = WeightUse::kMatrix;
  weight.order = order;
  weight.rows = rows;
  weight.columns = columns;
  weight.name = "w";
  return weight;
}

TEST(PackedRowOrder, PlainRowsArePaddedToAPanel) {
  const auto order = packed_row_order(matrix(3, 4, RowOrder::kPlain));
  EXPECT_THAT(order, ElementsAre(0, 1, 2, -1, -1, -1, -1, -1));
}

TEST(PackedRowOrder, SwiGluAlternatesGateAndUp) {
  const auto order = packed_row_order(matrix(20, 4, RowOrder::kGated));  // 10 gate rows, 10 up rows
  ASSERT_EQ(order.size(), 32u);
  EXPECT_EQ(order[0], 0);
  EXPECT_EQ(order[8], 10);
  EXPECT_EQ(order[16], 8);
  EXPECT_EQ(order[17], 9);
  EXPECT_EQ(order[18], -1);
  EXPECT_EQ(order[24], 18);
  EXPECT_EQ(order[26], -1);
}

TEST(PackedRowOrder, EveryHeadIsPaddedOnItsOwn) {
  PackedWeight weight = matrix(4 * 5, 4, RowOrder::kQkv);  // 2 query, 1 key, 1 value heads of 5
  weight.heads = 2;
  weight.kv_heads = 1;
  weight.head_dim = 5;
  const auto order = packed_row_order(weight);
  ASSERT_EQ(order.size(), 32u);
  EXPECT_EQ(order[4], 4);
  EXPECT_EQ(order[5], -1);
  EXPECT_EQ(order[8], 5);
  EXPECT_EQ(order[31], -1);
  EXPECT_EQ(order[28], 19);
}

TEST(LayOut, OffsetsAreAlignedAndDoNotOverlap) {
  std::vector<PackedWeight> weights{matrix(20, 33, RowOrder::kPlain),
                                    matrix(7, 5, RowOrder::kPlain)};
  weights[0].matrix = WeightKind::kQ4;
  weights.push_back(matrix(3, 1, RowOrder::kPlain));
  weights[2].use = WeightUse::kVector;
  weights[2].pad_rows = true;
  weights.push_back(matrix(9, 5, RowOrder::kPlain));
  weights[3].use = WeightUse::kTable;
  weights[3].table = TableKind::kF16;
  const auto total = lay_out(weights);
  ASSERT_TRUE(total.ok());
  std::uint64_t end = 0;
  for (const PackedWeight& weight : weights) {
    EXPECT_EQ(weight.offset % 64, 0u);
    EXPECT_GE(weight.offset, end);
    end = weight.offset + weight.bytes;
  }
  EXPECT_EQ(weights[0].bytes, weight_bytes(WeightKind::kQ4, 24, 33));
  EXPECT_EQ(weights[2].bytes, 8 * sizeof(float));
  EXPECT_EQ(weights[3].bytes, 9 * 5 * 2u);
  EXPECT_EQ(*total % 64, 0u);
  EXPECT_GE(*total, end);
}

TEST(LayOut, RefusesSizesThatCannotBe) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 4}, {4, 0}, {std::uint64_t{1} << 31, 8}, {std::uint64_t{1} << 62, 1}}) {
    std::vector<PackedWeight> weights{matrix(rows, columns, RowOrder::kPlain)};
    const auto total = lay_out(weights);
    ASSERT_FALSE(total.ok()) << rows << " x " << columns;
    EXPECT_EQ(total.error().first().kind, ErrorKind::kBadInput);
    EXPECT_EQ(total.error().first().node, "w");
  }
}

}  // namespace
}  // namespace llmc::plan
