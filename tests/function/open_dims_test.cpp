#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/driver/dims.h"
#include "compiler/driver/prepare.h"
#include "compiler/exec/function_library.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/reference/interpreter.h"
#include "tests/function/made_up.h"

/// Plain graphs whose sizes are known at run time only.
namespace llmc::function_test {
namespace {

struct OpenCase {
  std::string_view name;
  std::string_view graph;
  plan::DimRanges ranges;
  std::vector<plan::DimRanges> sizes;  // of the runs
};

const OpenCase kOpenCases[] = {
    {"open_rows",
     R"(graph @g(%x: f32[n, 4], %b: f32[3]) {
  %w = constant f32[4, 3] random(7, 0.5)
  %e = exp %x
  %y = matmul %e, %w
  %z = add %y, %b
  return %z, %e
})",
     {{"n", {1, 9}}},
     {{{"n", 1}}, {{"n", 5}}, {{"n", 9}}}},
    {"open_two_dims",
     R"(graph @g(%x: f32[b, s, 24], %y: f32[b, s, 24], %m: f32[b, s]) {
  %a = mul %x, %y
  %n = reduce_mean %a {axes = [-1], keep_dims = true}
  %d = sub %a, %n
  %p = softmax %d {axis = 1}
  %r = reduce_sum %p {axes = [0, 2], keep_dims = false}
  %t = transpose %p {perm = [2, 0, 1]}
  %u = mul %t, %m
  %k = arg_max %u {axis = 2, keep_dims = false, minimum = false, last = false}
  %c = cum_sum %u {axis = 2, exclusive = false, reverse = false}
  return %r, %u, %k, %c
})",
     {{"b", {1, 3}}, {"s", {1, 20}}},
     {{{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 7}}, {{"b", 2}, {"s", 20}}}},
    {"open_attention",
     R"(graph @g(%x: f32[b, s, 32], %m: bool[b, s]) {
  %w = constant f32[32, 32] random(3, 0.3)
  %v = constant f32[32, 32] random(4, 0.3)
  %heads = constant i64[4] {0, 0, 4, 8}
  %q1 = matmul %x, %w
  %q2 = reshape %q1, %heads
  %q = transpose %q2 {perm = [0, 2, 1, 3]}
  %k = transpose %q2 {perm = [0, 2, 3, 1]}
  %v1 = matmul %x, %v
  %v2 = reshape %v1, %heads
  %v3 = transpose %v2 {perm = [0, 2, 1, 3]}
  %s1 = matmul %q, %k
  %mask = unsqueeze %m {axes = [1, 2]}
  %low = constant f32[] {-10000}
  %none = constant f32[] {0}
  %bias = where %mask, %none, %low
  %s2 = add %s1, %bias
  %p = softmax %s2 {axis = -1}
  %y1 = matmul %p, %v3
  %y2 = transpose %y1 {perm = [0, 2, 1, 3]}
  %flat = constant i64[3] {0, 0, 32}
  %y = reshape %y2, %flat
  return %y, %s1
})",
     {{"b", {1, 2}}, {"s", {1, 40}}},
     {{{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 33}}, {{"b", 2}, {"s", 40}}}},
    {"open_positions",
     R"(graph @g(%ids: i64[b, s], %mask: i64[b, s]) {
  %table = constant f32[50, 8] random(1, 0.5)
  %positions = constant f32[12, 8] random(2, 0.5)
  %fifty = constant i64[] {50}
  %at = mod %ids, %fifty
  %x = gather %table, %at {axis = 0}
  %shape = shape %ids {begin = 1, end = 2}
  %zero = constant i64[1] {0}
  %one = constant i64[1] {1}
  %rows = slice %positions, %zero, %shape, %zero, %one
  %y = add %x, %rows
  %length = squeeze %shape {axes = [0]}
  %z0 = constant i64[] {0}
  %z1 = constant i64[] {1}
  %r = range %z0, %length, %z1
  %c = less %r, %length
  %first = constant i64[] {0}
  %last = constant i64[] {-1}
  %cls = gather %y, %first {axis = 1}
  %end = gather %y, %last {axis = 1}
  %head = slice %y, %zero, %one, %one, %one
  %both = concat %cls, %end {axis = 1}
  %size = shape %y
  return %y, %r, %c, %both, %head, %size
})",
     {{"b", {1, 2}}, {"s", {2, 12}}},
     {{{"b", 1}, {"s", 2}}, {{"b", 2}, {"s", 5}}, {{"b", 2}, {"s", 12}}}},
    // Blocks of 5 rows, each beside the one before, as in local attention: pads by what is missing.
    {"open_blocks",
     R"(graph @g(%x: f32[n, 3]) {
  %size = shape %x {begin = 0, end = 1}
  %five = constant i64[1] {5}
  %minus = neg %size
  %more = mod %minus, %five
  %zeros = constant i64[3] {0, 0, 0}
  %flat = concat %zeros, %more {axis = 0}
  %pairs = constant i64[2] {-1, 2}
  %two = reshape %flat, %pairs
  %last = constant i64[1] {-1}
  %first = constant i64[1] {0}
  %end = constant i64[1] {-9223372036854775807}
  %turned = slice %two, %last, %end, %first, %last
  %t = transpose %turned {perm = [1, 0]}
  %pads = reshape %t, %last
  %fill = constant f32[] {7}
  %p = pad %x, %pads, %fill
  %blocks = constant i64[3] {-1, 5, 3}
  %b = reshape %p, %blocks
  %before = constant i64[6] {1, 0, 0, 0, 0, 0}
  %after = constant i64[6] {-1, 0, 0, 1, 0, 0}
  %l = pad %b, %before
  %r = pad %b, %after
  %stop = constant i64[1] {-1}
  %one = constant i64[1] {1}
  %left = slice %l, %first, %stop, %first, %one
  %y = concat %left, %b, %r {axis = 1}
  %less = neg %more
  %none = constant i64[2] {0, 0}
  %back = concat %none, %less, %first {axis = 0}
  %z = pad %p, %back
  return %y, %p, %z
})",
     {{"n", {1, 13}}},
     {{{"n", 1}}, {{"n", 4}}, {{"n", 5}}, {{"n", 6}}, {{"n", 13}}}},
    {"open_movement",
     R"(graph @g(%x: f32[n, 6], %i: i64[n, 6], %z: f32[m, 6]) {
  %flat = constant i64[1] {-1}
  %f = reshape %x, %flat
  %c = concat %x, %z {axis = 0}
  %pads = constant i64[4] {1, 0, 2, 3}
  %p = pad %x, %pads {mode = constant}
  %n = constant i64[] {6}
  %k = mod %i, %n
  %g = gather_elements %x, %k {axis = 1}
  %a, %b = split %x {axis = 1, sizes = [2, 4]}
  %s = shape %z
  %o = constant_of_shape %s {value = f32[1] {2}}
  %two = constant i64[2] {2, 1}
  %t = tile %x, %two
  %mt = transpose %z {perm = [1, 0]}
  %q = matmul %x, %mt
  %start = constant i64[1] {1}
  %stop = constant i64[1] {9223372036854775807}
  %axis = constant i64[1] {0}
  %rest = slice %x, %start, %stop, %axis
  %three = constant i64[2] {-1, 3}
  %h = reshape %x, %three
  return %f, %c, %p, %g, %b, %o, %t, %q, %rest, %h
})",
     {{"n", {2, 7}}, {"m", {1, 33}}},
     {{{"n", 2}, {"m", 1}}, {{"n", 7}, {"m", 3}}, {{"n", 5}, {"m", 33}}}},
    // The rows before and after each; of one row there are none.
    {"open_neighbours",
     R"(graph @g(%x: f32[b, s, 4]) {
  %zero = constant i64[1] {0}
  %one = constant i64[1] {1}
  %last = constant i64[1] {-1}
  %end = constant i64[1] {9223372036854775807}
  %before = slice %x, %zero, %last, %one
  %pads_before = constant i64[6] {0, 1, 0, 0, 0, 0}
  %p = pad %before, %pads_before {mode = constant}
  %after = slice %x, %one, %end, %one
  %pads_after = constant i64[6] {0, 0, 0, 0, 1, 0}
  %n = pad %after, %pads_after {mode = constant}
  %y = concat %p, %x, %n {axis = 2}
  return %y
})",
     {{"b", {1, 2}}, {"s", {1, 9}}},
     {{{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 1}}, {{"b", 2}, {"s", 2}}, {{"b", 1}, {"s", 9}}}},
    // The sizes of the results are quotients of the size of the input.
    {"open_strides",
     R"(graph @g(%x: f32[1, 1, n]) {
  %w1 = constant f32[4, 1, 9] random(1, 0.5)
  %w2 = constant f32[8, 4, 5] random(2, 0.5)
  %w3 = constant f32[8, 8, 2] random(3, 0.5)
  %a = conv %x, %w1 {strides = [4], dilations = [1]}
  %b = conv %a, %w2 {strides = [3], dilations = [1]}
  %c = conv %b, %w3 {strides = [2], dilations = [1]}
  %rows = transpose %c {perm = [0, 2, 1]}
  %shape = shape %rows
  %minus = constant i64[] {-1}
  %is_minus = equal %shape, %minus
  %one = constant i64[] {1}
  %sizes = where %is_minus, %one, %shape
  %zero = constant f32[] {0.5}
  %full = expand %zero, %sizes
  %y = add %rows, %full
  %head = constant i64[4] {0, 0, 2, 4}
  %z = reshape %y, %head
  return %a, %y, %z, %sizes
})",
     {{"n", {37, 200}}},
     {{{"n", 37}}, {{"n", 38}}, {{"n", 60}}, {{"n", 61}}, {{"n", 199}}, {{"n", 200}}}},
};

