#include "compiler/plan/memory.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

/// Runs a program's stages on a map that records which buffer owns each byte of the scratch memory.
/// Expects that a buffer still owns its bytes when a stage reads it. Shares no code with
/// plan_memory, only the offsets that it checks.
class Simulator {
 public:
  Simulator(const Program& program, const MemoryPlan& plan) : program_(program), plan_(plan) {}

  void run() {
    // Two forward passes, with several heads after each. Data that a first run leaves must not be
    // needed later.
    for (int pass = 0; pass < 2; ++pass) {
      for (const Stage& stage : program_.forward) run(stage);
      for (int i = 0; i < 3; ++i) {
        expect_intact(program_.hidden, "hidden rows before a head");
        for (const Stage& stage : program_.head) run(stage);
      }
    }
  }

 private:
  void run(const Stage& stage) {
    if (const auto* loop = std::get_if<LoopStage>(&stage.op)) {
      for (std::uint32_t i = 0; i < loop->count; ++i) {
        for (const Stage& inner : loop->body) run(inner);
      }
      return;
    }
    const Access a = access(stage);
    for (const BufferId id : a.reads) {
      if (id.exists()) expect_intact(id, stage.comment);
    }
    for (const BufferId id : a.writes) {
      if (id.exists()) write(id);
    }
    // The shared work area is not checked: it starts after all buffers.
  }
  void write(BufferId id) {
    const BufferPlace& place = plan_.buffers[id.index];
    for (std::uint64_t at = place.offset; at < place.offset + place.bytes; at += 4) {
      owner_[at] = id.index;
    }
  }
  void expect_intact(BufferId id, const std::string& where) {
    const BufferPlace& place = plan_.buffers[id.index];
    for (std::uint64_t at = place.offset; at < place.offset + place.bytes; at += 4) {
      const auto it = owner_.find(at);
      ASSERT_TRUE(it != owner_.end() && it->second == id.index)
          << program_.buffers[id.index].name << " is overwritten or never written: " << where;
    }
  }

  const Program& program_;
  const MemoryPlan& plan_;
  std::map<std::uint64_t, std::uint32_t> owner_;
};

class PlanMemory : public ::testing::TestWithParam<tests::StageModel> {};

TEST_P(PlanMemory, NoStageFindsItsInputOverwritten) {
  auto program = lower(tests::stage_graph(GetParam()), {});
  ASSERT_TRUE(program.ok()) << format(program.error().first());
  for (const std::uint32_t chunk : {1u, 7u, 32u}) {
    const auto plan = plan_memory(*program, {.chunk = chunk, .ctx = 64, .threads_max = 3});
    ASSERT_TRUE(plan.ok());
    Simulator(*program, *plan).run();
    std::uint64_t sum = 0;
    for (const BufferPlace& place : plan->buffers) {
      EXPECT_EQ(place.offset % 64, 0u);
      EXPECT_LE(place.offset + place.bytes, plan->work_offset);
      sum += place.bytes;
    }
    EXPECT_LT(plan->work_offset, sum) << "buffers with disjoint lives share storage";
    EXPECT_EQ(plan->scratch_bytes % 64, 0u);
    EXPECT_GE(plan->scratch_bytes, plan->work_offset + plan->work_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PlanMemory,
    ::testing::Values(tests::StageModel{}, tests::StageModel{.rolled = false},
                      tests::StageModel{.layers = 5, .rolled = true},
                      tests::StageModel{.layers = 3, .rolled = false, .select_last_row = false},
                      tests::StageModel{.hidden = 24,
                                        .heads = 3,
                                        .kv_heads = 1,
                                        .head_dim = 20,
                                        .intermediate = 9,
                                        .vocabulary = 31}));

TEST(PlanMemory, WorkGrowsWithThreadsAndContext) {
  const auto program = lower(tests::stage_graph(), {});
  ASSERT_TRUE(program.ok());
  const auto small = plan_memory(*program, {.chunk = 8, .ctx = 64, .threads_max = 1});
  const auto threads = plan_memory(*program, {.chunk = 8, .ctx = 64, .threads_max = 8});
  ASSERT_TRUE(small.ok() && threads.ok());
  EXPECT_GT(threads->work_bytes, small->work_bytes);
  EXPECT_EQ(threads->work_offset, small->work_offset);
}

}  // namespace
}  // namespace llmc::plan
