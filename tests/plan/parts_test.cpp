#include "compiler/plan/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/plan/plan.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::ElementsAre;
using enum Part;

BufferId buffer(std::uint32_t index) {
  return {index};
}
Stage linear(std::uint32_t in, std::uint32_t out,
             LinearStage::Epilogue epilogue = LinearStage::Epilogue::kStore) {
  LinearStage op;
  op.epilogue = epilogue;
  op.source = buffer(in);
  op.out = buffer(out);
  Stage stage;
  stage.op = op;
  return stage;
}
template <class S>
Stage stage(S op) {
  Stage result;
  result.op = std::move(op);
  return result;
}

Plan plan_of(const tests::StageModel& model) {
  PlanOptions options;
  options.target = *target::find("avx2");
  options.name = "tiny";
  options.ctx = 256;
  auto plan = make_plan(tests::stage_graph(model), options);
  if (!plan.ok()) ADD_FAILURE() << llmc::format(plan.error().first());
  return *std::move(plan);
}

TEST(Parts, OfFusedLayers) {
  const Plan plan = plan_of({});
  for (const Stage& stage : plan.program.forward) {
    if (const auto* loop = std::get_if<LoopStage>(&stage.op))
      EXPECT_THAT(parts_of(loop->body),
                  ElementsAre(kQkv, kAttention, kAttentionOut, kGateUp, kDown));
  }
  const Plan unrolled = plan_of({.layers = 2, .rolled = false});
  EXPECT_THAT(parts_of(unrolled.program.forward),
              ElementsAre(kRest, kRest, kQkv, kAttention, kAttentionOut, kGateUp, kDown, kQkv,
                          kAttention, kAttentionOut, kGateUp, kDown));
}

TEST(Parts, OfLayersWithoutFusion) {
  // Buffers: x=0, normed=1, q=2, k=3, v=4, attended=5, projected=6, gate=7, up=8, product=9,
  // result=10.
  const std::vector<Stage> stages = {
      stage(NormStage{.x = buffer(0), .out = buffer(1), .residual = {}, .norm = {}}),
      linear(1, 2),
      linear(1, 3),
      linear(1, 4),
      stage(RopeStage{.x = buffer(2), .out = buffer(2), .angles = {}}),
      stage(RopeStage{.x = buffer(3), .out = buffer(3), .angles = {}}),
      stage(KvStoreStage{.shape = {}, .k = buffer(3), .v = buffer(4)}),
      stage(AttentionStage{.shape = {}, .q = buffer(2), .out = buffer(5)}),
      linear(5, 6),
      stage(BinaryStage{.a = buffer(0), .b = buffer(6), .out = buffer(0), .row = {}}),
      stage(NormStage{.x = buffer(0), .out = buffer(1), .residual = {}, .norm = {}}),
      linear(1, 7),
      linear(1, 8),
      stage(UnaryStage{.x = buffer(7), .out = buffer(7)}),
      stage(BinaryStage{.a = buffer(7), .b = buffer(8), .out = buffer(9), .row = {}}),
      linear(9, 10),
      stage(BinaryStage{.a = buffer(0), .b = buffer(10), .out = buffer(0), .row = {}}),
  };
  EXPECT_THAT(parts_of(stages), ElementsAre(kQkv, kQkv, kQkv, kQkv, kQkv, kQkv, kQkv, kAttention,
                                            kAttentionOut, kAttentionOut, kGateUp, kGateUp, kGateUp,
                                            kGateUp, kGateUp, kDown, kDown));
}

TEST(Parts, ProductsAreThoseOfTheMatrices) {
  const tests::StageModel model;
  const Plan plan = plan_of(model);
  std::uint64_t macs[kParts] = {}, all_macs = 0, bytes = 0;
  for (const Products& p : products_of(plan.program)) {
    macs[static_cast<std::uint32_t>(p.part)] += p.macs;
    all_macs += p.macs;
    bytes += p.bytes;
  }
  const auto hidden = static_cast<std::uint64_t>(model.hidden);
  const auto inner = static_cast<std::uint64_t>(model.intermediate);
  EXPECT_THAT(macs, ElementsAre(2 * hidden * (64 + 2 * 32), 0, 2 * hidden * 64,
                                2 * hidden * inner * 2, 2 * hidden * inner, 128 * hidden, 0));
  EXPECT_GT(bytes, plan.weights_bytes / 2);
  EXPECT_LT(bytes, plan.weights_per_token_bytes);
  // A token reads the matrices, norms, and a row of the embedding.
  EXPECT_GT(plan.parameters_per_token, all_macs);
  EXPECT_LT(plan.parameters_per_token, plan.parameters);
}

