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

/// Returns the first stage of type T, also in loops; nullptr if there is none.
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
  tests::StageModel model;
  model.table_rows = 512;  // rows of angles, of which the plan stores as many as the context has
  const Plan longer = plan_of(model, "avx2", 512), shorter = plan_of(model, "avx2", 64);
  EXPECT_NE(longer.weights_bytes, shorter.weights_bytes);
  EXPECT_EQ(program_hash(longer.program), program_hash(shorter.program));
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
      [](Program& p) { find<AttentionStage>(p.forward)->chunked = true; },
      [](Program& p) { find<LinearStage>(p.forward)->function = ir::ActivationFn::kGelu; },
      [](Program& p) { find<LinearStage>(p.head)->norm.epsilon += 1e-6f; },
      [](Program& p) { find<LoopStage>(p.forward)->count += 1; },
      [](Program& p) { p.head.pop_back(); },
      [](Program& p) { find<QkvStage>(p.forward)->qk_norm_epsilon = 1e-6f; },
      [](Program& p) { find<QkvStage>(p.forward)->angles.rotary_dim /= 2; },
      [](Program& p) { find<QkvStage>(p.forward)->norm.kind = ir::NormKind::kLayer; },
      [](Program& p) { find<QkvStage>(p.forward)->norm.bias = {0, false}; },
      [](Program& p) { find<RopeAnglesStage>(p.forward)->rotary_dim /= 2; },
      [](Program& p) { p.weights.pop_back(); },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    Plan changed = plan;
    changes[i](changed.program);
    EXPECT_NE(program_hash(changed.program), hash) << i;
  }
}

TEST(ProgramHash, NamesHowWeightsAreStored) {
  const Plan plan = plan_of({}, "avx2", 256);
  const std::uint64_t hash = program_hash(plan.program);
  const std::function<void(PackedWeight&)> changes[] = {
      [](PackedWeight& w) { w.use = WeightUse::kTable; },
      [](PackedWeight& w) {
        w.matrix = w.matrix == WeightKind::kF32 ? WeightKind::kQ8 : WeightKind::kF32;
      },
      [](PackedWeight& w) {
        w.table = w.table == TableKind::kF32 ? TableKind::kQ8 : TableKind::kF32;
      },
      [](PackedWeight& w) { w.order = RowOrder::kGated; },
      [](PackedWeight& w) { w.pad_rows ^= true; },
      [](PackedWeight& w) { w.heads += 1; },
      [](PackedWeight& w) { w.kv_heads += 1; },
      [](PackedWeight& w) { w.head_dim += 1; },
      [](PackedWeight& w) { w.rows += 1; },
      [](PackedWeight& w) { w.columns += 1; },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    Plan changed = plan;
    PackedWeight* matrix = nullptr;
    for (PackedWeight& weight : changed.program.weights)
      if (weight.use == WeightUse::kMatrix && weight.order == RowOrder::kPlain) matrix = &weight;
    ASSERT_NE(matrix, nullptr);
    changes[i](*matrix);
    EXPECT_NE(program_hash(changed.program), hash) << i;
  }
}

/// Expects that each change of a stage changes the hash of a program with this stage.
template <class T>
void expect_named(const T& stage, const std::vector<std::function<void(T&)>>& changes) {
  Program program;
  program.forward.push_back({stage, {}, {}});
  const std::uint64_t hash = program_hash(program);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Program changed = program;
    changes[i](std::get<T>(changed.forward[0].op));
    EXPECT_NE(program_hash(changed), hash) << i;
  }
}

TEST(ProgramHash, NamesTheConstantsOfStagesByThemselves) {
  expect_named<NormStage>(
      {}, {[](NormStage& s) { s.norm.epsilon = 1e-6f; },
           [](NormStage& s) { s.norm.kind = ir::NormKind::kLayer; },
           [](NormStage& s) { s.norm.bias = {1, false}; }, [](NormStage& s) { s.parts = 2; }});
  expect_named<RopeStage>({}, {[](RopeStage& s) { s.angles.rotary_dim = 8; },
                               [](RopeStage& s) { s.angles.interleaved = true; }});
  expect_named<GatedStage>({}, {[](GatedStage& s) { s.function = ir::ActivationFn::kGeluTanh; }});
  expect_named<BinaryStage>({}, {[](BinaryStage& s) { s.kind = ir::BinaryKind::kMul; },
                                 [](BinaryStage& s) { s.value = 0.5f; }});
  expect_named<UnaryStage>({}, {[](UnaryStage& s) { s.kind = ir::UnaryKind::kAbs; }});
  expect_named<CrossAttentionStage>({}, {[](CrossAttentionStage& s) { s.scale = 0.5f; },
                                         [](CrossAttentionStage& s) { s.softcap = 30; }});
}

}  // namespace
}  // namespace llmc::plan
