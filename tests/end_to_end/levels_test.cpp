// Levels of optimization: kernels and whole models have the same bits on all of them.
#include <gtest/gtest.h>

#include "compiler/bench/kernel_bench.h"
#include "compiler/evaluate/verify.h"
#include "compiler/plan/weights.h"
#include "llmc/quant/random.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"
#include "tests/kernels/reference.h"

namespace llmc::tests {
namespace {

/// Hash of the documented arithmetic, one number at a time.
template <WeightKind kKind, std::size_t kRows, std::size_t kColumns>
std::uint64_t plain_hash(std::size_t tokens) {
  using W = Weight<kKind, packed_rows(kRows), kColumns>;
  std::vector<unsigned char> weights(W::bytes);
  packing::fill_weight<W>(weights.data(), kRows, bench::kGemmWeightSeed);
  std::vector<float> y;
  for (std::size_t t = 0; t < tokens; ++t) {
    std::vector<float> x(kColumns);
    for (std::size_t k = 0; k < kColumns; ++k)
      x[k] = packing::random_float(bench::kGemmInputSeed, t * kColumns + k);
    const std::vector<float> row = test::reference_product<W>(weights.data(), x.data());
    y.insert(y.end(), row.begin(), row.begin() + kRows);
  }
  return packing::hash_of(y.data(), y.size());
}

template <std::size_t kRows, std::size_t kColumns>
std::uint64_t plain_hash(WeightKind format, std::size_t tokens) {
  switch (format) {
    case WeightKind::kF32:
      return plain_hash<WeightKind::kF32, kRows, kColumns>(tokens);
    case WeightKind::kF16:
      return plain_hash<WeightKind::kF16, kRows, kColumns>(tokens);
    case WeightKind::kQ8:
      return plain_hash<WeightKind::kQ8, kRows, kColumns>(tokens);
    case WeightKind::kQ4:
      return plain_hash<WeightKind::kQ4, kRows, kColumns>(tokens);
  }
  EXPECT_EQ(format, coded_weight(kSixBits));
  return plain_hash<coded_weight(kSixBits), kRows, kColumns>(tokens);
}

TEST(Levels, AKernelIsThePlainSumOnAllOfThem) {
  constexpr std::size_t kRows = 43, kColumns = 300;
  // Level 1 is generic's for all, level 2 avx2's but for its dot products. Generic's other levels,
  // and the others' level 3, are compared by tests/kernels.
  for (const char* target : {"avx2", "amx"}) {
    if (!target::runs_here(**target::find(target))) continue;
    for (const std::size_t tokens : {1u, 15u}) {
      bench::KernelBenchOptions options;
      options.shape = {.rows = kRows, .columns = kColumns, .tokens = tokens};
      options.formats = {WeightKind::kF32, WeightKind::kF16, WeightKind::kQ8,
                         coded_weight(kSixBits), WeightKind::kQ4};
      options.target = target;
      options.threads = {1, 3};
      options.repetitions = 1;
      options.cflags = {"-O1"};
      const auto report = bench::bench_gemm(options);
      if (!report.ok()) expect_ok(report.error());
      ASSERT_TRUE(report.ok());
      ASSERT_EQ(report->results.size(), 5u * 2 * 3);
      for (const bench::KernelTimes& times : report->results) {
        const std::uint64_t expected = plain_hash<kRows, kColumns>(times.format, tokens);
        EXPECT_EQ(times.hash, expected)
            << target << " " << plan::to_string(times.format) << " level " << times.level
            << " threads " << times.threads << " tokens " << tokens;
        EXPECT_EQ(times.seconds.size(), 1u);
        EXPECT_GT(times.median_seconds(), 0);
      }
      EXPECT_EQ(bench::find_mismatch(*report).first, nullptr);
    }
  }
}

TEST(Levels, AnotherProcessorsKernelIsThePlainSumToo) {
  constexpr std::size_t kRows = 21, kColumns = 290, kTokens = 9;
  bool some = false;
  for (const char* target : {"arm64", "arm64-i8mm", "lasx"}) {
    bench::KernelBenchOptions options;
    options.shape = {.rows = kRows, .columns = kColumns, .tokens = kTokens};
    options.target = target;
    options.repetitions = 1;
    options.cflags = {"-O1"};
    const std::string emulator((*target::find(target))->emulator);
    if (!std::filesystem::exists(cross_folder() / "bin" / emulator)) continue;
    ::setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);  // as for llmc itself
    some = true;
    const auto report = bench::bench_gemm(options);
    if (!report.ok()) expect_ok(report.error());
    ASSERT_TRUE(report.ok());
    ASSERT_EQ(report->results.size(), 2u * 3);
    for (const bench::KernelTimes& times : report->results) {
      EXPECT_EQ(times.hash, (plain_hash<kRows, kColumns>(times.format, kTokens)))
          << target << " " << plan::to_string(times.format) << " level " << times.level;
      if (times.instructions) {
        EXPECT_TRUE(times.seconds.empty());
        EXPECT_GT(times.instructions->all, times.instructions->vector);
      } else {
        EXPECT_EQ(times.seconds.size(), 1u);
      }
    }
    if (const bench::KernelTimes& first = report->results[0]; first.instructions) {
      const bench::KernelTimes& last = report->results[2];
      EXPECT_LT(last.instructions->all, first.instructions->all) << target;
    }
    options.threads = {2};
    const auto threads = bench::bench_gemm(options);
    ASSERT_FALSE(threads.ok());
    EXPECT_EQ(threads.error().first().kind, ErrorKind::kUsage);
  }
  if (!some)
    LLMC_MISSING_CROSS("no emulator: tools/cross.sh fetches them, LLMC_CROSS_DIR names them");
}

TEST(Levels, DifferentBitsAreFound) {
  bench::KernelBenchReport report;
  report.results = {{.format = WeightKind::kQ4, .level = 1, .seconds = {}, .hash = 1},
                    {.format = WeightKind::kF32, .level = 1, .seconds = {}, .hash = 2},
                    {.format = WeightKind::kF32, .level = 3, .seconds = {}, .hash = 2}};
  EXPECT_EQ(bench::find_mismatch(report).first, nullptr);
  report.results[2].hash = 3;
  const auto [one, other] = bench::find_mismatch(report);
  EXPECT_EQ(one, &report.results[1]);
  EXPECT_EQ(other, &report.results[2]);
}

class LevelsOfAModel : public ::testing::TestWithParam<ir::WeightFormat> {};

/// Prompts of several chunks on several threads and steps, on each level.
TEST_P(LevelsOfAModel, HaveTheSameBits) {
  const ModelFolder folder({.layers = 1, .heads = 6, .kv_heads = 2, .head_dim = 20, .hidden = 44});
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < 70; ++i) prompt.push_back((i * 37 + 5) % 90);
  Generated expected;
  for (const char* target : {"generic", "avx2", "amx"}) {
    if (!target::runs_here(**target::find(target))) continue;
    std::uint64_t arena_bytes = 0;
    for (const std::uint32_t level : {1u, 2u, 3u}) {
      auto options = options_for(folder.path(), target, GetParam());
      options.opt_level = level;
      options.chunk = 64;
      const auto model = load(options);
      ASSERT_NE(model, nullptr);
      EXPECT_FALSE(model->from_cache()) << "each level is an entry of its own";
      // The emitted source asserts that its arena is the planned one.
      const auto plan = driver::plan_model(options);
      ASSERT_TRUE(plan.ok());
      if (arena_bytes == 0) arena_bytes = plan->arena_bytes;
      EXPECT_EQ(plan->arena_bytes, arena_bytes);
      for (const exec::SessionOptions& session :
           {exec::SessionOptions{.threads = 1, .chunk = 0}, {.threads = 3, .chunk = 7}}) {
        const Generated found = generate(*model, prompt, 6, session);
        if (expected.ids.empty()) expected = found;
        EXPECT_EQ(found.ids, expected.ids) << target << " level " << level;
        EXPECT_EQ(found.logit_hash, expected.logit_hash) << target << " level " << level;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LevelsOfAModel,
                         ::testing::Values(ir::WeightFormat::kF32, ir::WeightFormat::kQ4),
                         [](const auto& info) { return "format" + std::to_string(info.index); });

TEST(Levels, TheShippedModelHasItsStoredHashesOnAllOfThem) {
  for (const char* target : {"generic", "avx2", "avx512"}) {
    if (!target::runs_here(**target::find(target))) continue;
    for (const ir::WeightFormat format : {ir::WeightFormat::kF32, ir::WeightFormat::kF16,
                                          ir::WeightFormat::kQ8, ir::WeightFormat::kQ4}) {
      for (const std::uint32_t level : {1u, 2u}) {  // 3: GoldenHashes
        // The reference level is the same code for every target of an architecture.
        if (level == 1 && target != std::string_view("avx2")) continue;
        evaluate::VerifyOptions options;
        options.native.compile = options_for(tinyfable(), target, format);
        options.native.compile.opt_level = level;
        options.threads = 2;
        options.reference = false;
        options.long_run = false;
        const auto report = evaluate::verify_model(options);
        if (!report.ok()) expect_ok(report.error());
        ASSERT_TRUE(report.ok());
        const evaluate::VerifyRun& run = report->runs.front();
        EXPECT_TRUE(run.golden_hash.has_value());
        EXPECT_FALSE(run.golden_differs())
            << target << " " << run.golden_key << " level " << level << ": " << run.hash;
      }
    }
  }
}

}  // namespace
}  // namespace llmc::tests
