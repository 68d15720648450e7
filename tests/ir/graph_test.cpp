#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include "compiler/ir/builder.h"
#include "tests/ir/pair.h"

namespace llmc::ir {
namespace {

TEST(Graph, UseDefKnowsProducersAndUsers) {
  Graph graph;
  const ValueId x = graph.add_input({"x", kPair});
  const ValueId w = graph.append_constant(make_f32({2}, {1, 2}), "w");
  const ValueId y = graph.append(Binary{BinaryKind::kMul}, {x, w}, kPair);
  const ValueId z = graph.append(Binary{BinaryKind::kAdd}, {y, y}, kPair);
  graph.add_output(z);
  graph.add_output(y);
  const UseDef uses(graph);
  EXPECT_EQ(uses.producer(x), nullptr);
  EXPECT_EQ(uses.producer(kNoValue), nullptr);
  ASSERT_NE(op_as<Binary>(uses.producer(y)), nullptr);
  EXPECT_EQ(op_as<Binary>(uses.producer(y))->kind, BinaryKind::kMul);
  EXPECT_EQ(op_as<Unary>(uses.producer(y)), nullptr);
  EXPECT_EQ(uses.use_count(y), 3u);  // two operands and an output
  EXPECT_EQ(uses.users(y).size(), 2u);
  EXPECT_TRUE(uses.is_graph_output(y));
  EXPECT_FALSE(uses.is_graph_output(x));
  EXPECT_NE(uses.constant(w), nullptr);
  EXPECT_EQ(uses.constant(y), nullptr);
  EXPECT_EQ(graph.value(w).type, kPair);
}

TEST(Graph, IsAValue) {
  Graph a;
  a.add_input({"x", kPair});
  Graph b = a;
  b.add_input({"y", kPair});
  EXPECT_EQ(a.inputs().size(), 1u);
  EXPECT_EQ(b.inputs().size(), 2u);
}

TEST(GraphDeathTest, OperandsMustExist) {
  Graph graph;
  EXPECT_DEATH(graph.append(Unary{}, {ValueId{3}}, kPair), "broken invariant");
  EXPECT_DEATH((void)graph.value(ValueId{0}), "broken invariant");
}

TEST(Builder, InfersTypesAndKeepsNamesUnique) {
  Builder builder;
  const ValueId x = builder.input("x", {ElementType::kF32, {Dim::symbol("seq"), Dim(4)}});
  const auto y = builder.add_one(Unary{UnaryKind::kNeg}, {x}, {}, "x");
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(builder.graph().value(*y).name, "x_2");
  EXPECT_EQ(to_string(builder.graph().value(*y).type), "f32[seq, 4]");
  const auto shape = builder.add_one(Shape{}, {x});
  ASSERT_NE(builder.shape_values().find(*shape), nullptr);
  const auto parts = builder.add(Split{1, {1, 3}}, {x}, {}, {"a", "a"});
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(builder.graph().value((*parts)[1]).name, "a_2");
  const auto bad = builder.add_one(Transpose{{0, 0}}, {x}, {"file", "node"});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().first().node, "node");
  EXPECT_EQ(bad.error().first().op, "transpose");
  // A builder for an existing graph appends to it.
  Builder second(std::move(builder).take());
  EXPECT_NE(second.shape_values().find(*shape), nullptr);
  EXPECT_EQ(second.unique_name("a_2"), "a_2_2");
}

}  // namespace
}  // namespace llmc::ir
