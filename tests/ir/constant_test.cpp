#include "compiler/ir/constant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "compiler/support/half.h"
#include "tests/ir/rows.h"

namespace llmc::ir {
namespace {

/// A matrix whose element (i, j) is 100 i + j.
ConstantPtr grid(std::int64_t rows, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) values.push_back(static_cast<float>(100 * i + j));
  return make_f32({rows, columns}, values);
}

/// Rows read in any portions are those of the materialised bytes.
void expect_consistent(const Constant& c) {
  const auto all = to_floats(c);
  const auto rows = c.dims()[0], columns = c.dims()[1];
  for (std::int64_t step = 1; step <= rows; ++step)
    for (std::int64_t i = 0; i + step <= rows; i += step) {
      const auto part = rows_of(c, i, step);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + i * columns));
    }
  std::vector<float> block(static_cast<std::size_t>(rows));
  for (std::int64_t j = 0; j < columns; ++j) {
    c.read_block(0, rows, j, 1, block);
    for (std::int64_t i = 0; i < rows; ++i)
      EXPECT_EQ(block[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i * columns + j)]);
  }
}

TEST(Constant, ReadsRowsOfEveryFloatType) {
  std::vector<std::byte> halves(8), brains(8), doubles(16);
  const std::uint16_t f16[4] = {f32_to_f16(1), f32_to_f16(-2), f32_to_f16(0.1f), f32_to_f16(65504)};
  const std::uint16_t bf16[4] = {f32_to_bf16(1), f32_to_bf16(-2), f32_to_bf16(0.1f), 0x7f80};
  const double f64[2] = {0.1, 1e300};
  std::memcpy(halves.data(), f16, 8);
  std::memcpy(brains.data(), bf16, 8);
  std::memcpy(doubles.data(), f64, 16);
  EXPECT_EQ(rows_of(*make_constant(ElementType::kF16, {2, 2}, halves), 1, 1),
            (std::vector<float>{0.0999755859375f, 65504}));
  EXPECT_EQ(rows_of(*make_constant(ElementType::kBF16, {2, 2}, brains), 0, 2),
            (std::vector<float>{1, -2, 0.10009765625f, INFINITY}));
  EXPECT_EQ(rows_of(*make_constant(ElementType::kF64, {1, 2}, doubles), 0, 1),
            (std::vector<float>{0.1f, INFINITY}));
}

TEST(Constant, DoublesAreRoundedToNarrowFloatsOnce) {
  // Just above and below the middle of two neighbours; as floats they are the middle.
  const double tiny = std::ldexp(1.0, -40);
  const auto narrow = [](ElementType element, double value) {
    return to_floats(*make_splat(element, {1}, value))[0];
  };
  const float half_step = std::ldexp(1.0f, -10), brain_step = std::ldexp(1.0f, -7);
  for (const float sign : {1.0f, -1.0f}) {
    const double f16_middle = 1 + half_step / 2.0, bf16_middle = 1 + brain_step / 2.0;
    EXPECT_EQ(narrow(ElementType::kF16, sign * (f16_middle + tiny)), sign * (1 + half_step));
    EXPECT_EQ(narrow(ElementType::kF16, sign * (f16_middle - tiny)), sign);
    EXPECT_EQ(narrow(ElementType::kF16, sign * f16_middle), sign) << "to even";
    EXPECT_EQ(narrow(ElementType::kBF16, sign * (bf16_middle + tiny)), sign * (1 + brain_step));
    EXPECT_EQ(narrow(ElementType::kBF16, sign * (bf16_middle - tiny)), sign);
  }
  EXPECT_EQ(narrow(ElementType::kF16, 1e300), INFINITY);
  EXPECT_EQ(narrow(ElementType::kF16, 1e-300), 0);
}

