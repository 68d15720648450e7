#include "compiler/reference/functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace llmc::reference {
namespace {

/// Compares `f` with `known` at many places between `low` and `high`: relative to the value or,
/// near its zeros, to `floor`.
void expect_near(double (*f)(double), double (*known)(double), double low, double high,
                 double floor = 0) {
  for (int i = 0; i <= 20000; ++i) {
    const double x = low + (high - low) * i / 20000;
    const double wanted = known(x), error = std::fabs(f(x) - wanted);
    ASSERT_LE(error, 2e-15 * std::fmax(std::fabs(wanted), floor)) << x << " " << f(x);
  }
}

TEST(Functions, AreWithinAFewUnitsOfTheLibrarys) {
  expect_near(exact_exp, std::exp, -700, 700);
  expect_near(exact_exp, std::exp, -1, 1);
  expect_near(exact_tanh, std::tanh, -20, 20);
  expect_near(exact_tanh, std::tanh, -0.3, 0.3);
  expect_near(exact_erf, std::erf, -7, 7);
  expect_near(exact_erf, std::erf, -1e-3, 1e-3);
  for (const double far : {1.0, 100.0, 1e5, 4e6}) {
    expect_near(exact_sin, std::sin, -far, far, 1);
    expect_near(exact_cos, std::cos, -far, far, 1);
  }
}

TEST(Functions, AcceptEveryNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(exact_exp(-kInfinity), 0);
  EXPECT_EQ(exact_exp(kInfinity), kInfinity);
  EXPECT_EQ(exact_exp(709.9), kInfinity);
  EXPECT_EQ(exact_exp(-746), 0);
  EXPECT_NEAR(exact_exp(-744) / std::exp(-744.0), 1, 0.5);  // subnormal
  EXPECT_EQ(exact_tanh(kInfinity), 1);
  EXPECT_EQ(exact_tanh(-kInfinity), -1);
  EXPECT_EQ(exact_erf(-kInfinity), -1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto f : {exact_exp, exact_tanh, exact_erf, exact_sin, exact_cos})
    EXPECT_TRUE(std::isnan(f(nan)));
  EXPECT_TRUE(std::isnan(exact_sin(kInfinity)));
  EXPECT_EQ(exact_cos(5e6), std::cos(5e6));
}

}  // namespace
}  // namespace llmc::reference
