#include "compiler/plan/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/plan/plan.h"
#include "compiler/plan/program_hash.h"
#include "compiler/target/device.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlanOptions options_for(const target::Device* device, std::uint32_t chunk = 64) {
  PlanOptions options;
  options.target = *target::find("avx2");
  options.name = "tiny";
  options.ctx = 256;
  options.chunk = chunk;
  options.device = device;
  return options;
}

const target::Device& reference() {
  return *target::find_device("reference");
}

/// Returns the regions of a list of stages, with 100 for a loop.
std::vector<std::uint32_t> regions(const std::vector<Stage>& stages) {
  std::vector<std::uint32_t> result;
  for (const Stage& stage : stages)
    result.push_back(std::holds_alternative<LoopStage>(stage.op) ? 100 : stage.region);
  return result;
}

const LoopStage& loop_of(const Program& program) {
  for (const Stage& stage : program.forward)
    if (const auto* loop = std::get_if<LoopStage>(&stage.op)) return *loop;
  ADD_FAILURE() << "no loop";
  std::abort();
}

TEST(Partition, AttentionAndCacheStayOnTheCpu) {
  const auto plan = make_plan(tests::stage_graph(), options_for(&reference()));
  ASSERT_TRUE(plan.ok()) << format(plan.error().first());
  const Program& program = plan->program;
  EXPECT_THAT(regions(program.forward), ElementsAre(0, 0, 100));  // angles, embedding, layers
  const LoopStage& loop = loop_of(program);
  // product | finish, attention | attention_out, gate_up, down
  EXPECT_THAT(regions(loop.body), ElementsAre(1, 0, 0, 2, 2, 2));
  EXPECT_TRUE(std::holds_alternative<LinearStage>(loop.body[0].op));
  EXPECT_TRUE(std::holds_alternative<QkvFinishStage>(loop.body[1].op));
  for (const Stage& stage : program.head) EXPECT_EQ(stage.region, 0u);

  const Partition& partition = *plan->partition;
  ASSERT_EQ(partition.regions.size(), 2u);
  EXPECT_THAT(partition.regions[0].products, ElementsAre("qkv"));
  EXPECT_THAT(partition.regions[1].products, ElementsAre("attention_out", "gate_up", "down"));
  EXPECT_EQ(partition.regions[0].count, loop.count);
  EXPECT_EQ(partition.steps, 1 + 3 * loop.count);
  EXPECT_EQ(partition.device_multiply_adds, partition.multiply_adds);
  EXPECT_GT(partition.multiply_adds, 0u);
}

TEST(Partition, CountsWhatMustCross) {
  const auto plan = make_plan(tests::stage_graph(), options_for(&reference()));
  ASSERT_TRUE(plan.ok());
  const Program& program = plan->program;
  const LoopStage& loop = loop_of(program);
  const std::uint64_t product =
      program.buffers[std::get<LinearStage>(loop.body[0].op).out.index].width;
  const std::uint64_t attended = program.attention.heads * program.attention.head_dim;
  // The residual stream crosses once in each direction, because it stays on the device between.
  EXPECT_EQ(plan->partition->bytes_to_device, 4 * (program.hidden_width + loop.count * attended));
  EXPECT_EQ(plan->partition->bytes_from_device, 4 * (program.hidden_width + loop.count * product));
  const Region& second = plan->partition->regions[1];
  EXPECT_EQ(second.inputs.size(), 2u);  // attended and the residual stream
  EXPECT_THAT(second.outputs, ElementsAre(program.hidden));
}

