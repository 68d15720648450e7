#include "compiler/plan/program_hash.h"

#include <gtest/gtest.h>

#include <functional>

#include "compiler/plan/plan.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

Plan plan_of(const tests::StageModel& model, const char* target, std::uint32_t ctx) {
  PlanOptions options;
  options.target = *target::find(target);
  options.name = "tiny";
  options.ctx = ctx;
  auto plan = make_plan(tests::stage_graph(model), options);
  if (!plan.ok()) ADD_FAILURE() << llmc::format(plan.error().first());
  return *std::move(plan);
}

/// The first stage of a kind, in loops too; nullptr when there is none.
template <class T>
T* find(std::vector<Stage>& stages) {
  for (Stage& stage : stages) {
    if (auto* const found = std::get_if<T>(&stage.op)) return found;
    if (auto* const loop = std::get_if<LoopStage>(&stage.op))
      if (auto* const inside = find<T>(loop->body)) return inside;
  }
  return nullptr;
}

TEST(ProgramHash, IsTheSameForEveryTargetAndContext) {
  const std::uint64_t hash = program_hash(plan_of({}, "avx2", 256).program);
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(program_hash(plan_of({}, "avx2", 512).program), hash);
  EXPECT_EQ(program_hash(plan_of({}, "arm64", 256).program), hash);
  EXPECT_EQ(program_hash(plan_of({}, "generic", 64).program), hash);
}

TEST(ProgramHash, NamesEveryConstant) {
  const Plan plan = plan_of({}, "avx2", 256);
  const std::uint64_t hash = program_hash(plan.program);
  const std::function<void(Program&)> changes[] = {
      [](Program& p) { find<QkvStage>(p.forward)->norm.epsilon *= 2.0f; },
      [](Program& p) { find<QkvStage>(p.forward)->angles.interleaved ^= true; },
      [](Program& p) { find<AttentionStage>(p.forward)->scale *= 2.0f; },
      [](Program& p) { find<AttentionStage>(p.forward)->softcap = 30.0f; },
      [](Program& p) { find<AttentionStage>(p.forward)->window = 64; },
      [](Program& p) { find<LinearStage>(p.forward)->function = ir::ActivationFn::kGelu; },
      [](Program& p) { find<LinearStage>(p.head)->norm.epsilon += 1e-6f; },
      [](Program& p) { find<LoopStage>(p.forward)->count += 1; },
      [](Program& p) { p.head.pop_back(); },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    Plan changed = plan;
    changes[i](changed.program);
    EXPECT_NE(program_hash(changed.program), hash) << i;
  }
}

}  // namespace
}  // namespace llmc::plan