/// A case's graph for one of its sizes.
struct SizedRun {
  std::size_t open = 0;  // job of the open graph
  ir::Graph graph;
};

TEST(OpenDims, EverySizeHasTheBitsOfAGraphOfFixedSizes) {
  std::vector<ir::Graph> graphs;
  std::vector<SizedRun> runs;
  for (const OpenCase& test : kOpenCases) {
    auto graph = ir::parse(test.graph);
    ASSERT_TRUE(graph.ok()) << test.name << format(graph.error().first());
    graphs.push_back(*std::move(graph));
    for (const plan::DimRanges& sizes : test.sizes) {
      auto bound = driver::bind_dims(graphs.back(), sizes);
      ASSERT_TRUE(bound.ok()) << test.name << format(bound.error().first());
      runs.push_back({graphs.size() - 1, *std::move(bound)});
    }
  }
  std::vector<exec::FunctionLibrary::Job> jobs;
  for (std::size_t i = 0; i < graphs.size(); ++i)
    jobs.push_back({.graph = &graphs[i],
                    .name = std::string(kOpenCases[i].name),
                    .open_dims = kOpenCases[i].ranges});
  for (std::size_t i = 0; i < runs.size(); ++i)
    jobs.push_back({&runs[i].graph, "fixed_" + std::to_string(i)});
  exec::FunctionLibrary::Outcome outcome;
  auto library = exec::FunctionLibrary::compile(jobs, "generic", "-O1", outcome);
  ASSERT_TRUE(library.ok()) << format(library.error().first());
  for (std::size_t i = 0; i < jobs.size(); ++i)
    EXPECT_FALSE(outcome[i]) << jobs[i].name << ": " << format(outcome[i]->first());
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < runs.size() && !::testing::Test::HasFailure(); ++i) {
    const std::string what = jobs[runs[i].open].name + " run " + std::to_string(i);
    std::vector<ir::ConstantPtr> data;
    std::vector<reference::Tensor> tensors;
    for (const ir::ValueId input : runs[i].graph.inputs()) {
      data.push_back(made_up(runs[i].graph.value(input).type, false, state));
      tensors.push_back(reference::to_tensor(*data.back()));
    }
    const auto want = reference::evaluate(runs[i].graph, tensors);
    ASSERT_TRUE(want.ok()) << what << format(want.error().first());
    const auto fixed = (*library)->run(graphs.size() + i, data);
    const auto open = (*library)->run(runs[i].open, data);
    ASSERT_TRUE(fixed.ok()) << what << format(fixed.error().first());
    ASSERT_TRUE(open.ok()) << what << format(open.error().first());
    for (std::size_t o = 0; o < want->size(); ++o) {
      const std::string output = what + " output " + std::to_string(o);
      expect_close((*want)[o], *(*open)[o], 1e-5, output);
      EXPECT_EQ((*fixed)[o]->bytes(), (*open)[o]->bytes()) << output;
    }
  }
}

