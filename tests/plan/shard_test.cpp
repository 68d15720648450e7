#include "compiler/plan/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/plan/plan.h"
#include "llmc/arena.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::HasSubstr;

Result<Plan> plan_of(const tests::StageModel& model, ShardOption shard) {
  PlanOptions options;
  options.target = *target::find("avx2");
  options.name = "tiny";
  options.ctx = 256;
  options.shard = shard;
  return make_plan(tests::stage_graph(model), options);
}

/// Returns the stages of type T, also in loops.
template <class T>
std::vector<const T*> all_of(const std::vector<Stage>& stages) {
  std::vector<const T*> found;
  for (const Stage& stage : stages) {
    if (const auto* one = std::get_if<T>(&stage.op)) found.push_back(one);
    if (const auto* loop = std::get_if<LoopStage>(&stage.op))
      for (const T* inner : all_of<T>(loop->body)) found.push_back(inner);
  }
  return found;
}

class Shards : public ::testing::TestWithParam<bool> {};

TEST_P(Shards, EveryLayerIsInOneOfThem) {
  const tests::StageModel model{.layers = 5, .rolled = GetParam()};
  const auto whole = plan_of(model, {});
  ASSERT_TRUE(whole.ok());
  for (const std::uint32_t count : {2u, 3u, 5u}) {
    std::uint32_t layers = 0;
    std::multiset<std::string> matrices;
    for (std::uint32_t index = 0; index < count; ++index) {
      const auto plan = plan_of(model, {index, count});
      ASSERT_TRUE(plan.ok()) << format(plan.error().first());
      const Program& program = plan->program;
      const bool first = index == 0, last = index + 1 == count;
      EXPECT_EQ(all_of<EmbeddingStage>(program.forward).size(), first ? 1u : 0u);
      EXPECT_EQ(all_of<InputRowsStage>(program.forward).size(), first ? 0u : 1u);
      EXPECT_EQ(all_of<RopeAnglesStage>(program.forward).size(), 1u);
      EXPECT_EQ(program.head.empty(), !last);
      EXPECT_LE(program.layers, 5 - (count - 1));
      EXPECT_GE(program.layers, 1u);
      EXPECT_EQ(
          plan->kv.block_bytes - LLMC_KV_TOKENS_BYTES(plan->kv.block),
          (whole->kv.block_bytes - LLMC_KV_TOKENS_BYTES(plan->kv.block)) / 5 * program.layers);
      for (const auto* loop : all_of<LoopStage>(program.forward)) EXPECT_EQ(loop->first_layer, 0u);
      if (!GetParam()) {
        std::set<std::uint32_t> stored;
        for (const auto* qkv : all_of<QkvStage>(program.forward)) stored.insert(qkv->layer);
        EXPECT_EQ(stored.size(), program.layers);
        EXPECT_EQ(*stored.rbegin(), program.layers - 1);
      }
      layers += program.layers;
      for (const PackedWeight& weight : program.weights)
        if (weight.use == WeightUse::kMatrix || weight.use == WeightUse::kTable)
          matrices.insert(weight.name);
    }
    EXPECT_EQ(layers, 5u);
    std::multiset<std::string> expected;
    for (const PackedWeight& weight : whole->program.weights)
      if (weight.use == WeightUse::kMatrix || weight.use == WeightUse::kTable)
        expected.insert(weight.name);
    EXPECT_EQ(matrices, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, Shards, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "in_a_loop" : "unrolled"; });

TEST(Shard, ValuesOfPositionsInSeveralStepsAreComputedInEach) {
  auto plan = plan_of({.layers = 4}, {});
  ASSERT_TRUE(plan.ok());
  std::vector<Stage>& stages = plan->program.forward;
  const auto rope = std::ranges::find_if(
      stages, [](const Stage& stage) { return std::holds_alternative<RopeAnglesStage>(stage.op); });
  ASSERT_NE(rope, stages.end());
  stages.insert(rope, *rope);  // now two stages write the same buffer
  for (std::uint32_t index = 0; index < 2; ++index) {
    const auto cut = cut_shard(plan->program, {index, 2}, 0);
    ASSERT_TRUE(cut.ok()) << format(cut.error().first());
    EXPECT_EQ(all_of<RopeAnglesStage>(cut->forward).size(), 2u) << index;
  }
}

TEST(Shard, CutsBalanceTheTimeOfLayersOrMemory) {
  // The embedding and the head are as large as many layers.
  const tests::StageModel model{.vocabulary = 4096, .layers = 12};
  const auto layers_of = [&](bool by_memory) {
    std::vector<std::uint32_t> layers;
    for (std::uint32_t index = 0; index < 3; ++index) {
      const auto plan = plan_of(model, {index, 3, by_memory});
      EXPECT_TRUE(plan.ok());
      layers.push_back(plan.ok() ? plan->program.layers : 0);
    }
    return layers;
  };
  EXPECT_EQ(layers_of(false), (std::vector<std::uint32_t>{4, 4, 4}));
  const std::vector<std::uint32_t> by_memory = layers_of(true);
  EXPECT_LT(by_memory[0], 4u);
  EXPECT_LT(by_memory[2], 4u);
  const auto most = [&](bool memory) {
    std::uint64_t bytes = 0;
    for (std::uint32_t index = 0; index < 3; ++index)
      if (const auto plan = plan_of(model, {index, 3, memory}); plan.ok())
        bytes = std::max(bytes, plan->weights_bytes + plan->kv.bytes);
    return bytes;
  };
  EXPECT_LT(most(true), most(false));
}

TEST(Shard, LogitsHaveRoomInTheLastOnly) {
  const tests::StageModel model{.vocabulary = 4096, .layers = 4};
  const auto first = plan_of(model, {0, 2}), last = plan_of(model, {1, 2});
  ASSERT_TRUE(first.ok() && last.ok());
  const std::uint64_t logits = 4096 * (sizeof(float) + LLMC_CANDIDATE_BYTES);
  const auto others = [](const plan::Plan& plan) {
    return plan.memory.scratch_bytes + plan.kv.bytes;
  };
  EXPECT_EQ(last->arena_bytes - others(*last), first->arena_bytes - others(*first) + logits);
}

TEST(Shard, TooManyAreAUsageError) {
  const auto plan = plan_of({.layers = 3}, {0, 4});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().first().kind, ErrorKind::kUsage);
  EXPECT_THAT(format(plan.error().first()), HasSubstr("--stages takes 2 to 3"));
}

TEST(Shard, RecurrentStatesAreRefused) {
  auto plan = plan_of({}, {});
  ASSERT_TRUE(plan.ok());
  plan->program.states.push_back({});
  const auto cut = cut_shard(plan->program, {0, 2}, 0);
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(format(cut.error().first()), HasSubstr("recurrent states"));
}

}  // namespace
}  // namespace llmc::plan
