#include "tests/function/made_up.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>

#include "compiler/ir/constant_data.h"
#include "compiler/reference/interpreter.h"

namespace llmc::function_test {
namespace {

std::uint64_t next(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

ir::ConstantPtr made_up(const ir::TensorType& type, bool specials, std::uint64_t& state) {
  constexpr double kSpecial[] = {0.0,  -0.0, 1.0,   HUGE_VAL, -HUGE_VAL, NAN,
                                 1e30, -1e5, 1e-40, 0.5,      2.5,       -88.0};
  std::vector<std::int64_t> dims;
  for (const ir::Dim& dim : type.dims) dims.push_back(*dim.constant());
  const std::int64_t count = *ir::element_count(type);
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = next(state);
    std::vector<std::byte> element(ir::element_bytes(type.element));
    if (ir::is_float(type.element)) {
      const bool special = specials && i < static_cast<std::int64_t>(std::size(kSpecial));
      const double value =
          special ? kSpecial[i] : static_cast<double>(bits >> 11) * 0x1p-53 * 6 - 3;
      element = ir::element_from_double(type.element, value);
    } else if (type.element == ir::ElementType::kBool) {
      element[0] = static_cast<std::byte>(bits & 1);
    } else {
      std::memcpy(element.data(), &bits, element.size());
    }
    bytes.insert(bytes.end(), element.begin(), element.end());
  }
  return ir::make_constant(type.element, dims, std::move(bytes));
}

void expect_close(const reference::Tensor& want, const ir::Constant& got, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(want.dims, got.dims()) << what;
  ASSERT_EQ(want.element, got.element()) << what;
  const reference::Tensor have = reference::to_tensor(got);
  ASSERT_EQ(want.integers, have.integers) << what;
  const std::vector<double> a = ir::to_doubles(*reference::to_constant(want)),
                            b = ir::to_doubles(got);
  double largest = 0;
  for (const double x : a)
    if (std::isfinite(x) && std::fabs(x) < 1e20) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < a.size() && ir::is_float(want.element); ++i) {
    if (std::isnan(a[i])) {
      EXPECT_TRUE(std::isnan(b[i])) << what << " at " << i << ": " << b[i] << " is no NaN";
    } else if (std::isinf(a[i]) || std::isinf(b[i])) {
      EXPECT_EQ(a[i], b[i]) << what << " at " << i;
    } else {
      EXPECT_LE(std::fabs(a[i] - b[i]), tolerance * std::max(largest, std::fabs(a[i])))
          << what << " at " << i << ": " << b[i] << " instead of " << a[i];
    }
  }
}

}  // namespace llmc::function_test
