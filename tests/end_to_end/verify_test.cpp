// verify, perplexity and the cache, over models compiled on the spot.
#include "compiler/driver/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/driver/golden.h"
#include "compiler/driver/perplexity.h"
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
  hashes["q4"].back() = hashes["q4"].back() == '0' ? '1' : '0';
  ASSERT_TRUE(driver::write_golden(equal->golden_file, hashes).ok());
  const auto different = driver::verify_model(options);
  ASSERT_TRUE(different.ok());
  EXPECT_FALSE(different->golden_ok);
  EXPECT_FALSE(different->ok());
}

TEST(Perplexity, IsWhatTheOracleSays) {
  const ModelFolder model;
  const std::vector<std::int32_t> tokens{5, 9, 14, 3, 3, 250, 17, 80, 81, 82, 83, 7};
  driver::PerplexityOptions options{
      .native = native_for(model.path(), ir::WeightFormat::kF32), .threads = 2, .tokens = tokens};
  options.bos = 1;
  options.window = 9;  // two windows: 1 + 8 tokens, 1 + 4
  const auto report = driver::measure_perplexity(options);
  ASSERT_TRUE(report.ok()) << format(report.error().first());
  double loss = 0;
  for (std::size_t begin = 0; begin < tokens.size(); begin += 8) {
    std::vector<std::int64_t> ids{1};
    for (std::size_t i = begin; i < std::min(begin + 8, tokens.size()); ++i) {
      const std::vector<float> logits = model.model().logits(ids);
      double sum = 0;
      for (const float x : logits) sum += std::exp(static_cast<double>(x));
      loss += std::log(sum) - logits[static_cast<std::size_t>(tokens[i])];
      ids.push_back(tokens[i]);
    }
  }
  EXPECT_EQ(report->predicted, 12u);
  EXPECT_NEAR(report->mean_nll, loss / 12, 1e-5);
  EXPECT_NEAR(report->perplexity, std::exp(report->mean_nll), 1e-9);
}

TEST(Perplexity, RefusesTokensOutsideTheVocabulary) {
  const ModelFolder model;
  driver::PerplexityOptions options{.native = native_for(model.path(), ir::WeightFormat::kF32),
                                    .tokens = {1, 2, 30000}};
  options.window = 16;
  const auto report = driver::measure_perplexity(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().first().kind, ErrorKind::kBadInput);
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
