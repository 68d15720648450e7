#include <gmock/gmock.h>

#include <map>
#include <memory>
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

void expect_bits_of_generic(LlmcKernelBitsFunction* bits) {
  const Results generic = run(llmc_kernel_bits_generic);
  const Results found = run(bits);
  ASSERT_EQ(generic.size(), found.size());
  ASSERT_GT(generic.size(), 500u);
  for (std::size_t i = 0; i < generic.size(); ++i) {
    EXPECT_STREQ(generic[i].name, found[i].name);
    EXPECT_EQ(generic[i].hash, found[i].hash) << generic[i].name << ", " << generic[i].tokens
                                              << " tokens, " << generic[i].threads << " threads";
  }
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

TEST(CrossTest, GenericAndAvx2ComputeTheSameBits) {
  if (!has_avx2()) GTEST_SKIP() << "this CPU has no AVX2, FMA and F16C";
  expect_bits_of_generic(llmc_kernel_bits_avx2);
}

TEST(CrossTest, LevelsComputeTheSameBits) {
  expect_bits_of_generic(llmc_kernel_bits_generic_1);
  if (!has_avx2()) GTEST_SKIP() << "this CPU has no AVX2, FMA and F16C";
  expect_bits_of_generic(llmc_kernel_bits_avx2_2);
}

struct Wide {
  const char* name;
  int (*here)();
  LlmcKernelBitsFunction *bits, *level_2;
};
class WideTargets : public testing::TestWithParam<Wide> {};

TEST_P(WideTargets, ComputeTheSameBits) {
  if (!GetParam().here())
    GTEST_SKIP() << "this processor lacks what " << GetParam().name << " needs";
  expect_bits_of_generic(GetParam().bits);
  if (GetParam().level_2 != nullptr) expect_bits_of_generic(GetParam().level_2);
}

INSTANTIATE_TEST_SUITE_P(CrossTest, WideTargets,
                         testing::Values(Wide{"avxvnni", cpu_has_avxvnni, llmc_kernel_bits_avxvnni,
                                              nullptr},
                                         Wide{"avx512", cpu_has_avx512, llmc_kernel_bits_avx512,
                                              llmc_kernel_bits_avx512_2}),
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
  EXPECT_EQ(seen.size(), 4u);
}

}  // namespace
}  // namespace llmc::test
