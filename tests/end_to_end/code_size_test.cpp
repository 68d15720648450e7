// What `llmc plan` says of memory: the code, against what it takes once it is compiled, and chunks.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/plan/kv_format.h"
#include "compiler/support/file.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance = 0.12;  // docs/memory.md says how near it is as a rule

/// Compiles a model and compares.
void expect_near(const fs::path& model, const char* target, passes::QuantScheme format,
                 const char* kv = "f32", std::uint32_t level = 3) {
  const testing::TemporaryFolder folder;
  driver::CompileOptions options = options_for(model, target, format);
  options.cflags.clear();
  options.opt_level = level;
  options.kv = *plan::parse_kv_formats(kv);
  options.weights = driver::WeightsStorage::kFile;
  options.out_dir = folder.path() / "bundle";
  const auto planned = driver::plan_model(options);
  const auto made = driver::compile_model(options);
  if (!planned.ok()) return expect_ok(planned.error());
  if (!made.ok()) return expect_ok(made.error());
  ASSERT_TRUE(planned->code_is_estimate);
  ASSERT_FALSE(made->plan.code_is_estimate);
  const double ratio =
      static_cast<double>(planned->code_bytes) / static_cast<double>(made->plan.code_bytes);
  EXPECT_LT(std::abs(ratio - 1), kTolerance)
      << model << " " << target << " at level " << level << ", cache " << kv << ": planned "
      << planned->code_bytes << ", has " << made->plan.code_bytes;
}

TEST(CodeSize, IsNearThePlanOnEveryArchitecture) {
  expect_near(tinyfable(), "avx2", passes::kQ4Mixed);
  expect_near(tinyfable(), "arm64", passes::kQ4Mixed, "K=int8,V=fp8");
  expect_near(tinyfable(), "lasx", ir::WeightFormat::kF16, "f16");
  expect_near(tinyfable(), "generic", ir::WeightFormat::kQ8, "f32", 1);
}

TEST(CodeSize, IsNearThePlanOfAnotherModel) {
  const fs::path model = shared_folder() / "models/stories15M-split";
  if (!fs::exists(model)) GTEST_SKIP() << "there is no " << model;
  expect_near(model, "avx512", passes::kQ4Mixed, "int8");
  expect_near(model, "avx2", ir::WeightFormat::kF32);
  expect_near(model, "lasx", passes::kQ4Mixed, "f32", 2);
}

TEST(PlannedChunk, IsNotLongerThanTheContext) {
  const auto chunk = [](std::uint32_t ctx, std::uint32_t batch, std::uint32_t given) {
    driver::CompileOptions options = options_for(tinyfable(), "avx2", passes::kQ4Mixed);
    options.ctx = ctx;
    options.sequences = options.batch = batch;
    options.chunk = given;
    const auto planned = driver::plan_model(options);
    if (!planned.ok()) expect_ok(planned.error());
    return planned.ok() ? planned->options.chunk : 0;
  };
  const std::uint32_t usual = chunk(384, 1, 0);
  EXPECT_GT(usual, 24u);
  EXPECT_EQ(chunk(16, 1, 0), 16u);
  EXPECT_EQ(chunk(16, 24, 0), 24u) << "a row of each sequence";
  EXPECT_EQ(chunk(16, 1, 48), 48u) << "as given";
}

}  // namespace
}  // namespace llmc::tests
