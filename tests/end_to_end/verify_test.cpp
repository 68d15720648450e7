// verify and the cache, over models compiled on the spot.
#include "compiler/evaluate/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "compiler/driver/golden.h"
#include "compiler/plan/plan.h"
#include "compiler/support/file.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

exec::NativeOptions native_for(const fs::path& model, ir::WeightFormat format) {
  exec::NativeOptions options;
  options.compile = options_for(model, "generic", format);
  return options;
}

TEST(Verify, NativeCodeAgreesWithTheOriginalGraph) {
  const ModelFolder model({.bias = true, .norm_in_head = true});
  for (const auto format : {ir::WeightFormat::kF32, ir::WeightFormat::kQ8}) {
    evaluate::VerifyOptions options;
    options.native = native_for(model.path(), format);
    const auto report = evaluate::verify_model(options);
    ASSERT_TRUE(report.ok()) << llmc::format(report.error().first());
    EXPECT_TRUE(report->reference_ok);
    ASSERT_EQ(report->runs.size(), 2u);
    const auto& points = report->runs[0].points;
    ASSERT_EQ(points.size(), 10u);
    EXPECT_EQ(points[0].phase, "prefill");
    EXPECT_EQ(points[1].phase, "chunk");
    EXPECT_EQ(points[2].phase, "step");
    if (format == ir::WeightFormat::kF32) {
      EXPECT_LT(report->max_difference, 1e-4);
      EXPECT_EQ(report->greedy_agreement, 1.0);
    }
  }
}

TEST(Verify, TheLongRunCoversSeveralBlocksAndChunks) {
  const ModelFolder model;
  evaluate::VerifyOptions options;
  options.native = native_for(model.path(), ir::WeightFormat::kQ4);
  const auto report = evaluate::verify_model(options);
  ASSERT_TRUE(report.ok()) << llmc::format(report.error().first());
  ASSERT_EQ(report->runs.size(), 2u);
  const evaluate::VerifyRun& run = report->runs[1];
  EXPECT_EQ(run.name, "long");
  EXPECT_TRUE(run.reference);
  EXPECT_EQ(run.prompt_tokens, 124u);  // what a context of 128 has room for
  EXPECT_EQ(run.points.size(), 2u + 4u);
  EXPECT_GT(run.kv_blocks, 1u);
  EXPECT_GT(run.chunks, 2u);
  EXPECT_NE(run.other_chunk, 0u);
  EXPECT_NE(run.other_chunk, run.chunk);
  EXPECT_EQ(run.other_hash, run.hash);
  EXPECT_EQ(run.golden_key, "q4,kv=f16/124+4");
  options.native.compile.ctx = 36;
  const auto small = evaluate::verify_model(options);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->runs.size(), 1u);
  EXPECT_NE(small->not_run, "");
  EXPECT_EQ(small->runs[0].hash, report->runs[0].hash);
}

TEST(Verify, GoldenHashesAreComparedByEquality) {
  const ModelFolder model;
  evaluate::VerifyOptions options;
  options.native = native_for(model.path(), ir::WeightFormat::kQ4);
  options.reference = false;
  const auto without = evaluate::verify_model(options);
  ASSERT_TRUE(without.ok());
  EXPECT_TRUE(without->ok());
  options.require_golden = true;
  const auto missing = evaluate::verify_model(options);
  ASSERT_TRUE(missing.ok());
  EXPECT_FALSE(missing->golden_ok());
  options.update = true;
  const auto written = evaluate::verify_model(options);
  ASSERT_TRUE(written.ok());
  EXPECT_TRUE(written->golden_updated);
  EXPECT_TRUE(written->ok());
  options.update = false;
  options.threads = 3;
  const auto equal = evaluate::verify_model(options);
  ASSERT_TRUE(equal.ok());
  EXPECT_TRUE(equal->ok());
  for (const evaluate::VerifyRun& run : equal->runs) EXPECT_EQ(run.golden_hash, run.hash);

  for (const std::size_t index : {0u, 1u}) {
    auto golden = *driver::read_golden(equal->golden_file);
    char& digit = golden.hashes.at(equal->runs[index].golden_key).back();
    const char kept = std::exchange(digit, digit == '0' ? '1' : '0');
    ASSERT_TRUE(driver::write_golden(equal->golden_file, golden).ok());
    const auto different = evaluate::verify_model(options);
    ASSERT_TRUE(different.ok());
    EXPECT_TRUE(different->runs[index].golden_differs());
    EXPECT_FALSE(different->ok());
    digit = kept;
    ASSERT_TRUE(driver::write_golden(equal->golden_file, golden).ok());
  }
}

