#include "compiler/ir/verify.h"

#include <gmock/gmock.h>

#include "compiler/ir/text.h"
#include "tests/ir/pair.h"

namespace llmc::ir {
namespace {

using ::testing::HasSubstr;

std::string problem(const Graph& graph) {
  const auto status = verify(graph);
  if (status.ok()) return "(none)";
  EXPECT_EQ(status.error().first().kind, ErrorKind::kInternal);
  return format(status.error().first());
}

/// Parses without inference: the graph may be wrong.
Graph raw(const std::string& text) {
  ParseOptions options;
  options.infer_types = false;
  auto graph = parse(text, options);
  EXPECT_TRUE(graph.ok()) << graph.error().first().message;
  return graph.ok() ? *graph : Graph{};
}

Loop one_iteration() {
  Loop loop;
  loop.count = 1;
  loop.carried = 1;
  return loop;
}

/// x -> neg -> y.
Graph small() {
  Graph graph;
  const ValueId x = graph.add_input({"x", kPair});
  graph.add_output(graph.append(Unary{UnaryKind::kNeg}, {x}, kPair, {"file", "node"}, "y"));
  return graph;
}

TEST(Verify, AcceptsASoundGraph) {
  EXPECT_EQ(problem(small()), "(none)");
  EXPECT_EQ(problem(Graph{}), "(none)");
}

TEST(Verify, SingleAssignment) {
  Graph twice = small();
  twice.add_node({Unary{UnaryKind::kAbs}, {twice.inputs()[0]}, {twice.outputs()[0]}, {}});
  EXPECT_THAT(problem(twice), HasSubstr("'y' is defined twice"));
  Graph input = small();
  input.add_node({Unary{UnaryKind::kAbs}, {input.inputs()[0]}, {input.inputs()[0]}, {}});
  EXPECT_THAT(problem(input), HasSubstr("'x' is defined twice"));
  Graph same_input = small();
  same_input.mutable_inputs().push_back(same_input.inputs()[0]);
  EXPECT_THAT(problem(same_input), HasSubstr("'x' is defined twice"));
}

TEST(Verify, KindsOfInputs) {
  const auto decoder = [](const std::string& inputs) {
    return raw("graph @g(" + inputs + ") { return %a }");
  };
  EXPECT_EQ(problem(decoder("%a: i64[seq] {kind = token_ids}, %b: i64[1, seq] {kind = positions}, "
                            "%c: f32[2] {kind = source}, %d: f32[2] {kind = source, layer = 1}")),
            "(none)");
  EXPECT_THAT(problem(decoder("%a: f32[seq] {kind = token_ids}")),
              HasSubstr("input 'a' of the kind token_ids has the type f32[seq]"));
  EXPECT_THAT(problem(decoder("%a: i64[2] {kind = recurrent}")), HasSubstr("kind recurrent"));
  EXPECT_THAT(problem(decoder("%a: f32[2] {kind = source}, %b: f32[2] {kind = source}")),
              HasSubstr("two inputs have the kind source"));
  for (const char* const layers :
       {"%a: f32[2] {kind = source, layer = 1}", "%a: f32[2] {kind = source, layer = -1}",
        "%a: f32[2] {kind = source}, %b: f32[2] {kind = source, layer = 9223372036854775807}"})
    EXPECT_THAT(problem(decoder(layers)), HasSubstr("the layers of the kind source are not 0, 1"));
  EXPECT_THAT(problem(decoder("%a: i64[2] {kind = token_ids}, "
                              "%b: i64[2] {kind = token_ids, layer = 1}")),
              HasSubstr("the layers of the kind token_ids"));
  EXPECT_THAT(problem(decoder("%a: i64[] {kind = positions}")), HasSubstr("has the type i64[]"));
  Graph graph = small();
  graph.value(graph.outputs()[0]).kind = InputKind::kMask;
  EXPECT_THAT(problem(graph), HasSubstr("a value that is no input has a kind"));
  Graph body;
  body.add_output(body.add_input({"x", kPair, InputKind::kMask}));
  Loop loop = one_iteration();
  loop.body = std::make_shared<Graph>(std::move(body));
  Graph around;
  const ValueId x = around.add_input({"x", kPair});
  around.add_output(around.append(loop, {x}, kPair));
  EXPECT_THAT(problem(around), HasSubstr("an input of a loop body has the kind mask"));
}

TEST(Verify, Order) {
  Graph graph = small();
  const ValueId later = graph.add_value({"later", kPair});
  const ValueId early = graph.add_value({"early", kPair});
  graph.add_node({Unary{UnaryKind::kAbs}, {later}, {early}, {}});
  graph.add_node({Unary{UnaryKind::kAbs}, {early}, {later}, {}});
  EXPECT_THAT(problem(graph), HasSubstr("'later' is used before it is defined"));
}

TEST(Verify, GraphOutputsExist) {
  Graph graph = small();
  graph.add_output(graph.add_value({"nobody", kPair}));
  EXPECT_THAT(problem(graph), HasSubstr("defined by no node"));
  Graph outside = small();
  outside.add_output(ValueId{99});
  EXPECT_THAT(problem(outside), HasSubstr("defined by no node"));
  Graph absent = small();
  absent.add_output(kNoValue);
  EXPECT_THAT(problem(absent), HasSubstr("defined by no node"));
}

TEST(Verify, Names) {
  Graph graph = small();
  graph.append(Unary{UnaryKind::kAbs}, {graph.inputs()[0]}, kPair, {}, "y");
  EXPECT_THAT(problem(graph), HasSubstr("two values are called 'y'"));
  Graph unnamed = small();
  for (int i = 0; i < 2; ++i) unnamed.append(Unary{UnaryKind::kAbs}, {unnamed.inputs()[0]}, kPair);
  EXPECT_EQ(problem(unnamed), "(none)");
}

TEST(Verify, OperandAndResultCounts) {
  Graph few = small();
  few.mutable_nodes()[0].inputs.clear();
  EXPECT_THAT(problem(few), HasSubstr("takes 1 operand, got 0"));
  EXPECT_THAT(problem(few), HasSubstr("file: node 'node' (op neg)"));
  Graph many = small();
  many.mutable_nodes()[0].inputs.assign(3, many.inputs()[0]);
  EXPECT_THAT(problem(many), HasSubstr("got 3"));
  Graph absent = small();
  absent.mutable_nodes()[0].inputs[0] = kNoValue;
  EXPECT_THAT(problem(absent), HasSubstr("operand 0 is absent"));
  Graph results = small();
  results.mutable_nodes()[0].outputs.push_back(results.add_value({"z", kPair}));
  EXPECT_THAT(problem(results), HasSubstr("has 1 result, not 2"));
  Graph outside = small();
  outside.mutable_nodes()[0].inputs[0] = ValueId{50};
  EXPECT_THAT(problem(outside), HasSubstr("not a value of the graph"));
  Graph split = small();
  split.mutable_nodes()[0].op = Split{0, {1, 1}};
  EXPECT_THAT(problem(split), HasSubstr("has 2 results, not 1"));
}

TEST(Verify, Types) {
  EXPECT_THAT(problem(raw("graph @g(%x: f32[2]) { %y = neg %x : f32[3] return %y }")),
              HasSubstr("has type f32[3], but it is f32[2]"));
  EXPECT_THAT(problem(raw("graph @g(%x: f32[2]) { %y = neg %x : i64[2] return %y }")),
              HasSubstr("has type i64[2]"));
  EXPECT_THAT(problem(raw("graph @g(%x: f32[seq]) { %y = neg %x : f32[seq + 1] return %y }")),
              HasSubstr("seq + 1"));
  EXPECT_THAT(problem(raw("graph @g(%x: f32[2]) { %y = neg %x : f32[] return %y }")),
              HasSubstr("has type f32[]"));
  // Another symbol for the same size is allowed.
  EXPECT_EQ(problem(raw("graph @g(%x: f32[seq]) { %y = neg %x : f32[total] return %y }")),
            "(none)");
  Graph constant = small();
  const ValueId w = constant.append_constant(make_f32({2}, {1, 2}));
  constant.value(w).type.dims = {Dim::symbol("n")};
  EXPECT_THAT(problem(constant), HasSubstr("has type f32[n]"));
  Graph negative = small();
  negative.value(negative.inputs()[0]).type.dims = {Dim(-5)};
  EXPECT_THAT(problem(negative), HasSubstr("negative size"));
}

TEST(Verify, Attributes) {
  for (const auto* text :
       {"%y = softmax %x {axis = 2} : f32[2, 3]", "%y = transpose %x {perm = [0, 0]} : f32[2, 3]",
        "%y = concat %x {axis = -3} : f32[2, 3]", "%y = reduce_sum %x {axes = [5]} : f32[2, 3]",
        "%y = unsqueeze %x {axes = [0, 0]} : f32[1, 1, 2, 3]",
        "%y = arg_max %x {axis = 9223372036854775807} : i64[2, 3]"})
    EXPECT_NE(problem(raw("graph @g(%x: f32[2, 3]) { " + std::string(text) + " return %y }")),
              "(none)")
        << text;
}

TEST(Verify, ReportsEveryBrokenNode) {
  const auto status = verify(raw(R"(graph @g(%x: f32[2]) {
    %a = neg %x : f32[3]
    %b = softmax %a {axis = 7} : f32[3]
    %c = abs %b : f32[3]
    return %c
  })"));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().diagnostics().size(), 2u);
}

/// A loop text with one part replaced.
std::string loop_problem(const std::string& from, const std::string& to) {
  std::string text = R"(graph @g(%x: f32[seq, 4], %p0: f32[past], %p1: f32[past], %k: f32[4]) {
  %y, %r0, %r1 = loop %x, %p0, %p1, %k {count = 2, carried = 1, per_iteration_inputs = 1, per_iteration_outputs = 1}
    parameters [
      ["w0" f32[4] splat(1), "w1" f32[4] splat(2)]]
    body @layer(%h: f32[seq, 4], %c: f32[past], %inv: f32[4]) {
      %w = parameter {index = 0} : f32[4]
      %s = mul %h, %w : f32[seq, 4]
      %d = neg %c : f32[past]
      return %s, %d
    } : f32[seq, 4], f32[past], f32[past]
  return %y, %r0, %r1
})";
  if (const auto at = text.find(from); !from.empty() && at != std::string::npos)
    text.replace(at, from.size(), to);
  return problem(raw(text));
}