TEST(Parts, CacheReadsAreTheKeysThatATokenSees) {
  const tests::StageModel model;
  const std::vector<CacheReads> reads = cache_reads_of(plan_of(model).program, KvFormats{}, 32);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].window, 0u);
  EXPECT_EQ(reads[0].key_bytes, 2u * 2 * 32 * sizeof(float)) << "layers, keys and values, width";
  const auto bytes_at = [](CacheReads of, std::uint64_t position) { return of.bytes_at(position); };
  EXPECT_EQ(bytes_at({.key_bytes = 10}, 4), 50u);
  EXPECT_EQ(bytes_at({.window = 3, .key_bytes = 10}, 1), 20u);
  EXPECT_EQ(bytes_at({.window = 3, .key_bytes = 10}, 4), 30u);
  EXPECT_EQ(bytes_at({.window = 3, .chunked = true, .key_bytes = 10}, 4), 20u);
}

NestWork work_of(const std::string& text) {
  const auto graph = ir::parse(text);
  if (!graph.ok()) ADD_FAILURE() << llmc::format(graph.error().first());
  const auto program = lower(*graph, {.entry = ir::EntryKind::kRun});
  if (!program.ok()) ADD_FAILURE() << llmc::format(program.error().first());
  return nest_work(*program);
}

/// Returns the multiply-adds outside kernels, all multiply-adds, the bytes of weights that are read
/// outside kernels, and all bytes of weights that are read.
std::vector<std::uint64_t> shares_of(const std::string& text) {
  const NestWork work = work_of(text);
  return {work.multiply_adds, work.all_multiply_adds, work.bytes, work.all_bytes};
}

TEST(NestWork, CountsTiledProductsAsKernels) {
  const auto product = [](const std::string& type, const char* a, const char* b) {
    return shares_of("graph @g(%a: " + type + a + ", %b: " + type + b +
                     ") {\n  %y = matmul %a, %b\n  return %y\n}");
  };
  EXPECT_THAT(product("f32", "[3, 20, 9]", "[3, 9, 16]"), ElementsAre(0, 8640, 0, 0));
  EXPECT_THAT(product("f32", "[3, 2, 9]", "[3, 9, 8]"), ElementsAre(0, 432, 0, 0));
  // Too few columns for a vector; one row; integers; f64.
  EXPECT_THAT(product("f32", "[3, 20, 9]", "[3, 9, 7]"), ElementsAre(3780, 3780, 0, 0));
  EXPECT_THAT(product("f32", "[1, 9]", "[9, 16]"), ElementsAre(144, 144, 0, 0));
  EXPECT_THAT(product("i32", "[20, 9]", "[9, 16]"), ElementsAre(2880, 2880, 0, 0));
  EXPECT_THAT(product("f64", "[20, 9]", "[9, 16]"), ElementsAre(2880, 2880, 0, 0));
}

TEST(NestWork, CountsConvolutionsOfAdjacentPositionsAsKernels) {
  const auto conv = [](const char* weight, const char* attributes) {
    return shares_of(std::string("graph @g(%x: f32[1, 8, 41]) {\n  %w = constant f32[") + weight +
                     "] random(1, 0.5)\n  %y = conv %x, %w {dilations = [1], " + attributes +
                     "}\n  return %y\n}");
  };
  EXPECT_THAT(conv("4, 8, 3", "strides = [2]"), ElementsAre(0, 1920, 0, 384));
  EXPECT_THAT(conv("8, 1, 3", "strides = [1], groups = 8"), ElementsAre(0, 936, 0, 96));
  EXPECT_THAT(conv("8, 1, 3", "strides = [2], groups = 8"), ElementsAre(480, 480, 96, 96));
}

TEST(NestWork, CountsAWeightThatALoopReadsToo) {
  const NestWork work = work_of(R"(graph @g(%x: f32[1, 8, 41]) {
  %w = constant f32[4, 8, 3] random(1, 0.5)
  %y = conv %x, %w {strides = [1], dilations = [1]}
  %e = exp %w
  return %y, %e
})");
  EXPECT_EQ(work.stages, 1u);
  EXPECT_EQ(work.bytes, 384u);
  EXPECT_EQ(work.all_bytes, 384u);
  EXPECT_EQ(work.multiply_adds, 0u);
  EXPECT_THAT(work.operators, ElementsAre(std::pair("exp", 1u)));
}

TEST(Parts, NamesAreReadBack) {
  for (std::uint32_t i = 0; i < kParts; ++i)
    EXPECT_EQ(parse_part(part_name(static_cast<Part>(i))), static_cast<Part>(i));
  EXPECT_EQ(parse_part("norm"), std::nullopt);
}

}  // namespace
}  // namespace llmc::plan
