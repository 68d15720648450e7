#include "llmc/math.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness.h"
#include "llmc/function/activation.h"

namespace llmc::test {
namespace {

/// Steps through the floats, and fewer of all else, where an emulator computes: the operations are
/// the same on every target, so a machine with the instructions is where accuracy is looked at
/// closely.
constexpr std::uint32_t kStep = kEmulated ? 9973 : 997, kSinStep = kEmulated ? 4999 : 499;
constexpr int kPart = kEmulated ? 7 : 1;

/// Distance of `got` from `want` in units of the last place of a float of want's size.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want == 0 ? 0x1p-149 : want), -126);
  return std::abs(got - want) / std::ldexp(1.0, exponent - 23);
}

TEST(SinCosTest, KnowsEveryPositionOfTheLargestContext) {
  constexpr std::uint32_t kLargestContext = 1u << 22;  // plan::kMaxContext
  const SinCos last = sincos(static_cast<float>(kLargestContext - 1));
  EXPECT_NEAR(last.sin, std::sin(kLargestContext - 1.0), 1e-6);
  EXPECT_NEAR(last.cos, std::cos(kLargestContext - 1.0), 1e-6);
  EXPECT_TRUE(std::isnan(sincos(static_cast<float>(kLargestContext)).sin));
}

TEST(MathTest, ExpIsWithinOneUlp) {
  // From -103.9 to 88.7.
  double worst = 0;
  const auto check = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t b = from; b < to; b += kStep) {
      const float x = bits_float(b);
      worst = std::max(worst, ulps(exp(x), std::exp(static_cast<double>(x))));
    }
  };
  check(0, bits_of(88.72f));
  check(0x80000000u, bits_of(-87.3f));
  EXPECT_LT(worst, 1.0);
  check(bits_of(-87.3f), bits_of(-103.9f));  // subnormal results
  EXPECT_LT(worst, 1.01);
  RecordProperty("worst_ulp_x1000", static_cast<int>(worst * 1000));
}

TEST(MathTest, ExpAtTheEnds) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(-INFINITY), 0.0f);
  EXPECT_EQ(exp(-200.0f), 0.0f);
  EXPECT_EQ(exp(-3e38f), 0.0f);
  EXPECT_EQ(exp(INFINITY), INFINITY);
  EXPECT_EQ(exp(88.8f), INFINITY);
  EXPECT_EQ(exp(3e38f), INFINITY);
  EXPECT_TRUE(std::isnan(exp(NAN)));
}

