#include "compiler/ir/hadamard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/ir/text.h"
#include "llmc/kernels/hadamard.h"
#include "tests/ir/rows.h"

namespace llmc::ir {
namespace {

constexpr std::int64_t kSuperblock = 256;

std::vector<float> random_row(std::int64_t columns, std::uint64_t seed) {
  return to_floats(*make_random({1, columns}, seed, 1));
}

TEST(Hadamard, ProductsStayAsTheyAre) {
  for (const std::int64_t columns : {32, 64, 77, 96, 128, 256, 288, 300, 640}) {
    const ConstantPtr weight = make_random({3, columns}, 1, 1);
    const ConstantPtr transformed = hadamard_weight(weight, kSuperblock);
    std::vector<float> x = random_row(columns, 2), y = x;
    hadamard_input(y, kSuperblock);
    EXPECT_EQ(x != y, has_hadamard_basis(columns, kSuperblock)) << columns;
    for (std::int64_t row = 0; row < 3; ++row) {
      const auto w = rows_of(*weight, row, 1), v = rows_of(*transformed, row, 1);
      double want = 0, got = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        want += static_cast<double>(w[k]) * static_cast<double>(x[k]);
        got += static_cast<double>(v[k]) * static_cast<double>(y[k]);
      }
      EXPECT_NEAR(got, want, 2e-5) << columns;
    }
  }
}

TEST(Hadamard, IsThatOfTheKernels) {
  for (std::size_t columns = 1; columns < 600; ++columns)
    for (std::size_t super = 0; super < super_count(columns); ++super) {
      const std::size_t left = std::min(columns - super * kSuper, kSuper);
      EXPECT_EQ(llmc::hadamard_size(columns, super),
                static_cast<std::size_t>(hadamard_size(static_cast<std::int64_t>(left))));
    }
  const auto expect_same = [](auto transform, std::size_t n) {
    const std::vector<float> x = random_row(static_cast<std::int64_t>(n), n);
    std::vector<float> got = x, want(n);
    hadamard_input(got, kSuperblock);
    transform(x.data(), want.data());
    for (std::size_t k = 0; k < n; ++k) EXPECT_EQ(got[k], want[k] * hadamard_scale(n)) << n;
  };
  expect_same(llmc::hadamard<32>, 32);
  expect_same(llmc::hadamard<64>, 64);
  expect_same(llmc::hadamard<128>, 128);
  expect_same(llmc::hadamard<256>, 256);
}

TEST(Hadamard, KeepsGroupsThatAreNotFinite) {
  std::vector<float> values = to_floats(*make_random({2, 64}, 3, 1));
  values[3] = INFINITY;
  const ConstantPtr finite = make_random({2, 64}, 3, 1);
  const auto got = to_floats(*hadamard_weight(make_f32({2, 64}, values), kSuperblock));
  const auto want = to_floats(*hadamard_weight(finite, kSuperblock));
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(got[i], i < 64 ? values[i] : want[i]) << i;
}

TEST(Hadamard, ASumThatOverflowsIsNotFinite) {
  std::vector<float> values(64);
  for (std::size_t i = 0; i < 64; ++i) values[i] = (i & 24) == 24 ? -0x1p125f : 0x1p125f;
  const auto got = to_floats(*hadamard_weight(make_f32({1, 64}, values), kSuperblock));
  EXPECT_FALSE(std::isfinite(got[0]));
}

TEST(Hadamard, IsReadFromText) {
  const auto graph = [](const std::string& data) {
    return "graph @g() {\n  %w = constant f32[2, 32] hadamard(" + data + ")\n  return %w\n}\n";
  };
  const std::string text = graph("f16[2, 32] splat(0.5), 256");
  const auto parsed = parse(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(print(*parsed), text);
  for (const char* bad : {"f32[64] splat(1), 256", "i8[2, 32] splat(1), 256",
                          "f32[2, 32] splat(1), 0", "f32[2, 32] splat(1)"})
    EXPECT_FALSE(parse(graph(bad)).ok()) << bad;
}

}  // namespace
}  // namespace llmc::ir
