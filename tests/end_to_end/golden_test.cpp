// One golden file for all targets: what the shipped model says is compared with it by equality, on
// this machine's processor and under emulators.
#include "compiler/driver/golden.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "compiler/evaluate/verify.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

class GoldenHashes : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenHashes, AreThisTargets) {
  const target::Target& target = **target::find(GetParam());
  if (!executable(target) && target.emulator.empty()) GTEST_SKIP() << without_emulator(target);
  if (!executable(target)) LLMC_MISSING_CROSS(without_emulator(target));
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  const auto golden = driver::read_golden(driver::default_golden_file(tinyfable()));
  ASSERT_TRUE(golden.ok());
  std::uint32_t threads = 1;
  std::vector<passes::QuantScheme> formats{passes::kQ4Mixed, ir::WeightFormat::kQ6,
                                           ir::WeightFormat::kQ8, ir::WeightFormat::kF16,
                                           ir::WeightFormat::kF32};
  if (target::runs_here(target)) formats.emplace_back(ir::WeightFormat::kQ4);
  for (const passes::QuantScheme format : formats) {
    evaluate::VerifyOptions options;
    options.native.compile = options_for(tinyfable(), GetParam(), format);
    options.native.compile.ctx = 256;
    options.reference = false;
    options.long_run = target::runs_here(target);  // takes long under an emulator
    options.native.compile.cflags = {"-O1"};       // -O0 runs longer than it saves
    options.threads = threads;
    threads = threads % 4 + 1;
    const auto report = evaluate::verify_model(options);
    if (!report.ok()) expect_ok(report.error());
    ASSERT_TRUE(report.ok());
    for (const evaluate::VerifyRun& run : report->runs) {
      ASSERT_TRUE(golden->hashes.contains(run.golden_key))
          << "llmc verify models/tinyfable --quant=" << run.golden_key << " --update writes it";
      EXPECT_EQ(run.hash, golden->hashes.at(run.golden_key)) << run.golden_key;
      EXPECT_TRUE(run.chunks_ok());
    }
    EXPECT_EQ(report->runs.size(), options.long_run ? 2u : 1u);
  }
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const target::Target& target : target::all()) names.emplace_back(target.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Targets, GoldenHashes, ::testing::ValuesIn(target_names()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace llmc::tests
