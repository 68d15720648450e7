#include "compiler/driver/dims.h"

#include <gtest/gtest.h>

#include <string>

#include "compiler/ir/text.h"

namespace llmc::driver {
namespace {

/// Returns the dims of min(n, 256) + max(n, 4) zeros as text, where n is a dim of the input.
std::string shape(const plan::DimRanges& dims) {
  auto graph = ir::parse(R"(graph @g(%x: f32[1, n]) {
  %n = shape %x {begin = 1, end = 2}
  %upper = constant i64[1] {256}
  %lower = constant i64[1] {4}
  %below = min %n, %upper
  %above = max %lower, %n
  %size = add %below, %above
  %y = constant_of_shape %size {value = f32[1] {0}}
  return %y
}
)");
  if (!graph.ok()) return format(graph.error().first());
  const auto bound = bind_dims(*std::move(graph), dims);
  if (!bound.ok()) return format(bound.error().first());
  return ir::to_string(bound->value(bound->outputs()[0]).type);
}

TEST(BindDims, ChoosesTheSizeThatIsSmallestOrLargestInTheWholeRange) {
  EXPECT_EQ(shape({{"n", {4, 256}}}), "f32[2*n]");
  EXPECT_EQ(shape({{"n", {256, 300}}}), "f32[n + 256]");
  EXPECT_EQ(shape({{"n", {1, 4}}}), "f32[n + 4]");
  EXPECT_EQ(shape({{"n", 300}}), "f32[556]");
}

TEST(BindDims, KeepsMinimaThatTheRangeDoesNotDecide) {
  EXPECT_EQ(shape({{"n", {4, 257}}}), "f32[d0]");
  EXPECT_EQ(shape({{"n", {3, 256}}}), "f32[d0]");
}

TEST(BindDims, ChoosesASizeThatFollowsFromAnother) {
  auto graph = ir::parse(R"(graph @g(%x: f32[1, n]) {
  %n = shape %x {begin = 1, end = 2}
  %limit = constant i64[1] {256}
  %rows = min %n, %limit
  %zeros = constant_of_shape %rows {value = f32[1] {0}}
  %again = shape %zeros
  %larger = constant i64[1] {300}
  %out = min %larger, %again
  return %out
}
)");
  ASSERT_TRUE(graph.ok());
  const auto bound = bind_dims(*std::move(graph), {{"n", {1, 256}}});
  ASSERT_TRUE(bound.ok());
  for (const ir::Node& node : bound->nodes())
    EXPECT_EQ(ir::op_as<ir::Binary>(&node), nullptr) << ir::op_name(node.op);
  EXPECT_EQ(bound->value(bound->outputs()[0]).name, "out");
}

TEST(BindDims, SizesThatAnOperatorRefusesAreAUsageError) {
  const auto graph = ir::parse(R"(graph @g(%x: f32[n, 4]) {
  %shape = constant i64[2] {2, 6}
  %y = reshape %x, %shape
  return %y
}
)");
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  EXPECT_TRUE(bind_dims(*graph, {{"n", 3}}).ok());
  const auto error_of = [&](plan::DimRange size) {
    const auto bound = bind_dims(*graph, {{"n", size}});
    EXPECT_FALSE(bound.ok());
    return bound.ok() ? Diagnostic() : bound.error().first();
  };
  EXPECT_EQ(error_of(5).kind, ErrorKind::kUsage);
  EXPECT_EQ(error_of(5).hint, "the operator does not accept these sizes: --dim n=5");
  EXPECT_EQ(error_of(0).kind, ErrorKind::kUsage);
  EXPECT_EQ(error_of({1, plan::kMaxElements + 1}).kind, ErrorKind::kUsage);
}

TEST(UsualDims, AreLimitedByATableOfPositionsThatABatchRepeats) {
  const auto graph = ir::parse(R"(graph @g(%ids: i64[batch, n]) {
  %zero = constant i64[] {0}
  %one = constant i64[] {1}
  %two = constant i64[] {2}
  %length = shape %ids {begin = 1, end = 2}
  %count = squeeze %length {axes = [0]}
  %range = range %zero, %count, %one
  %all = shape %ids
  %repeated = expand %range, %all
  %positions = add %repeated, %two
  %table = constant f32[66, 4] random(1, 0.5)
  %y = gather %table, %positions {axis = 0}
  return %y
})");
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  EXPECT_EQ(usual_dims(*graph), (plan::DimRanges{{"batch", plan::DimRange(1)}, {"n", {1, 64}}}));
}

}  // namespace
}  // namespace llmc::driver
