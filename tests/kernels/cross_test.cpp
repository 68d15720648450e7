#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string_view>
#include <tuple>
#include <vector>

#include "bits.h"
#include "llmc/cpu.h"

namespace llmc::test {
namespace {

using Results = std::vector<LlmcKernelBits>;

Results run(LlmcKernelBitsFunction* bits) {
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  const std::unique_ptr<unsigned char, Free> memory(
      static_cast<unsigned char*>(std::aligned_alloc(64, kLlmcBitsMemory)));
  std::fill_n(memory.get(), kLlmcBitsMemory, static_cast<unsigned char>(0xff));
  Results results;
  bits(
      memory.get(),
      [](void* user, const LlmcKernelBits* result) {
        static_cast<Results*>(user)->push_back(*result);
      },
      &results);
  return results;
}

/// What of generic's bits a target has: of level 3 all, or the products if the rest is another
/// target's; of the lower levels those for their tokens and threads.
enum class Part { kAll, kProducts, kLowerLevel };

void expect_bits_of_generic(LlmcKernelBitsFunction* bits, Part part) {
  const Results generic = run(llmc_kernel_bits_generic);
  const Results found = run(bits);
  ASSERT_GT(generic.size(), 500u);
  if (part == Part::kAll) ASSERT_EQ(found.size(), generic.size());
  ASSERT_GT(found.size(), part == Part::kProducts ? 950u : 150u);
  auto at = generic.begin();
  for (const LlmcKernelBits& result : found) {
    at = std::find_if(at, generic.end(), [&](const LlmcKernelBits& expected) {
      return std::tuple(std::string_view(expected.name), expected.tokens, expected.threads) ==
             std::tuple(std::string_view(result.name), result.tokens, result.threads);
    });
    ASSERT_NE(at, generic.end()) << result.name;
    EXPECT_EQ(at->hash, result.hash)
        << result.name << ", " << result.tokens << " tokens, " << result.threads << " threads";
    ++at;
  }
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

TEST(CrossTest, GenericAndAvx2ComputeTheSameBits) {
  if (!has_avx2()) GTEST_SKIP() << "this CPU has no AVX2, FMA and F16C";
  expect_bits_of_generic(llmc_kernel_bits_avx2, Part::kAll);
}

TEST(CrossTest, LevelsComputeTheSameBits) {
  expect_bits_of_generic(llmc_kernel_bits_generic_1, Part::kLowerLevel);
  if (!has_avx2()) GTEST_SKIP() << "this CPU has no AVX2, FMA and F16C";
  expect_bits_of_generic(llmc_kernel_bits_avx2_2, Part::kLowerLevel);
}

struct Wide {
  const char* name;
  int (*here)();
  Part part;
  LlmcKernelBitsFunction *bits, *level_2;

  friend void PrintTo(const Wide& c, std::ostream* out) { *out << c.name; }
};
class WideTargets : public testing::TestWithParam<Wide> {};

TEST_P(WideTargets, ComputeTheSameBits) {
  if (!GetParam().here())
    GTEST_SKIP() << "this processor lacks what " << GetParam().name << " needs";
  expect_bits_of_generic(GetParam().bits, GetParam().part);
  if (GetParam().level_2 != nullptr) expect_bits_of_generic(GetParam().level_2, Part::kLowerLevel);
}

INSTANTIATE_TEST_SUITE_P(CrossTest, WideTargets,
                         testing::Values(Wide{"avxvnni", cpu_has_avxvnni, Part::kProducts,
                                              llmc_kernel_bits_avxvnni, nullptr},
                                         Wide{"avx512", cpu_has_avx512, Part::kAll,
                                              llmc_kernel_bits_avx512, llmc_kernel_bits_avx512_2},
                                         Wide{"amx", cpu_has_amx, Part::kAll, llmc_kernel_bits_amx,
                                              nullptr}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CrossTest, ThreadsDoNotChangeBits) {
  std::map<std::tuple<std::string, std::size_t>, std::uint64_t> seen;
  for (const LlmcKernelBits& result : run(llmc_kernel_bits_generic)) {
    const auto [at, added] =
        seen.try_emplace(std::tuple(std::string(result.name), result.tokens), result.hash);
    EXPECT_EQ(at->second, result.hash)
        << result.name << ", " << result.tokens << " tokens, " << result.threads << " threads";
  }
}

TEST(CrossTest, ChunksAndBlocksDoNotChangeAttention) {
  std::map<std::string, std::uint64_t> seen;
  for (const LlmcKernelBits& result : run(llmc_kernel_bits_generic)) {
    if (std::string(result.name).find("attention") == std::string::npos) continue;
    const auto [at, added] = seen.try_emplace(result.name, result.hash);
    EXPECT_EQ(at->second, result.hash) << result.name << ", chunks of " << result.tokens;
  }
  EXPECT_EQ(seen.size(), 7u);
}

}  // namespace
}  // namespace llmc::test