Result<plan::Plan> plan_of(std::string_view text, const plan::DimRanges& ranges,
                           ir::WeightFormat quant = ir::WeightFormat::kUnset) {
  auto graph = ir::parse(text);
  EXPECT_TRUE(graph.ok()) << format(graph.error().first());
  LLMC_TRY(const ir::Graph bound, driver::bind_dims(*std::move(graph), ranges));
  plan::PlanOptions options;
  options.target = *target::find("generic");
  options.name = "g";
  options.open_dims = ranges;
  return driver::plan_graph(bound, options, quant);
}

TEST(OpenDims, MemoryIsPlannedForTheBounds) {
  constexpr std::string_view kGraph = R"(graph @g(%x: f32[b, s, 8]) {
  %w = constant f32[8, 32] random(1, 0.5)
  %y = matmul %x, %w
  %p = softmax %y {axis = 1}
  return %p
})";
  const auto open = plan_of(kGraph, {{"b", {1, 3}}, {"s", {1, 7}}});
  const auto fixed = plan_of(kGraph, {{"b", 3}, {"s", 7}});
  ASSERT_TRUE(open.ok() && fixed.ok());
  EXPECT_EQ(open->arena_bytes, fixed->arena_bytes);
  EXPECT_EQ(open->program.inputs[0].bytes(), fixed->program.inputs[0].bytes());
  ASSERT_EQ(open->program.open_dims.size(), 2u);
  EXPECT_EQ(open->program.open_dims[0]->name, "b");
  const plan::Port& output = open->program.outputs[0];
  EXPECT_EQ(output.dims_at({{"b", 2}, {"s", 5}}), (std::vector<std::int64_t>{2, 5, 32}));
}