TEST(Constant, MappedIsAWindowThatKeepsItsOwner) {
  auto owner = std::make_shared<std::vector<std::byte>>(17);
  // An odd address: files do not align their tensors.
  const float values[4] = {1, 2, 3, 4};
  std::memcpy(owner->data() + 1, values, 16);
  const std::weak_ptr<std::vector<std::byte>> watch = owner;
  auto constant =
      make_mapped(ElementType::kF32, {2, 2}, owner, std::span(*owner).subspan(1), "model.onnx:w");
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(rows_of(*constant, 1, 1), (std::vector<float>{3, 4}));
  EXPECT_EQ(constant->describe(), "mapped \"model.onnx:w\"");
  constant.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Constant, RandomIsReproducibleAndBounded) {
  const auto a = to_floats(*make_random({64, 32}, 7, 0.5));
  EXPECT_EQ(a, to_floats(*make_random({64, 32}, 7, 0.5)));
  EXPECT_NE(a, to_floats(*make_random({64, 32}, 8, 0.5)));
  double sum = 0, squares = 0;
  for (const float x : a) {
    EXPECT_GE(x, -0.5f);
    EXPECT_LT(x, 0.5f);
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  EXPECT_NEAR(sum / 2048, 0, 0.03);
  EXPECT_NEAR(squares / 2048, 0.25 / 3, 0.01);
  expect_consistent(*make_random({5, 7}, 3, 1));
}

TEST(Constant, ViewsRearrangeWithoutCopying) {
  const auto m = grid(5, 70);  // wider than a tile of the transposing walk
  const auto turned = transposed(m);
  EXPECT_EQ(turned->dims(), (std::vector<std::int64_t>{70, 5}));
  EXPECT_EQ(rows_of(*turned, 69, 1), (std::vector<float>{69, 169, 269, 369, 469}));
  EXPECT_EQ(transposed(turned), m);

  const auto stacked = concat_rows({grid(2, 3), grid(1, 3), grid(3, 3)});
  EXPECT_EQ(stacked->dims(), (std::vector<std::int64_t>{6, 3}));
  EXPECT_EQ(rows_of(*stacked, 1, 3), (std::vector<float>{100, 101, 102, 0, 1, 2, 0, 1, 2}));

  const auto ordered = reorder_rows(grid(3, 2), {2, -1, 0, 1});
  EXPECT_EQ(rows_of(*ordered, 0, 4), (std::vector<float>{200, 201, 0, 0, 0, 1, 100, 101}));

  // A weight as the passes leave it: q, k and v stored [K, N], merged and padded.
  const auto merged = reorder_rows(concat_rows({transposed(grid(66, 4)), transposed(grid(66, 2))}),
                                   {5, 4, -1, 0, 1, 2, 3});
  const auto larger = scaled(grid(3, 2), 2.5f);
  EXPECT_EQ(rows_of(*larger, 1, 2), (std::vector<float>{250, 252.5f, 500, 502.5f}));
  EXPECT_EQ(larger->describe().substr(0, 18), "scaled(f32[3, 2] {");
  for (const auto& c : {turned, stacked, ordered, merged, larger}) expect_consistent(*c);
  EXPECT_EQ(merged->describe().substr(0, 33), "rows(f32[6, 66] concat(f32[4, 66]");
}

TEST(Constant, ConvertsSmallTensors) {
  EXPECT_EQ(to_integers(*make_i64({2}, {-1, INT64_MAX})).value(),
            (std::vector<std::int64_t>{-1, INT64_MAX}));
  EXPECT_FALSE(to_integers(*make_f32({1}, {1})).ok());
  EXPECT_EQ(to_doubles(*make_splat(ElementType::kI8, {2}, -3)), (std::vector<double>{-3, -3}));
  EXPECT_EQ(to_floats(*make_splat(ElementType::kBool, {}, 1)), (std::vector<float>{1}));
  // Out of range: saturated, never undefined.
  EXPECT_EQ(to_doubles(*make_splat(ElementType::kU8, {1}, 1e9)), (std::vector<double>{255}));
  EXPECT_EQ(to_integers(*make_splat(ElementType::kI64, {1}, 1e300)).value()[0], INT64_MAX);
  EXPECT_EQ(to_integers(*make_splat(ElementType::kI32, {1}, NAN)).value()[0], 0);
}

TEST(Constant, SizesAreChecked) {
  EXPECT_EQ(checked_byte_count(ElementType::kF32, std::vector<std::int64_t>{3, 4}), 48u);
  EXPECT_EQ(checked_byte_count(ElementType::kF32, std::vector<std::int64_t>{}), 4u);
  EXPECT_EQ(checked_byte_count(ElementType::kF32, std::vector<std::int64_t>{-1}), std::nullopt);
  EXPECT_EQ(checked_byte_count(ElementType::kF32, std::vector<std::int64_t>{INT64_MAX}),
            std::nullopt);
  EXPECT_EQ(checked_byte_count(ElementType::kU8, std::vector<std::int64_t>{INT64_MAX}),
            static_cast<std::size_t>(INT64_MAX));
}

TEST(ConstantDeathTest, BrokenInvariantsAbort) {
  EXPECT_DEATH(make_f32({2}, {1}), "broken invariant");
  EXPECT_DEATH(transposed(make_f32({2}, {1, 2})), "broken invariant");
  EXPECT_DEATH(scaled(make_f32({2}, {1, 2}), 2), "broken invariant");
  EXPECT_DEATH(concat_rows({}), "broken invariant");
  EXPECT_DEATH(concat_rows({grid(1, 2), grid(1, 3)}), "broken invariant");
  EXPECT_DEATH(reorder_rows(grid(1, 2), {1}), "broken invariant");
  std::vector<float> small(1);
  EXPECT_DEATH(grid(2, 2)->read_rows(0, 1, small), "broken invariant");
  std::vector<float> enough(100);
  EXPECT_DEATH(grid(2, 2)->read_rows(1, 2, enough), "broken invariant");
}

}  // namespace
}  // namespace llmc::ir
