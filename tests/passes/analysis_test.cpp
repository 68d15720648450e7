// Analyses that are no passes: sizes that a graph allows, and the run time of mask analysis.

#include <gtest/gtest.h>

#include <string>

#include "passes/mask_analysis.h"
#include "passes/position_bias.h"
#include "passes/size_limit.h"
#include "tests/passes/parsed.h"

namespace llmc::passes {
namespace {

using ir::Dim;

/// Returns a graph with the indices %q of queries and %k of keys. `first` computes %x0. Each of the
/// `count` values after it is `op` of the previous value with itself. Without caching, an analysis
/// of the last one would take 2^count steps.
std::string doubled(const std::string& first, const std::string& op, int count) {
  std::string text = R"(graph @g(%keys: f32[past + seq], %queries: f32[seq], %cached: f32[past]) {
  %zero = constant i64[] {0}
  %one = constant i64[] {1}
  %total1 = shape %keys {begin = 0, end = 1}
  %total = squeeze %total1 {axes = [0]}
  %count1 = shape %queries {begin = 0, end = 1}
  %count = squeeze %count1 {axes = [0]}
  %length1 = shape %cached {begin = 0, end = 1}
  %length = squeeze %length1 {axes = [0]}
  %k = range %zero, %total, %one
  %q0 = range %zero, %count, %one
  %q1 = add %q0, %length
  %q = unsqueeze %q1 {axes = [1]}
)" + first;
  for (int i = 0; i < count; ++i) {
    const std::string before = "%x" + std::to_string(i);
    text += "  %x" + std::to_string(i + 1) + " = " + op + " " + before + ", " + before + "\n";
  }
  return text + "  return %x" + std::to_string(count) + "\n}\n";
}

constexpr int kDoublings = 50;

struct Analysed {
  explicit Analysed(const std::string& text)
      : rw(parsed(text)), indices(rw), value(rw.graph().outputs()[0]) {}
  Rewriter rw;
  IndexAnalysis indices;
  ir::ValueId value;
  MaskShape shape{Dim::symbol("seq"), Dim::symbol("past"),
                  *ir::add(Dim::symbol("past"), Dim::symbol("seq"))};
};

TEST(MaskAnalysis, AnswersEachQuestionOnce) {
  Analysed of_bools(doubled("  %x0 = less_or_equal %k, %q\n", "and", kDoublings));
  MaskAnalysis masks(of_bools.rw, of_bools.indices, of_bools.shape);
  const Band causal{std::nullopt, Dim::symbol("past")};
  EXPECT_EQ(masks.condition(of_bools.value, true), causal);

  Analysed of_biases(doubled(R"(  %seen = less_or_equal %k, %q
  %nothing = constant f32[] {0}
  %low = constant f32[] {-3.4028235e+38}
  %x0 = where %seen, %nothing, %low
)",
                             "add", kDoublings));
  MaskAnalysis biases(of_biases.rw, of_biases.indices, of_biases.shape);
  EXPECT_EQ(biases.bias(of_biases.value), causal);

  Analysed of_flags(doubled(R"(  %seen = less_or_equal %k, %q
  %x0 = cast %seen {to = f32}
)",
                            "mul", kDoublings));
  MaskAnalysis flags(of_flags.rw, of_flags.indices, of_flags.shape);
  EXPECT_EQ(flags.bias(of_flags.value), std::nullopt);
}

TEST(MaskAnalysis, NumbersThatHideAreTrue) {
  Analysed mask(doubled(R"(  %seen = less_or_equal %k, %q
  %nothing = constant f32[] {0}
  %low = constant f32[] {-3.4028235e+38}
  %bias = where %seen, %nothing, %low
  %x0 = cast %bias {to = bool}
)",
                        "", 0));
  MaskAnalysis masks(mask.rw, mask.indices, mask.shape);
  EXPECT_EQ(masks.condition(mask.value, false), (Band{std::nullopt, Dim::symbol("past")}));
  EXPECT_EQ(masks.condition(mask.value, true),
            (Band{*ir::add(Dim::symbol("past"), Dim(1)), std::nullopt}));
}

TEST(PositionBias, AnalysesEachValueOnce) {
  Analysed squares(doubled(R"(  %distance = sub %q, %k
  %number = cast %distance {to = f32}
  %x0 = mul %number, %number
)",
                           "add", kDoublings));
  PositionBias bias(squares.rw, squares.indices, squares.shape);
  EXPECT_EQ(bias.find(squares.value), BiasIndex::kDistance);
}

TEST(SizeLimit, IsTheShortestTable) {
  const ir::Graph graph = parsed(R"(graph @g(%ids: i64[1, source]) {
  %words = constant f32[7, 2] {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  %x = gather %words, %ids {axis = 0}
  %positions = constant f32[1, 6, 2] {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  %one = constant i64[1] {1}
  %size = shape %ids {begin = 1, end = 2}
  %end = add %size, %one
  %p = slice %positions, %one, %end, %one
  %y = add %x, %p
  return %y
})");
  EXPECT_EQ(size_limit(graph, Dim::symbol("source")), 5) << "one of 6 rows is skipped";
  EXPECT_EQ(size_limit(graph, Dim::symbol("other")), std::nullopt);
  EXPECT_EQ(vocabulary_limit(graph, graph.inputs()[0]), 7);
}

TEST(SizeLimit, KnowsNoPositionsOfAnInput) {
  const ir::Graph graph = parsed(R"(graph @g(%position_ids: i64[1, seq], %cached: f32[past]) {
  %table = constant f32[6, 1] {0, 0, 0, 0, 0, 0}
  %past = shape %cached {begin = 0, end = 1}
  %p = sub %position_ids, %past
  %x = gather %table, %p {axis = 0}
  return %x
})");
  EXPECT_EQ(size_limit(graph, Dim::symbol("seq")), std::nullopt)
      << "only inputs of kind positions begin at past";
}

TEST(VocabularyLimit, IsTheSmallestTable) {
  const ir::Graph graph = parsed(R"(graph @g(%ids: i64[1, source], %other: i64[1, source]) {
  %large = constant f32[4, 1] {0, 0, 0, 0}
  %small = constant f32[3, 1] {0, 0, 0}
  %shape = constant i64[1] {-1}
  %flat = reshape %ids, %shape
  %x = gather %large, %ids {axis = 0}
  %narrow = cast %flat {to = i32}
  %y = gather %small, %narrow {axis = 0}
  return %x, %y
})");
  EXPECT_EQ(vocabulary_limit(graph, graph.inputs()[0]), 3);
  EXPECT_EQ(vocabulary_limit(graph, graph.inputs()[1]), std::nullopt);
}

}  // namespace
}  // namespace llmc::passes