TEST(Verify, Loops) {
  EXPECT_EQ(loop_problem("", ""), "(none)");
  EXPECT_THAT(loop_problem("count = 2", "count = 3"), HasSubstr("result"));
  EXPECT_THAT(loop_problem(", \"w1\" f32[4] splat(2)", ""), HasSubstr("1 constants for 2"));
  EXPECT_THAT(loop_problem("\"w1\" f32[4]", "\"w1\" f32[5]"), HasSubstr("differ in type"));
  EXPECT_THAT(loop_problem("index = 0", "index = 1"), HasSubstr("no parameter 1"));
  EXPECT_THAT(loop_problem("index = 0", "index = -1"), HasSubstr("no parameter -1"));
  EXPECT_THAT(loop_problem("index = 0} : f32[4]", "index = 0} : f32[seq]"),
              HasSubstr("parameter 0 is f32[4]"));
  EXPECT_THAT(loop_problem("return %s, %d", "return %s"), HasSubstr("outputs, not"));
  EXPECT_THAT(loop_problem("%inv: f32[4]", "%inv: f32[5]"), HasSubstr("the body expects f32[5]"));
  EXPECT_THAT(loop_problem("%h: f32[seq, 4]", "%h: f32[seq, 5]"), HasSubstr("(op mul)"));
  EXPECT_THAT(loop_problem("return %s, %d", "return %d, %d"), HasSubstr("but the body returns"));
  EXPECT_THAT(loop_problem("neg %c : f32[past]", "neg %c : i64[past]"), HasSubstr("(op neg)"));
  EXPECT_THAT(problem(raw("graph @g() { %w = parameter {index = 0} : f32[4] return %w }")),
              HasSubstr("outside a loop"));
  Graph no_body = small();
  no_body.mutable_nodes()[0] = {one_iteration(), {no_body.inputs()[0]}, {no_body.outputs()[0]}, {}};
  EXPECT_THAT(problem(no_body), HasSubstr("no body"));
}

TEST(Verify, LoopsNestedTooDeeplyAreRefused) {
  auto body = std::make_shared<Graph>(small());
  for (int i = 0; i < 20; ++i) {
    Graph next;
    const ValueId x = next.add_input({"x", kPair});
    Loop loop = one_iteration();
    loop.body = body;
    next.add_output(next.append(loop, {x}, kPair, {}, "y"));
    body = std::make_shared<Graph>(next);
  }
  EXPECT_THAT(problem(*body), HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace llmc::ir