TEST(Verify, HashesOfAnotherVersionAreComparedAndItIsNamed) {
  const ModelFolder model({.layers = 1});
  evaluate::VerifyOptions options;
  options.native = native_for(model.path(), ir::WeightFormat::kQ4);
  options.reference = false;
  options.long_run = false;
  const fs::path file = driver::default_golden_file(model.path());
  ASSERT_TRUE(driver::write_golden(file, {"0", {{"q4,kv=f16", "0123456789abcdef"}}}).ok());
  const auto other = evaluate::verify_model(options);
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->ok());
  EXPECT_EQ(other->golden_numerics, "0");
  EXPECT_EQ(other->numerics, plan::kNumericsVersion);
  ASSERT_TRUE(driver::write_golden(file, {"0", {{"q4,kv=f16", other->runs[0].hash}}}).ok());
  EXPECT_TRUE(evaluate::verify_model(options)->ok());
  // Hashes of another version are not kept with new ones.
  ASSERT_TRUE(driver::write_golden(file, {"0", {{"q8", "0123456789abcdef"}}}).ok());
  options.update = true;
  ASSERT_TRUE(evaluate::verify_model(options).ok());
  const auto updated = driver::read_golden(file);
  ASSERT_TRUE(updated.ok());
  EXPECT_EQ(updated->numerics, plan::kNumericsVersion);
  EXPECT_EQ(updated->hashes.size(), 1u);
}

TEST(Verify, ABundleHasTheHashesOfItsModel) {
  const ModelFolder model({.layers = 1});
  evaluate::VerifyOptions of_model;
  of_model.native = native_for(model.path(), ir::WeightFormat::kQ4);
  of_model.update = true;
  of_model.reference = false;
  const auto written = evaluate::verify_model(of_model);
  ASSERT_TRUE(written.ok());
  const testing::TemporaryFolder folder;
  auto compile = of_model.native.compile;
  compile.out_dir = folder.path() / "bundle";
  ASSERT_TRUE(driver::compile_model(compile).ok());

  evaluate::VerifyOptions options;
  options.native.compile.model = compile.out_dir;
  options.require_golden = true;
  const auto own = evaluate::verify_model(options);
  ASSERT_TRUE(own.ok()) << llmc::format(own.error().first());
  EXPECT_TRUE(own->ok());
  EXPECT_FALSE(own->runs[0].reference);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(own->runs[i].golden_hash, written->runs[i].hash);

  options.reference_model = model.path();
  const auto with_model = evaluate::verify_model(options);
  ASSERT_TRUE(with_model.ok());
  EXPECT_TRUE(with_model->ok());
  EXPECT_TRUE(with_model->runs[0].reference);
  EXPECT_GT(with_model->max_kl_allowed, 0);
  const ModelFolder other({.layers = 1, .seed = 99});
  options.reference_model = other.path();
  const auto wrong = evaluate::verify_model(options);
  ASSERT_TRUE(wrong.ok());
  EXPECT_FALSE(wrong->reference_ok);

  const ModelFolder larger({.layers = 2});
  options.reference_model = larger.path();
  const auto another = evaluate::verify_model(options);
  ASSERT_FALSE(another.ok());
  EXPECT_EQ(another.error().first().kind, ErrorKind::kBadInput);
  EXPECT_THAT(
      another.error().first().message,
      ::testing::HasSubstr("not compiled from this model, which has 2 layers instead of 1"));

  options.reference_model.clear();
  options.golden = folder.path() / "golden.json";
  EXPECT_FALSE(evaluate::verify_model(options).ok());  // it was named and is not there
  options.update = true;
  ASSERT_TRUE(evaluate::verify_model(options).ok());
  EXPECT_EQ(driver::read_golden(options.golden)->hashes.size(), 2u);
  options.golden.clear();
  const auto refused = evaluate::verify_model(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kUsage);
}

TEST(Cache, FindsWhatWasCompiledAndRepairsDamage) {
  const ModelFolder model({.layers = 1, .seed = 77});
  const auto options = native_for(model.path(), ir::WeightFormat::kF32);
  Generated first;
  fs::path bundle;
  {
    const auto made = exec::load_native(options);
    ASSERT_TRUE(made.ok());
    EXPECT_FALSE((*made)->from_cache());
    first = generate(**made, {4, 5}, 5);
    bundle = (*made)->bundle();
  }
  {
    const auto found = exec::load_native(options);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE((*found)->from_cache());
    EXPECT_EQ(generate(**found, {4, 5}, 5).logit_hash, first.logit_hash);
  }
  ASSERT_TRUE(write_file(bundle.parent_path() / "model.so", std::string_view("damaged")).ok());
  const auto repaired = exec::load_native(options);
  ASSERT_TRUE(repaired.ok()) << format(repaired.error().first());
  EXPECT_FALSE((*repaired)->from_cache());
  auto other = options;
  other.compile.ctx = 64;
  const auto changed = exec::load_native(other);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE((*changed)->from_cache());
}

TEST(Native, RefusesTooManyThreads) {
  const ModelFolder model;
  const auto native = load(options_for(model.path(), "generic", ir::WeightFormat::kF32));
  ASSERT_NE(native, nullptr);
  const auto session = native->start(5);  // compiled for 4
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().first().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace llmc::tests
