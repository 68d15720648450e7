#include "passes/rewrite.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "passes/match.h"
#include "tests/passes/parsed.h"

namespace llmc::passes {
namespace {

ir::ValueId find(const Rewriter& rw, std::string_view name) {
  for (std::uint32_t i = 0; i < rw.graph().values().size(); ++i)
    if (rw.graph().values()[i].name == name) return {i};
  LLMC_CHECK(false);
}

std::string finish(Rewriter&& rw) {
  auto graph = std::move(rw).finish();
  if (!graph.ok()) return graph.error().first().message;
  EXPECT_TRUE(ir::verify(*graph).ok());
  return ir::print(*graph);
}

constexpr auto kSin = ir::Unary{ir::UnaryKind::kSin};

TEST(Rewriter, WithoutChangesKeepsEverythingThatIsNeeded) {
  const ir::Graph graph = parsed(R"(graph @g(%x: f32[seq, 4], %unused: i64[2]) {
    %a = cos %x
    %dead = sin %a
    %y = neg %a
    return %y
  })");
  EXPECT_EQ(finish(Rewriter(graph)),
            ir::print(parsed(R"(graph @g(%x: f32[seq, 4], %unused: i64[2]) {
    %a = cos %x
    %y = neg %a
    return %y
  })")));
}

TEST(Rewriter, ReplacementTakesTheNameAndThePlace) {
  Rewriter rw(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = cos %x
    %b = neg %a
    %y = tanh %b
    return %y
  })"));
  const ir::ValueId a = find(rw, "a");
  rw.replace(a, rw.emit(kSin, {find(rw, "x")}, *rw.producer_index(a)));
  EXPECT_FALSE(rw.alive(0));
  EXPECT_TRUE(rw.alive(1));
  EXPECT_EQ(finish(std::move(rw)), ir::print(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = sin %x
    %b = neg %a
    %y = tanh %b
    return %y
  })")));
}

TEST(Rewriter, OutputsKeepTheirNamesEvenWhenAnInputReplacesThem) {
  Rewriter rw(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = cos %x
    %b = cos %x
    return %a, %b
  })"));
  EXPECT_TRUE(rw.needs_identity(find(rw, "a"), find(rw, "x")));
  rw.replace(find(rw, "a"), find(rw, "x"));
  EXPECT_EQ(finish(std::move(rw)), ir::print(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = identity %x
    %b = cos %x
    return %a, %b
  })")));
}

TEST(Rewriter, NodesThatReadAReplacementComeBehindIt) {
  // The replacement of an early value is computed from a late one.
  Rewriter rw(parsed(R"(graph @g(%x: f32[seq, 4], %z: f32[seq, 4]) {
    %a = cos %x
    %y = neg %a
    %late = sin %z
    %w = tanh %late
    return %y, %w
  })"));
  rw.replace(find(rw, "a"), find(rw, "w"));
  EXPECT_EQ(finish(std::move(rw)), ir::print(parsed(R"(graph @g(%x: f32[seq, 4], %z: f32[seq, 4]) {
    %late = sin %z
    %w = tanh %late
    %y = neg %w
    return %y, %w
  })")));
}

TEST(Rewriter, CountsUsesAsTheyAreNow) {
  Rewriter rw(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = cos %x
    %b = add %a, %a
    %c = neg %x
    return %b, %x
  })"));
  const ir::ValueId x = find(rw, "x"), a = find(rw, "a");
  EXPECT_EQ(rw.use_count(a), 2u);
  EXPECT_EQ(rw.use_count(x), 3u);  // two nodes and an output
  rw.replace(find(rw, "b"), rw.emit(kSin, {x}, 1));
  EXPECT_EQ(rw.use_count(a), 0u);
  EXPECT_EQ(rw.use_count(x), 3u);  // lost the use by a, got that by the sine
}