TEST(Partition, CrossingsNameTheStepThatNeedsThem) {
  const auto plan = make_plan(tests::stage_graph(), options_for(&reference()));
  ASSERT_TRUE(plan.ok());
  const Partition& partition = *plan->partition;
  const std::uint32_t layers = loop_of(plan->program).count;
  // Step 0 is on the CPU. Each layer has a region, the attention on the CPU and another region.
  ASSERT_EQ(partition.steps, 1 + 3 * layers);
  std::uint64_t to_device = 0, from_device = 0;
  for (const Crossing& crossing : partition.crossings) {
    const std::uint64_t bytes = plan->program.buffers[crossing.buffer.index].width * 4;
    (crossing.from_device ? from_device : to_device) += bytes;
    EXPECT_NE((crossing.step - 1) % 3, 1u) << "a step of the CPU copies nothing";
  }
  EXPECT_EQ(to_device, partition.bytes_to_device);
  EXPECT_EQ(from_device, partition.bytes_from_device);
  // The first region reads the embedded rows. The last region writes the final rows.
  EXPECT_EQ(partition.crossings.front(),
            (Crossing{.step = 1, .buffer = plan->program.hidden, .from_device = false}));
  const Crossing last{
      .step = partition.steps - 1, .buffer = plan->program.hidden, .from_device = true};
  EXPECT_THAT(partition.crossings, ::testing::Contains(last));
}

TEST(Partition, QuantizedRowsCrossToADeviceWithItsOwnMemory) {
  const auto shared = make_plan(tests::stage_graph(), options_for(&reference()));
  target::Device apart = reference();
  apart.shares_memory = false;
  apart.bytes_per_ns = 1e6;
  const auto plan = make_plan(tests::stage_graph(), options_for(&apart));
  ASSERT_TRUE(shared.ok() && plan.ok());
  const LoopStage& loop = loop_of(plan->program);
  // product | finish, attention, quantize | attention_out, gate_up, down
  EXPECT_THAT(regions(loop.body), ElementsAre(1, 0, 0, 0, 2, 2, 2));
  const auto& quantize = std::get<QuantizeStage>(loop.body[3].op);
  const auto& linear = std::get<LinearStage>(loop.body[4].op);
  EXPECT_TRUE(linear.quantized);
  EXPECT_EQ(linear.source, quantize.out);
  EXPECT_EQ(quantize.weight.index, linear.weight.index);
  const Buffer& codes = plan->program.buffers[quantize.out.index];
  EXPECT_EQ(codes.element, ir::ElementType::kU8);
  EXPECT_LT(codes.width, quantize.k * sizeof(float));
  EXPECT_EQ(shared->partition->bytes_to_device - plan->partition->bytes_to_device,
            loop.count * (quantize.k * sizeof(float) - codes.width));
  EXPECT_THAT(to_text(plan->program, *plan->partition, 64), HasSubstr("_codes u8[64, "));
}

TEST(Partition, AsTextHasStaticShapes) {
  const auto plan = make_plan(tests::stage_graph(), options_for(&reference()));
  ASSERT_TRUE(plan.ok());
  const std::string text = to_text(plan->program, *plan->partition, 64);
  EXPECT_THAT(text, HasSubstr("region 1 of reference: (x f32[64, "));
  EXPECT_THAT(text, HasSubstr(") -> (product f32[64, "));
  EXPECT_THAT(text, HasSubstr("    attention: "));
}

TEST(Partition, LayersWithoutALoop) {
  const auto plan =
      make_plan(tests::stage_graph({.layers = 2, .rolled = false}), options_for(&reference()));
  ASSERT_TRUE(plan.ok()) << format(plan.error().first());
  // The end of one layer and the start of the next one are one region.
  EXPECT_THAT(regions(plan->program.forward),
              ElementsAre(0, 0, 1, 0, 0, 2, 2, 2, 2, 0, 0, 3, 3, 3));
  EXPECT_EQ(plan->partition->steps, 6u);
}

TEST(Partition, DoesNotChangeTheHashOfThePlan) {
  const auto without = make_plan(tests::stage_graph(), options_for(nullptr));
  const auto with = make_plan(tests::stage_graph(), options_for(&reference()));
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_FALSE(without->partition.has_value());
  EXPECT_EQ(without->in_flight(), 1u);
  EXPECT_EQ(with->in_flight(), 2u);
  EXPECT_EQ(with->program_hash, without->program_hash);
  EXPECT_NE(program_hash(with->program), with->program_hash);
}

