#include "compiler/plan/rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/plan/plan.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ir::WeightFormat;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Rounding rounding_for(passes::QuantScheme format) {
  PlanOptions options;
  options.target = *target::find("avx2");
  options.name = "tiny";
  const auto plan = make_plan(tests::stage_graph({.quant = format}), options);
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? rounding_of(plan->program) : Rounding{};
}

TEST(RoundingOf, AMixtureListsItsFormatsTheCoarsestFirst) {
  const Rounding q4 = rounding_for(passes::kQ4Mixed);  // narrow model: 4 bits only in gate and up
  EXPECT_THAT(q4.formats, ElementsAre(WeightFormat::kQ4, WeightFormat::kQ6, WeightFormat::kQ8));
  EXPECT_EQ(q4.coarsest(), WeightFormat::kQ4);
  EXPECT_EQ(q4.kept, 0u);
  EXPECT_TRUE(q4.rounds_activations);
  const Rounding q6 = rounding_for(WeightFormat::kQ6);
  EXPECT_EQ(q6.coarsest(), WeightFormat::kQ6);
}

TEST(RoundingOf, FloatsAreNotRounded) {
  const Rounding f32 = rounding_for(WeightFormat::kF32);
  EXPECT_THAT(f32.formats, IsEmpty());
  EXPECT_FALSE(f32.rounds_activations);
  EXPECT_EQ(f32.coarsest(), WeightFormat::kF32);
  EXPECT_EQ(rounding_for(WeightFormat::kF16).coarsest(), WeightFormat::kF16);
}

TEST(RoundingOf, KeptCodesCostWhatEightBitActivationsDo) {
  Program program;
  PackedWeight kept;
  kept.use = WeightUse::kMatrix;
  kept.matrix = WeightKind::kQ8;
  kept.conversion = WeightConversion::kPreserved;
  kept.rows = kept.columns = 64;
  program.weights = {kept, kept};
  Rounding rounding = rounding_of(program);
  EXPECT_EQ(rounding.kept, 2u);
  EXPECT_EQ(rounding.rounded, 0u);
  EXPECT_THAT(rounding.formats, IsEmpty());
  EXPECT_EQ(rounding.coarsest(), WeightFormat::kQ8) << "not the q4 that was asked for";
  PackedWeight rounded = kept;
  rounded.matrix = WeightKind::kQ4;
  rounded.conversion = WeightConversion::kRequantized;
  program.weights.push_back(rounded);
  rounding = rounding_of(program);
  EXPECT_EQ(rounding.coarsest(), WeightFormat::kQ4);
  EXPECT_EQ(rounding.rounded, 1u);
}

}  // namespace
}  // namespace llmc::plan
