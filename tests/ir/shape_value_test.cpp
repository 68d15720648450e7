#include "compiler/ir/shape_value.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace llmc::ir {
namespace {

Graph shape_graph(const std::string& text) {
  auto graph = parse(text);
  if (!graph.ok()) ADD_FAILURE() << format(graph.error().first());
  return *std::move(graph);
}

TEST(ShapeValues, KnowTheRestOfADivision) {
  const Graph graph = shape_graph(R"(graph @g(%x: f32[seq, 3]) {
  %n = shape %x {begin = 0, end = 1}
  %minus = neg %n
  %five = constant i64[1] {5}
  %rest = mod %n, %five
  %more = mod %minus, %five
  %padded = add %n, %more
  %negative = constant i64[1] {-5}
  %unknown = mod %n, %negative
  return %rest, %padded, %unknown
})");
  const ShapeValues known = ShapeValues::of(graph);
  const std::vector<Dim>*rest = known.find(graph.outputs()[0]),
        *padded = known.find(graph.outputs()[1]);
  ASSERT_TRUE(rest && padded);
  for (std::int64_t n = 1; n < 23; ++n) {
    EXPECT_EQ(rest->at(0).evaluate({{"seq", n}}), n % 5) << n;
    EXPECT_EQ(padded->at(0).evaluate({{"seq", n}}), (n + 4) / 5 * 5) << n;
  }
  EXPECT_EQ(known.find(graph.outputs()[2]), nullptr);
}

TEST(ShapeValues, FollowViewsOfMatrices) {
  const Graph graph = shape_graph(R"(graph @g(%x: f32[seq, past]) {
  %s = shape %x
  %zeros = constant i64[2] {0, 0}
  %four = concat %zeros, %s {axis = 0}
  %pairs = constant i64[2] {2, 2}
  %two = reshape %four, %pairs
  %last = constant i64[1] {-1}
  %first = constant i64[1] {0}
  %end = constant i64[1] {-9223372036854775807}
  %turned = slice %two, %last, %end, %first, %last
  %t = transpose %turned {perm = [1, 0]}
  %y = reshape %t, %last
  %sum = add %two, %s
  return %y, %sum
})");
  const ShapeValues known = ShapeValues::of(graph);
  const std::vector<Dim>* y = known.find(graph.outputs()[0]);
  ASSERT_NE(y, nullptr);
  const Dim seq = Dim::symbol("seq"), past = Dim::symbol("past");
  EXPECT_EQ(*y, (std::vector<Dim>{seq, Dim(0), past, Dim(0)}));
  // Elementwise operators broadcast matrices, which is not followed.
  EXPECT_EQ(known.find(graph.outputs()[1]), nullptr);
}

}  // namespace
}  // namespace llmc::ir
