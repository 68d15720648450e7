#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/driver/dims.h"
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
};

std::vector<ir::Value> inputs_of(const ir::Graph& graph) {
  std::vector<ir::Value> inputs;
  for (const ir::ValueId input : graph.inputs()) inputs.push_back(graph.value(input));
  return inputs;
}

/// A case's graph for one of its sizes.
struct SizedRun {
  std::size_t open = 0;  // job of the open graph
  ir::Graph graph;
  std::vector<ir::Value> inputs;
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
      auto inputs = inputs_of(*bound);
      runs.push_back({graphs.size() - 1, *std::move(bound), std::move(inputs)});
    }
  }
  std::vector<exec::FunctionLibrary::Job> jobs;
  for (std::size_t i = 0; i < graphs.size(); ++i)
    jobs.push_back({.graph = &graphs[i],
                    .inputs = inputs_of(graphs[i]),
                    .name = std::string(kOpenCases[i].name),
                    .open_dims = kOpenCases[i].ranges});
  for (std::size_t i = 0; i < runs.size(); ++i)
    jobs.push_back({&runs[i].graph, runs[i].inputs, "fixed_" + std::to_string(i)});
  exec::FunctionLibrary::Outcome outcome;
  auto library = exec::FunctionLibrary::compile(jobs, "generic", "-O2", outcome);
  ASSERT_TRUE(library.ok()) << format(library.error().first());
  for (std::size_t i = 0; i < jobs.size(); ++i)
    EXPECT_FALSE(outcome[i]) << jobs[i].name << ": " << format(outcome[i]->first());
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < runs.size() && !::testing::Test::HasFailure(); ++i) {
    const std::string what = jobs[runs[i].open].name + " run " + std::to_string(i);
    std::vector<ir::ConstantPtr> data;
    std::vector<reference::Tensor> tensors;
    for (const ir::Value& input : runs[i].inputs) {
      data.push_back(made_up(input.type, false, state));
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

}  // namespace
}  // namespace llmc::function_test