TEST(OpenDims, WeightsHaveTheFormatsOfAGraphOfFixedSizes) {
  constexpr std::string_view kGraph = R"(graph @g(%x: f32[s, 64]) {
  %w1 = constant f32[64, 128] random(1, 0.5)
  %w2 = constant f32[128, 64] random(2, 0.5)
  %h = matmul %x, %w1
  %e = sigmoid %h
  %y = matmul %e, %w2
  return %y
})";
  const auto formats = [&](const plan::DimRanges& ranges) {
    std::vector<std::string> names;
    const auto plan = plan_of(kGraph, ranges, ir::WeightFormat::kQ4);
    EXPECT_TRUE(plan.ok());
    if (plan.ok())
      for (const plan::PackedWeight& weight : plan->program.weights)
        names.push_back(weight.format_name());
    return names;
  };
  const std::vector<std::string> fixed = formats({{"s", 7}});
  EXPECT_EQ(fixed.size(), 2u);
  EXPECT_EQ(formats({{"s", {1, 7}}}), fixed);
}

TEST(OpenDims, ARangeOfOneSizeIsANumber) {
  const auto plan = plan_of("graph @g(%x: f32[n]) {\n  %y = exp %x\n  return %y\n}",
                            {{"n", plan::DimRange(4, 4)}});
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->program.open_dims.empty());
  EXPECT_EQ(plan->program.outputs[0].dims, plan::Sizes{4});
}

TEST(OpenDims, WhatIsNotProvenForAllSizesIsRefused) {
  const auto refused = [](std::string_view text, const plan::DimRanges& ranges) {
    const auto plan = plan_of(text, ranges);
    EXPECT_FALSE(plan.ok()) << text;
    if (plan.ok()) return std::string();
    EXPECT_EQ(plan.error().first().kind, ErrorKind::kUnsupported);
    return plan.error().first().hint;
  };
  // A table of 12 rows: enough for 12 positions and not for 13.
  constexpr std::string_view kSlice = R"(graph @g(%x: f32[s, 8]) {
  %t = constant f32[12, 8] random(2, 0.5)
  %shape = shape %x {begin = 0, end = 1}
  %zero = constant i64[1] {0}
  %rows = slice %t, %zero, %shape
  %y = add %x, %rows
  return %y
})";
  EXPECT_TRUE(plan_of(kSlice, {{"s", {1, 12}}}).ok());
  EXPECT_THAT(refused(kSlice, {{"s", {1, 13}}}), ::testing::HasSubstr("--dim s=N"));
  // Two dims that inference takes for equal, and one that broadcasts only if it is 1.
  EXPECT_THAT(refused(R"(graph @g(%x: f32[a, 8], %z: f32[b, 8]) {
  %y = add %x, %z
  return %y
})",
                      {{"a", {1, 4}}, {"b", {1, 4}}}),
              ::testing::HasSubstr("--dim a=N or --dim b=N"));
  EXPECT_THAT(refused(R"(graph @g(%x: f32[2, a], %z: f32[2, 4]) {
  %y = add %x, %z
  return %y
})",
                      {{"a", {1, 4}}}),
              ::testing::HasSubstr("--dim a=N"));
  // The length depends on the data.
  refused(R"(graph @g(%x: f32[a], %n: i64[1]) {
  %zero = constant i64[1] {0}
  %y = slice %x, %zero, %n
  return %y
})",
          {{"a", {1, 4}}});
}

