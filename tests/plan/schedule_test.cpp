#include "compiler/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::HasSubstr;

Plan plan_of(const target::Device& device, std::uint32_t chunk, std::uint32_t in_flight) {
  PlanOptions options;
  options.target = *target::find("avx2");
  options.name = "tiny";
  options.ctx = 256;
  options.chunk = chunk;
  options.device = target::find_device("reference");
  options.in_flight = in_flight;
  auto plan = make_plan(tests::stage_graph({.layers = 6}), options);
  if (!plan.ok()) ADD_FAILURE() << llmc::format(plan.error().first());
  plan->partition->device = &device;  // the same regions for every device
  return *std::move(plan);
}

target::Device device_with(double multiply_adds_per_ns) {
  target::Device device = *target::find_device("reference");
  device.multiply_adds_per_ns = multiply_adds_per_ns;
  device.submit_ns = 1;
  return device;
}

TEST(Schedule, RunsEveryStepOnceInOrder) {
  const target::Device device = device_with(30);
  for (const std::uint32_t in_flight : {1u, 2u, 3u, 8u}) {
    const Plan plan = plan_of(device, 32, in_flight);
    const Schedule schedule = simulate(plan, 200);
    EXPECT_EQ(schedule.chunks, 7u);
    std::map<std::uint32_t, std::uint32_t> next;  // next step of each chunk
    std::vector<Span> spans = schedule.spans;
    std::ranges::sort(spans, {}, &Span::begin);
    std::map<std::uint32_t, double> ends;
    double free[2] = {0, 0};
    for (const Span& span : spans) {
      EXPECT_EQ(span.first_step, next[span.chunk]);
      next[span.chunk] = span.end_step;
      EXPECT_GE(span.begin, ends[span.chunk]);  // after the previous step of the chunk
      ends[span.chunk] = span.end;
      EXPECT_GE(span.begin, free[span.on_device]);  // CPU and device run one span at a time
      free[span.on_device] = span.end;
    }
    for (const auto& [chunk, step] : next) EXPECT_EQ(step, plan.partition->steps) << chunk;
    EXPECT_EQ(next.size(), 7u);
    EXPECT_GE(schedule.total, schedule.bound * 0.999999);
  }
}

TEST(Schedule, ChunksOverlap) {
  const target::Device device = device_with(20);
  const Schedule one = simulate(plan_of(device, 32, 1), 256);
  const Schedule two = simulate(plan_of(device, 32, 2), 256);
  EXPECT_NEAR(one.cpu, two.cpu, 1e-6);
  EXPECT_NEAR(one.device, two.device, 1e-6);
  EXPECT_GE(one.total, one.cpu + one.device);  // nothing overlaps
  EXPECT_LT(two.total, 0.9 * one.total);
  const target::Device fast = device_with(8 * target::kCpuMultiplyAddsPerNs);
  const Schedule bound_by_cpu = simulate(plan_of(fast, 32, 2), 256);
  EXPECT_LE(bound_by_cpu.total, 1.15 * bound_by_cpu.bound);
}

TEST(Schedule, BytesOfABorderTakeTime) {
  target::Device near = device_with(30), far = near;
  far.shares_memory = false;
  far.bytes_per_ns = 50;
  const Schedule shared = simulate(plan_of(near, 32, 2), 256);
  const Schedule copied = simulate(plan_of(far, 32, 2), 256);
  const Plan plan = plan_of(far, 32, 2);
  const auto row =
      static_cast<double>(plan.partition->bytes_to_device + plan.partition->bytes_from_device);
  EXPECT_NEAR(copied.device - shared.device, 256 * row / 50, 1);
}

TEST(Schedule, ChunksHalveTheAttention) {
  const target::Device device = device_with(30);
  const Schedule s = simulate(plan_of(device, 32, 2), 256);
  const double one = 2.0 * 4 * 16 * 6;  // multiply-adds per query and key: K, V; heads; dim; layers
  EXPECT_DOUBLE_EQ(s.attention_whole, one * 256 * 256);
  EXPECT_DOUBLE_EQ(s.attention_chunks, one * (256.0 * 256 + 32 * 256) / 2);
}

TEST(Schedule, IsDrawn) {
  const target::Device device = device_with(20);
  const Schedule s = simulate(plan_of(device, 64, 2), 256);
  const std::string text = timeline_text(s, 40);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  EXPECT_EQ(text.size(), 2 * (8 + 40 + 1));
  for (const char digit : {'0', '1', '2', '3'}) EXPECT_THAT(text, HasSubstr(std::string(1, digit)));
  const std::string svg = timeline_svg(s);
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  std::size_t bars = 0;
  for (std::size_t at = svg.find("<title>"); at != svg.npos; at = svg.find("<title>", at + 1))
    ++bars;
  EXPECT_EQ(bars, s.spans.size());
}

}  // namespace
}  // namespace llmc::plan