TEST(Rewriter, AValueWhoseNodeDiedLivesAgainWhenItIsRead) {
  Rewriter rw(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = cos %x
    %b = neg %a
    %y = tanh %b
    return %y
  })"));
  const ir::ValueId a = find(rw, "a"), b = find(rw, "b"), x = find(rw, "x");
  rw.replace(b, x);
  EXPECT_FALSE(rw.alive(0));
  rw.replace(find(rw, "y"), rw.emit(kSin, {a}, 2));
  EXPECT_TRUE(rw.alive(0));
  EXPECT_EQ(finish(std::move(rw)), ir::print(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = cos %x
    %y = sin %a
    return %y
  })")));
}

TEST(Rewriter, ACycleIsAnErrorNotAGraph) {
  Rewriter rw(parsed(R"(graph @g(%x: f32[seq, 4]) {
    %a = cos %x
    %b = neg %a
    %y = tanh %b
    return %y
  })"));
  rw.replace(find(rw, "a"), find(rw, "b"));
  EXPECT_EQ(finish(std::move(rw)), "a rewrite made the graph cyclic");
}

TEST(Rewriter, ANodeThatDoesNotFitIsReportedAtTheEnd) {
  Rewriter rw(parsed("graph @g(%x: f32[seq, 4]) { %y = cos %x\n return %y }"));
  rw.replace(find(rw, "y"), rw.emit(ir::Transpose{{0, 1, 2}}, {find(rw, "x")}, 0));
  auto graph = std::move(rw).finish();
  ASSERT_FALSE(graph.ok());
}

TEST(Rewriter, DropsAnInputOnlyWhenNothingReadsIt) {
  Rewriter rw(parsed(R"(graph @g(%x: f32[seq, 4], %m: f32[seq, 4], %n: f32[seq, 4]) {
    %y = add %x, %m
    return %y
  })"));
  rw.drop_input_if_unused(find(rw, "m"));
  rw.drop_input_if_unused(find(rw, "n"));
  const std::string text = finish(std::move(rw));
  EXPECT_NE(text.find("%m: "), std::string::npos);
  EXPECT_EQ(text.find("%n: "), std::string::npos);
}

TEST(Match, ReshapeSpecSaysOnlyWhatHoldsForEverySize) {
  using ir::Dim;
  const Dim seq = Dim::symbol("seq"), past = Dim::symbol("past");
  const ir::TensorType from{ir::ElementType::kF32, {1, seq, 8}};
  using Spec = std::vector<std::int64_t>;
  EXPECT_EQ(reshape_spec(from, {1, seq, 2, 4}), (Spec{1, 0, 2, 4}));
  EXPECT_EQ(reshape_spec(from, {seq, 8}), (Spec{-1, 8}));
  EXPECT_EQ(reshape_spec(from, {seq, past}), std::nullopt);
  const ir::TensorType two{ir::ElementType::kF32, {1, seq, 8, past}};
  EXPECT_EQ(reshape_spec(two, {1, seq, 4, 2, past}), std::nullopt);  // past may be 0
  EXPECT_EQ(reshape_spec(two, {1, seq, 8, past}), (Spec{1, 0, 8, 0}));
}

TEST(Match, MatricesAreSeenThroughCastsAndTransposes) {
  Rewriter rw(parsed(R"(graph @g(%x: f32[2, 3]) {
    %w = constant f16[2, 3] {1, 2, 3, 4, 5, 6}
    %t = transpose %w {perm = [1, 0]}
    %c = cast %t {to = f32}
    %down = cast %x {to = f16}
    %y = matmul %x, %c
    return %y, %down
  })"));
  const ir::ConstantPtr found = matrix_constant(rw, find(rw, "c"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->dims(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(found->element(), ir::ElementType::kF16);
  EXPECT_EQ(ir::to_doubles(*found), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_FALSE(matrix_constant(rw, find(rw, "x")));
  EXPECT_FALSE(matrix_constant(rw, find(rw, "down")));
}

}  // namespace
}  // namespace llmc::passes