TEST(Function, ATableTooLargeForThePlanIsRefused) {
  const auto plan = plan_of(R"(graph @g(%x: f32[2]) {
  %p = constant i64[2] {0, 549755813888}
  %y = pad %x, %p {mode = edge}
  return %y
})",
                            {});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().first().kind, ErrorKind::kUnsupported);
}

TEST(OpenDims, ASizeOutsideItsRangeIsAnError) {
  const auto graph = ir::parse("graph @g(%x: f32[n, 4]) {\n  %y = exp %x\n  return %y\n}");
  ASSERT_TRUE(graph.ok());
  const exec::FunctionLibrary::Job job{
      .graph = &*graph, .name = "rows", .open_dims = {{"n", {2, 3}}}};
  exec::FunctionLibrary::Outcome outcome;
  const auto library =
      exec::FunctionLibrary::compile(std::span(&job, 1), "generic", "-O1", outcome);
  ASSERT_TRUE(library.ok() && !outcome[0]);
  const auto run = [&](std::int64_t n) {
    return (*library)->run(0, std::vector{ir::make_splat(ir::ElementType::kF32, {n, 4}, 1)});
  };
  EXPECT_TRUE(run(2).ok());
  EXPECT_TRUE(run(3).ok());
  for (const std::int64_t n : {1, 4}) {
    const auto outputs = run(n);
    ASSERT_FALSE(outputs.ok()) << n;
    EXPECT_THAT(outputs.error().first().message, ::testing::HasSubstr("not in 2..3"));
  }
}

TEST(BindDims, RangesLeaveSymbols) {
  const auto graph = ir::parse(
      "graph @g(%x: f32[batch, past], %y: f32[batch, past + 1]) {\n"
      "  %a = exp %x\n  %b = exp %y\n  return %a, %b\n}");
  ASSERT_TRUE(graph.ok());
  const auto bound = driver::bind_dims(*graph, {{"batch", 2}, {"past", {1, 8}}});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(ir::to_string(bound->value(bound->inputs()[1]).type), "f32[2, past + 1]");
  EXPECT_EQ(driver::missing_dims(*bound, {{"past", {1, 8}}}), "");
  EXPECT_EQ(driver::missing_dims(*bound), "--dim past=N");
  const auto message = [&](const plan::DimRanges& dims) {
    const auto result = driver::bind_dims(*graph, dims);
    EXPECT_FALSE(result.ok());
    if (result.ok()) return std::string();
    EXPECT_EQ(result.error().first().kind, ErrorKind::kUsage);
    return result.error().first().message;
  };
  EXPECT_THAT(message({{"past", {0, 8}}}), ::testing::HasSubstr("no range of sizes"));
  EXPECT_THAT(message({{"past", {5, 4}}}), ::testing::HasSubstr("no range of sizes"));
  EXPECT_THAT(message({{"past + 1", {1, 8}}}), ::testing::HasSubstr("a range to a sum"));
  EXPECT_THAT(message({{"past", {1, 8}}, {"past + 1", 4}}), ::testing::HasSubstr("contradicts"));
  EXPECT_THAT(message({{"pats", {1, 8}}}), ::testing::HasSubstr("no input has a dim"));
}

}  // namespace
}  // namespace llmc::function_test
