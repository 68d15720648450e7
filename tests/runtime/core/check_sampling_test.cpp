#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "tests/runtime/core/sampling.h"

namespace llmc::core {
namespace {

TEST(CheckSampling, RefusesFloatsThatAreNotFinite) {
  // Every float of the struct; a parameter that is added needs a name here to compile.
  llmc_sampling all{};
  auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v] = all;
  int floats = 0;
  const auto refuses = [&](auto& field) {
    if constexpr (std::is_same_v<decltype(field), float&>) {
      ++floats;
      EXPECT_EQ(check_sampling(all), LLMC_OK);
      for (const float bad : {kNan, kInf, -kInf}) {
        field = bad;
        EXPECT_EQ(check_sampling(all), LLMC_ERROR_SAMPLING) << floats;
      }
      field = 0;
    }
  };
  const auto each = [&](auto&... fields) { (refuses(fields), ...); };
  each(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v);
  EXPECT_EQ(floats, 14);
}

TEST(CheckSampling, RefusesWhatMakesNoSense) {
  const auto status = [](auto set) { return check_sampling(sampling(set)); };
  llmc_sampling usual;
  llmc_sampling_defaults(&usual);
  EXPECT_EQ(check_sampling(usual), LLMC_OK);
  EXPECT_EQ(status([](auto&) {}), LLMC_OK);
  EXPECT_EQ(status([](auto& s) { s.repeat_penalty = -0.5f; }), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status([](auto& s) { s.repeat_last_n = -2; }), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status([](auto& s) { s.dry_penalty_last_n = -2; }), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status([](auto& s) { s.dry_allowed_length = -1; }), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status([](auto& s) { s.mirostat = 3; }), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status([](auto& s) { s.mirostat = -1; }), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status([](auto& s) { s.reserved[0] = 1; }), LLMC_ERROR_VERSION);
}

TEST(CheckSampling, RefusesOrdersThatCannotBe) {
  const auto status = [](const std::vector<std::uint8_t>& order) {
    return check_sampling(
        sampling([&](auto& s) { std::copy(order.begin(), order.end(), s.samplers); }));
  };
  for (const int order : {LLMC_SAMPLERS_DEFAULT, LLMC_SAMPLERS_2024, LLMC_SAMPLERS_TODAY}) {
    llmc_sampling s{};
    EXPECT_EQ(llmc_sampling_order(&s, order), LLMC_OK);
    EXPECT_EQ(check_sampling(s), LLMC_OK);
  }
  EXPECT_EQ(status({LLMC_SAMPLER_TEMPERATURE, LLMC_SAMPLER_TOP_K}), LLMC_OK);
  EXPECT_EQ(status({LLMC_SAMPLER_DRY, LLMC_SAMPLER_PENALTIES, LLMC_SAMPLER_TOP_K}), LLMC_OK);
  EXPECT_EQ(status(std::vector<std::uint8_t>(16, LLMC_SAMPLER_TOP_P)), LLMC_OK);
  EXPECT_EQ(status({10}), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status({LLMC_SAMPLER_TOP_K, 0, LLMC_SAMPLER_TOP_P}), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status({0, LLMC_SAMPLER_TOP_P}), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status({LLMC_SAMPLER_TOP_K, LLMC_SAMPLER_PENALTIES}), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status({LLMC_SAMPLER_TEMPERATURE, LLMC_SAMPLER_DRY}), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(llmc_sampling_order(nullptr, 0), LLMC_ERROR_ARGUMENT);
  llmc_sampling s{};
  EXPECT_EQ(llmc_sampling_order(&s, 3), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_sampling_order(&s, -1), LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::core