TEST(Partition, EveryChunkInFlightHasPagesOfScratch) {
  PlanOptions options = options_for(&reference());
  options.in_flight = 2;
  const auto two = make_plan(tests::stage_graph(), options);
  options.in_flight = 5;
  const auto five = make_plan(tests::stage_graph(), options);
  ASSERT_TRUE(two.ok() && five.ok());
  EXPECT_EQ(five->arena_bytes, two->arena_bytes + 3 * two->memory.scratch_bytes);
  EXPECT_EQ(two->memory.scratch_bytes % 4096, 0u);
  for (const std::uint32_t bad : {0u, kMaxInFlight + 1}) {
    options.in_flight = bad;
    const auto refused = make_plan(tests::stage_graph(), options);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(format(refused.error().first()), HasSubstr("--in-flight takes 1 to 8"));
  }
}

TEST(Partition, TakesWhatTheDeviceDeclares) {
  static constexpr std::string_view kFormats[] = {"q4"};
  target::Device device = reference();
  device.formats = kFormats;
  const auto plan = make_plan(tests::stage_graph(), options_for(&device));
  ASSERT_TRUE(plan.ok()) << format(plan.error().first());
  ASSERT_EQ(plan->partition->regions.size(), 1u);
  EXPECT_THAT(plan->partition->regions[0].products, ElementsAre("gate_up"));
  EXPECT_LT(plan->partition->device_multiply_adds, plan->partition->multiply_adds);
  // The projection to q, k and v is not split into product and finish.
  EXPECT_TRUE(std::holds_alternative<QkvStage>(loop_of(plan->program).body[0].op));
}

TEST(Partition, RegionsThatCostMoreThanTheySaveStayOnTheCpu) {
  const auto refused = make_plan(tests::stage_graph(), options_for(&reference(), 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(format(refused.error().first()), HasSubstr("worth sending"));
  target::Device far = reference();
  far.shares_memory = false;
  far.bytes_per_ns = 1e-6;
  EXPECT_FALSE(make_plan(tests::stage_graph(), options_for(&far)).ok());
  far.bytes_per_ns = 1e6;
  EXPECT_TRUE(make_plan(tests::stage_graph(), options_for(&far)).ok());
  far.multiply_adds_per_ns = target::kCpuMultiplyAddsPerNs / 100;
  EXPECT_FALSE(make_plan(tests::stage_graph(), options_for(&far)).ok());
}

TEST(Partition, ProjectionsThatStayAreNotDivided) {
  // For 32 tokens, the product of q, k and v is too small for the device; those of the MLP are not.
  const auto plan = make_plan(tests::stage_graph(), options_for(&reference(), 32));
  ASSERT_TRUE(plan.ok()) << format(plan.error().first());
  const LoopStage& loop = loop_of(plan->program);
  EXPECT_THAT(regions(loop.body), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_TRUE(std::holds_alternative<QkvStage>(loop.body[0].op));
  const auto whole = make_plan(tests::stage_graph(), options_for(nullptr, 32));
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(loop.body[0].comment, loop_of(whole->program).body[0].comment);
}

TEST(Partition, RecurrentStatesAreRefused) {
  auto plan = make_plan(tests::stage_graph(), options_for(nullptr));
  ASSERT_TRUE(plan.ok());
  plan->program.states.push_back({});
  const auto refused = partition(plan->program, reference(), 32);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(format(refused.error().first()), HasSubstr("recurrent states"));
}

TEST(Segments, AreStagesWithOnePlace) {
  std::vector<Stage> stages(5);
  stages[1].region = stages[2].region = 1;
  stages[3].op = LoopStage{};
  const std::vector<Segment> segments = segments_of(stages);
  ASSERT_EQ(segments.size(), 4u);
  EXPECT_EQ(segments[1].begin, 1u);
  EXPECT_EQ(segments[1].end, 3u);
  EXPECT_EQ(segments[1].region, 1u);
  EXPECT_EQ(segments[3].begin, 4u);
}

}  // namespace
}  // namespace llmc::plan
