#include "compiler/quant/block_fit.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/quant/rows.h"

namespace llmc::quant {
namespace {

std::vector<std::uint32_t> bits_of(const Rounded& r, bool all) {
  std::vector<std::uint32_t> bits{std::bit_cast<std::uint32_t>(r.error),
                                  std::bit_cast<std::uint32_t>(r.c)};
  if (all) {
    bits.push_back(std::bit_cast<std::uint32_t>(r.cc));
    bits.push_back(std::bit_cast<std::uint32_t>(r.cw));
  }
  return bits;
}

FitBlock block_of(std::size_t width, unsigned seed, bool importance) {
  const std::vector<float> weights = gaussian(width, seed);
  std::vector<float> q = importance ? gaussian(width, seed + 1000) : std::vector<float>();
  for (float& x : q) x *= x;
  return FitBlock(weights, q);
}

// A block's sums do not depend on the other block or on the instruction set.
TEST(Rounders, GiveTheSameBits) {
  ASSERT_FALSE(rounders().empty());
  std::vector<FitBlock> blocks;
  for (unsigned i = 0; i < 40; ++i)
    blocks.push_back(block_of(i % 5 == 4 ? 1 + i % 31 : kFitWidth, i, i % 7 == 6));
  const auto fit_of = [](const FitBlock& b, float steps) {
    return Fit{(b.high() - b.low()) / steps, b.low()};
  };
  for (const float steps : {15.0f, 3.0f, 40.0f}) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const FitBlock& a = blocks[i];
      const FitBlock& b = blocks[(i * 7 + 3) % blocks.size()];
      const FitPair fits{fit_of(a, steps), fit_of(b, steps)};
      RoundedPair alone{};
      rounders().front().round({&a, &a}, {fits[0], fits[0]}, Sums::kAll, alone);
      for (const Rounder& rounder : rounders()) {
        for (const Sums sums : {Sums::kAll, Sums::kErrorAndCodes}) {
          const bool all = sums == Sums::kAll;
          RoundedPair together{}, swapped{};
          rounder.round({&a, &b}, fits, sums, together);
          rounder.round({&b, &a}, {fits[1], fits[0]}, sums, swapped);
          EXPECT_EQ(bits_of(together[0], all), bits_of(alone[0], all)) << rounder.name << " " << i;
          EXPECT_EQ(bits_of(swapped[1], all), bits_of(alone[0], all)) << rounder.name << " " << i;
          EXPECT_EQ(bits_of(swapped[0], all), bits_of(together[1], all)) << rounder.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace llmc::quant