TEST(MathTest, ExpOfNonPositiveNumbers) {
  double worst = 0;
  for (std::uint32_t b = 0x80000000u; b <= bits_of(-87.0f); b += kStep) {
    const float x = bits_float(b);
    worst = std::max(worst, ulps(exp_nonpositive(x), std::exp(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_EQ(exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(exp_nonpositive(-0.0f), 1.0f);
  EXPECT_GT(exp_nonpositive(-87.0f), 1e-38f);
  for (const float x : {-87.01f, -100.0f, -1e30f, -INFINITY}) EXPECT_EQ(exp_nonpositive(x), 0.0f);
  EXPECT_TRUE(std::isnan(exp_nonpositive(NAN)));
}

TEST(MathTest, SinCosAreNearlyCorrectlyRounded) {
  double worst = 0;
  const auto check = [&](float x) {
    const SinCos got = sincos(x);
    worst = std::max(worst, ulps(got.sin, std::sin(static_cast<double>(x))));
    worst = std::max(worst, ulps(got.cos, std::cos(static_cast<double>(x))));
  };
  for (std::uint32_t b = 0; b < bits_of(100000.0f); b += kSinStep) {
    check(bits_float(b));
    check(-bits_float(b));
  }
  // Next to multiples of pi/2, where the result is small.
  for (int n = 1; n < 63000; n += kPart) check(static_cast<float>(n * 1.57079632679489661923));
  EXPECT_LT(worst, 0.51);
  RecordProperty("worst_ulp_x1000", static_cast<int>(worst * 1000));
}

TEST(MathTest, SinCosOfWhatHasNone) {
  for (const float x : {INFINITY, -INFINITY, NAN, 1e9f}) {
    EXPECT_TRUE(std::isnan(sincos(x).sin));
    EXPECT_TRUE(std::isnan(sincos(x).cos));
  }
  EXPECT_EQ(sincos(0.0f).cos, 1.0f);
  EXPECT_EQ(sincos(0.0f).sin, 0.0f);
}

TEST(MathTest, SigmoidAndSilu) {
  double worst_sigmoid = 0, worst_silu = 0;
  for (int i = -80000; i <= 80000; i += kPart) {
    const float x = static_cast<float>(i) * 1e-3f;
    const double want = 1 / (1 + std::exp(-static_cast<double>(x)));
    float got[8];
    store(got, sigmoid(splat(x)));
    worst_sigmoid = std::max(worst_sigmoid, ulps(got[0], want));
    store(got, silu(splat(x)));
    worst_silu = std::max(worst_silu, ulps(got[3], x * want));
  }
  EXPECT_LT(worst_sigmoid, 3);
  EXPECT_LT(worst_silu, 3);
  float got[8];
  store(got, silu(splat(-1e30f)));
  EXPECT_EQ(got[0], 0.0f);  // not NaN
  store(got, silu(splat(1e30f)));
  EXPECT_EQ(got[0], 1e30f);
}

/// Largest error of f over every kStep-th float from -limit to limit, in ulp of a result of at
/// least `smallest`.
double worst_ulps(F32x8 (*f)(F32x8), double (*exact)(double), float limit, double smallest) {
  double worst = 0;
  for (std::uint32_t b = 0; b < bits_of(limit); b += 4 * kStep) {
    float x[8], got[8];
    for (std::uint32_t i = 0; i < 8; ++i) {
      x[i] = bits_float(std::min(b + i / 2 * kStep, bits_of(limit)) | i % 2 << 31);
    }
    store(got, f(load(x)));
    for (std::size_t i = 0; i < 8; ++i) {
      const double want = exact(static_cast<double>(x[i]));
      const int exponent = std::ilogb(std::max(std::abs(want), smallest));
      worst = std::max(worst, std::abs(got[i] - want) / std::ldexp(1.0, exponent - 23));
    }
  }
  return worst;
}

TEST(MathTest, TanhAndErf) {
  EXPECT_LT(worst_ulps(tanh, std::tanh, 1e30f, 0x1p-126), 1.3);
  EXPECT_LT(worst_ulps(erf, std::erf, 1e30f, 0x1p-126), 1.0);
  for (F32x8 (*f)(F32x8) : {tanh, erf}) {
    float got[8];
    store(got, f(splat(INFINITY)));
    EXPECT_EQ(got[0], 1.0f);
    store(got, f(splat(-INFINITY)));
    EXPECT_EQ(got[0], -1.0f);
    store(got, f(splat(-0.0f)));
    EXPECT_EQ(got[0], 0.0f);
    store(got, f(splat(NAN)));
    EXPECT_TRUE(std::isnan(got[7]));
  }
}

TEST(MathTest, Gelu) {
  // Where x is far below 0 the factor next to x is a difference of numbers near 1: as in every
  // implementation in floats, the error is small relative to x, not to the result.
  const auto relative_to_x = [](F32x8 (*f)(F32x8), double (*exact)(double)) {
    double worst = 0;
    for (int i = -60000; i <= 60000; i += kPart) {
      const float x = static_cast<float>(i) * 5e-4f;
      float got[8];
      store(got, f(splat(x)));
      worst = std::max(worst, std::abs(got[5] - exact(static_cast<double>(x))) /
                                  std::max(1e-30, std::abs(static_cast<double>(x))));
    }
    return worst;
  };
  const auto by_erf = [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); };
  const auto by_tanh = [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_LT(relative_to_x(gelu, by_erf), 1.2e-7);
  EXPECT_LT(relative_to_x(gelu_tanh, by_tanh), 1.2e-7);
  for (F32x8 (*f)(F32x8) : {gelu, gelu_tanh}) {
    float got[8];
    store(got, f(splat(-1e15f)));
    EXPECT_EQ(got[0], 0.0f);  // not NaN
    store(got, f(splat(1e15f)));
    EXPECT_EQ(got[0], 1e15f);
  }
}

double exact_gelu(double x) {
  return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
}
double exact_gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double exact_silu(double x) {
  return x / (1 + std::exp(-x));
}

/// Errors of an activation: beside |x|, and relative to results above 1e-6.
struct ActivationErrors {
  double beside_x = 0, relative = 0;
};
ActivationErrors errors_of(float (*f)(float), double (*exact)(double)) {
  ActivationErrors worst;
  for (std::uint32_t b = bits_of(1e-30f); b < bits_of(1e4f); b += kStep) {
    for (const float x : {bits_float(b), -bits_float(b)}) {
      const double want = exact(static_cast<double>(x));
      const double error = std::abs(static_cast<double>(f(x)) - want);
      worst.beside_x = std::max(worst.beside_x, error / std::abs(static_cast<double>(x)));
      if (std::abs(want) > 1e-6) worst.relative = std::max(worst.relative, error / std::abs(want));
    }
  }
  return worst;
}

TEST(MathTest, ActivationsOfLoops) {
  const ActivationErrors gelu = errors_of(function::single::gelu, exact_gelu),
                         gelu_tanh = errors_of(function::single::gelu_tanh, exact_gelu_tanh),
                         silu = errors_of(function::single::silu, exact_silu);
  EXPECT_LT(gelu.beside_x, 1.2e-7);
  EXPECT_LT(gelu.relative, 7e-5);
  EXPECT_LT(gelu_tanh.beside_x, 1.2e-7);
  EXPECT_LT(gelu_tanh.relative, 3e-6);
  EXPECT_LT(silu.relative, 1.7e-7);
  for (float (*f)(float) :
       {function::single::gelu, function::single::gelu_tanh, function::single::silu}) {
    EXPECT_EQ(f(-1e15f), 0.0f);
    EXPECT_EQ(f(1e15f), 1e15f);
    EXPECT_TRUE(std::signbit(f(-0.0f)));
    EXPECT_EQ(f(INFINITY), INFINITY);
    EXPECT_TRUE(std::isnan(f(NAN)));
  }
}

TEST(MathTest, ActivationsOfLoopsUseTheExponentsRange) {
  EXPECT_EQ(function::single::exp(-87.01f), 0.0f);
  EXPECT_GT(function::single::exp(-87.0f), 1.17549435e-38f);
  EXPECT_LT(function::single::exp(88.0f), INFINITY);
  EXPECT_EQ(function::single::exp(88.01f), INFINITY);
}

TEST(MathTest, RoundingIsToNearestEven) {
  for (int i = -2000; i <= 2000; ++i) {
    const float x = static_cast<float>(i) / 16;
    std::int32_t got[8];
    store_i32(got, round_to_i32(splat(x)));
    EXPECT_EQ(got[5], static_cast<std::int32_t>(std::nearbyint(x)));
  }
}

}  // namespace
}  // namespace llmc::test
