#include "passes/split_loop.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "tests/passes/evaluation.h"
#include "tests/passes/parsed.h"

namespace llmc::passes {
namespace {

/// Three layers with one cache each, an invariant and named parameters.
constexpr std::string_view kWhole = R"(
graph @g(%x: f32[1, seq, 8], %position_ids: i64[1, seq] {kind = positions}, %past.0: f32[2, 1, past, 1, 4] {kind = attention_cache}, %past.1: f32[2, 1, past, 1, 4] {kind = attention_cache, layer = 1}, %past.2: f32[2, 1, past, 1, 4] {kind = attention_cache, layer = 2}) {
  %y, %present.0, %present.1, %present.2 = loop %x, %past.0, %past.1, %past.2, %position_ids {count = 3, carried = 1, per_iteration_inputs = 1, per_iteration_outputs = 1}
    parameters [
      ["w0" f32[16, 8] random(1, 0.5), "w1" f32[16, 8] random(3, 0.5), "w2" f32[16, 8] random(5, 0.5)],
      ["o0" f32[8, 8] random(2, 0.5), "o1" f32[8, 8] random(4, 0.5), "o2" f32[8, 8] random(6, 0.5)]]
    body @layer(%x: f32[1, seq, 8], %past: f32[2, 1, past, 1, 4], %position_ids: i64[1, seq]) {
      %0 = parameter {index = 0} : f32[16, 8]
      %f = constant f32[2] {1, 0.1}
      %q, %k, %v = qkv_projection %x, %0, _, _, %position_ids, %f {heads = 2, kv_heads = 1, head_dim = 4, rope = {rotary_dim = 4}} : f32[1, seq, 2, 4], f32[1, seq, 1, 4], f32[1, seq, 1, 4]
      %a, %p = attention %q, %k, %v, %past {heads = 2, kv_heads = 1, head_dim = 4, scale = 0.5} : f32[1, seq, 8], f32[2, 1, past + seq, 1, 4]
      %1 = parameter {index = 1} : f32[8, 8]
      %z = linear %a, %1, _, _, %x : f32[1, seq, 8]
      return %z, %p
    } : f32[1, seq, 8], f32[2, 1, past + seq, 1, 4], f32[2, 1, past + seq, 1, 4], f32[2, 1, past + seq, 1, 4]
  %logits = tanh %y : f32[1, seq, 8]
  return %logits, %present.0, %present.1, %present.2
})";

void expect_split(std::initializer_list<std::int64_t> counts, std::string_view loops) {
  const ir::Graph whole = parsed(kWhole);
  const std::vector<std::int64_t> ranges(counts);
  const ir::Graph split = split_loop(whole, 0, ranges);
  const Status valid = ir::verify(split);
  ASSERT_TRUE(valid.ok()) << valid.error().first().message;
  const std::string text = ir::print(split);
  EXPECT_NE(text.find(loops), std::string::npos) << text;
  EXPECT_EQ(ir::print(parsed(text)), text);
  const auto inputs = testing::make_inputs(whole, {{"seq", 3}, {"past", 2}}, 1);
  testing::expect_same_results(whole, split, inputs, 0);
}

TEST(SplitLoop, DistributesCachesParametersAndNames) {
  expect_split(
      {1, 2},
      R"(loop %0, %past.1, %past.2, %position_ids {count = 2, carried = 1, per_iteration_inputs = 1, per_iteration_outputs = 1}
    parameters [
      ["w1" f32[16, 8] random(3, 0.5), "w2" f32[16, 8] random(5, 0.5)],
      ["o1" f32[8, 8] random(4, 0.5), "o2" f32[8, 8] random(6, 0.5)]])");
}

TEST(SplitLoop, MakesLoopsOfOneIteration) {
  expect_split({1, 1, 1}, "loop %1, %past.2, %position_ids {count = 1,");
}

TEST(SplitLoop, OneRangeIsTheLoopItself) {
  const ir::Graph whole = parsed(kWhole);
  const std::int64_t counts[] = {3};
  EXPECT_EQ(ir::print(split_loop(whole, 0, counts)), ir::print(whole));
}

}  // namespace
}  // namespace llmc::passes
