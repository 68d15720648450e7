// verify and the cache, over models compiled on the spot.
#include "compiler/driver/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/driver/golden.h"
#include "compiler/support/file.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

driver::NativeOptions native_for(const fs::path& model, ir::WeightFormat format) {
  driver::NativeOptions options;
  options.compile = options_for(model, "generic", format);
  return options;
}

TEST(Verify, NativeCodeAgreesWithTheOriginalGraph) {
  const ModelFolder model({.bias = true, .norm_in_head = true});
  for (const auto format : {ir::WeightFormat::kF32, ir::WeightFormat::kQ8}) {
    driver::VerifyOptions options;
    options.native = native_for(model.path(), format);
    const auto report = driver::verify_model(options);
    ASSERT_TRUE(report.ok()) << llmc::format(report.error().first());
    EXPECT_TRUE(report->reference_ok);
    EXPECT_EQ(report->points.size(), 10u);
    EXPECT_EQ(report->points[0].phase, "prefill");
    EXPECT_EQ(report->points[1].phase, "chunk");
    EXPECT_EQ(report->points[2].phase, "step");
    if (format == ir::WeightFormat::kF32) {
      EXPECT_LT(report->max_difference, 1e-4);
      EXPECT_EQ(report->greedy_agreement, 1.0);
    }
  }
}

TEST(Verify, GoldenHashesAreComparedByEquality) {
  const ModelFolder model;
  driver::VerifyOptions options;
  options.native = native_for(model.path(), ir::WeightFormat::kQ4);
  options.reference = false;
  options.update = true;
  const auto written = driver::verify_model(options);
  ASSERT_TRUE(written.ok());
  EXPECT_TRUE(written->golden_updated);
  options.update = false;
  options.threads = 3;
  const auto equal = driver::verify_model(options);
  ASSERT_TRUE(equal.ok());
  EXPECT_TRUE(equal->ok());
  EXPECT_EQ(equal->golden_hash, equal->hash);

  auto hashes = *driver::read_golden(equal->golden_file);
  char& digit = hashes.at(equal->golden_key).back();
  digit = digit == '0' ? '1' : '0';
  ASSERT_TRUE(driver::write_golden(equal->golden_file, hashes).ok());
  const auto different = driver::verify_model(options);
  ASSERT_TRUE(different.ok());
  EXPECT_FALSE(different->golden_ok);
  EXPECT_FALSE(different->ok());
}

TEST(Cache, FindsWhatWasCompiledAndRepairsDamage) {
  const ModelFolder model({.layers = 1, .seed = 77});
  const auto options = native_for(model.path(), ir::WeightFormat::kF32);
  Generated first;
  fs::path bundle;
  {
    const auto made = driver::load_native(options);
    ASSERT_TRUE(made.ok());
    EXPECT_FALSE((*made)->from_cache());
    first = generate(**made, {4, 5}, 5);
    bundle = (*made)->bundle();
  }
  {
    const auto found = driver::load_native(options);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE((*found)->from_cache());
    EXPECT_EQ(generate(**found, {4, 5}, 5).logit_hash, first.logit_hash);
  }
  ASSERT_TRUE(write_file(bundle.parent_path() / "model.so", std::string_view("damaged")).ok());
  const auto repaired = driver::load_native(options);
  ASSERT_TRUE(repaired.ok()) << format(repaired.error().first());
  EXPECT_FALSE((*repaired)->from_cache());
  auto other = options;
  other.compile.ctx = 64;
  const auto changed = driver::load_native(other);
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
