#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "compiler/ir/text.h"
#include "passes/pipeline.h"
#include "tests/passes/evaluation.h"
#include "tests/passes/parsed.h"

namespace llmc::passes {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Scores with a table of positions that is normalized and multiplied with a matrix; the product
/// has 272 x 256 elements, too many for fold_constants. `input` is another input.
std::string model(const std::string& input = "") {
  return "graph @g(%x: f32[seq, 64]" + input + R"() {
  %table = constant f32[272, 64] random(1, 1)
  %scale = constant f32[64] random(2, 1)
  %shift = constant f32[64] random(3, 1)
  %n = layer_norm %table, %scale, %shift {epsilon = 1e-05}
  %w = constant f32[64, 256] random(4, 0.5)
  %p = matmul %n, %w
  %b = constant f32[256] random(5, 1)
  %q = add %p, %b
  %shape = constant i64[3] {272, 4, 64}
  %r = reshape %q, %shape
  %t = transpose %r {perm = [1, 2, 0]}
  %y = matmul %x, %t
  %sum = reduce_sum %n {axes = [0, 1], keep_dims = false}
  %z = mul %x, %sum
  return %y, %z
})";
}

ir::Graph folded(ir::Graph graph, ir::WeightFormat format = ir::WeightFormat::kUnset) {
  PipelineOptions options;
  options.context.options.weights = format;
  auto result = run_passes(std::move(graph), {find_pass("fold_products"), 1}, options);
  EXPECT_TRUE(result.ok());
  return std::move(result->graph);
}

TEST(FoldProducts, TheirResultsAreConstantsThatAreEvaluatedWhenRead) {
  const ir::Graph before = parsed(model()), after = folded(before);
  const std::string text = ir::print(after);
  EXPECT_THAT(text, HasSubstr("constant f32[4, 64, 272] mapped \"computed:"));
  EXPECT_THAT(text, Not(HasSubstr("matmul %n")));
  EXPECT_THAT(text, HasSubstr("reduce_sum %n")) << "what no product reads is computed at run time";
  const auto inputs = testing::make_inputs(before, {{"seq", 3}}, 1);
  testing::expect_same_results(before, after, inputs, 0);
}

TEST(FoldProducts, StayWhereWeightsAreRoundedAndInDecoders) {
  const std::string before = ir::print(parsed(model()));
  EXPECT_NE(ir::print(folded(parsed(model()), ir::WeightFormat::kF32)), before);
  for (const auto format : {ir::WeightFormat::kQ4, ir::WeightFormat::kQ8, ir::WeightFormat::kF16})
    EXPECT_EQ(ir::print(folded(parsed(model()), format)), before);
  const ir::Graph decoder = parsed(model(", %ids: i64[seq] {kind = token_ids}"));
  EXPECT_EQ(ir::print(folded(decoder)), ir::print(decoder));
}

TEST(FoldProducts, LargeResultsAndOutputsStay) {
  for (const char* const text :
       {"graph @g(%x: f32[1025, 1024]) { %a = constant f32[1025, 1024] random(1, 1)"
        " %b = constant f32[1024, 1024] random(2, 1) %p = matmul %a, %b %y = add %x, %p return %y "
        "}",
        "graph @g(%x: f32[300, 300]) { %a = constant f32[300, 1] random(1, 1)"
        " %b = constant f32[1, 300] random(2, 1) %p = matmul %a, %b %y = add %x, %p return %y }",
        "graph @g(%x: f32[2]) { %a = constant f32[300, 300] random(1, 1)"
        " %b = constant f32[300, 300] random(2, 1) %p = matmul %a, %b return %p, %x }"}) {
    const ir::Graph graph = parsed(text);
    EXPECT_EQ(ir::print(folded(graph)), ir::print(graph));
  }
}

TEST(FoldProducts, EqualProductsAreStoredOnce) {
  const auto result = run_pipeline(
      parsed("graph @g(%x: f32[300, 300]) { %a = constant f32[300, 300] random(1, 1)"
             " %b = constant f32[300, 300] random(2, 1) %p = matmul %a, %b %q = matmul %a, %b"
             " %y = add %x, %p %s = sin %y %z = add %s, %q return %z }"));
  ASSERT_TRUE(result.ok());
  const std::string text = ir::print(result->graph);
  EXPECT_THAT(text, HasSubstr("computed:"));
  EXPECT_EQ(text.find("computed:"), text.rfind("computed:")) << text;
}

/// Returns a graph in which each product is computed from the one before it and read at run time.
std::string chain(int count) {
  std::string text =
      "graph @g(%x: f32[160, 160]) { %w = constant f32[160, 160] random(1, 0.1)"
      " %p0 = matmul %w, %w %y0 = add %x, %p0";
  for (int i = 1; i < count; ++i) {
    const std::string n = std::to_string(i), last = std::to_string(i - 1);
    text += " %p" + n + " = matmul %p" + last + ", %w %y" + n + " = add %y" + last + ", %p" + n;
  }
  return text + " return %y" + std::to_string(count - 1) + " }";
}

std::size_t products(const ir::Graph& graph) {
  return static_cast<std::size_t>(std::ranges::count_if(
      graph.nodes(), [](const ir::Node& node) { return ir::op_as<ir::MatMul>(&node); }));
}

/// Each product is evaluated once, from the one before it, up to a depth that the stack allows.
TEST(FoldProducts, AreEvaluatedFromEachOther) {
  const ir::Graph before = parsed(chain(30)), after = folded(before);
  EXPECT_EQ(products(after), 0u);
  testing::expect_same_results(before, after, testing::make_inputs(before, {}, 1), 0);
  EXPECT_GT(products(folded(parsed(chain(50)))), 0u);
}

/// Each addition doubles the number of evaluations of the product.
TEST(FoldProducts, LongChainsOfSharedResultsStay) {
  std::string text =
      "graph @g(%x: f32[300, 300]) { %a = constant f32[300, 300] random(1, 1)"
      " %b = constant f32[300, 300] random(2, 1) %p0 = matmul %a, %b";
  for (int i = 0; i < 60; ++i)
    text += " %p" + std::to_string(i + 1) + " = add %p" + std::to_string(i) + ", %p" +
            std::to_string(i);
  const ir::Graph before = parsed(text + " %y = add %x, %p60 return %y }");
  EXPECT_EQ(ir::print(folded(before)), ir::print(before));
}

}  // namespace
}  // namespace llmc::passes
