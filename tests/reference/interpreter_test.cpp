#include "compiler/reference/interpreter.h"

#include <gmock/gmock.h>

#include <set>

#include "compiler/ir/op_info.h"
#include "tests/ir/op_samples.h"
#include "tests/reference/evaluate_test_util.h"
#include "tests/reference/op_cases.h"

namespace llmc::reference {
namespace {

using testing::error_of;
using testing::expect_near;
using testing::graph_of;
using ::testing::HasSubstr;
using testing::OpCase;
using testing::outputs_of;

std::vector<OpCase> all_cases() {
  std::vector<OpCase> all = testing::data_cases();
  for (auto& cases : {testing::index_cases(), testing::math_cases(), testing::wide_cases(),
                      testing::fused_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

TEST(Interpreter, OperatorsGiveWhatIsWorkedOutByHand) {
  for (const auto& op_case : all_cases()) {
    const auto outputs = outputs_of(op_case.text);
    ASSERT_FALSE(outputs.empty()) << op_case.op;
    ASSERT_EQ(outputs.size() % 2, 0u) << op_case.op;
    for (std::size_t i = 0; i < outputs.size(); i += 2)
      expect_near(outputs[i], outputs[i + 1], 1e-6f,
                  op_case.op + ", pair " + std::to_string(i / 2));
  }
}

TEST(Interpreter, EveryOperatorIsAmongTheCases) {
  std::set<std::string> covered;
  for (const auto& op_case : all_cases()) covered.insert(op_case.op);
  for (const auto name : ir::op_names()) EXPECT_TRUE(covered.contains(std::string(name))) << name;
}

/// What inference says is what comes out.
TEST(Interpreter, ResultsHaveTheInferredTypes) {
  for (const auto& op_case : all_cases()) {
    const auto graph = graph_of(op_case.text);
    const auto outputs = evaluate(graph, {});
    ASSERT_TRUE(outputs.ok());
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      const auto& type = graph.value(graph.outputs()[i]).type;
      const auto& tensor = (*outputs)[i];
      const std::string what =
          op_case.op + ": " + type_text(tensor) + " against " + to_string(type);
      EXPECT_EQ(tensor.element, type.element) << what;
      ASSERT_EQ(tensor.rank(), type.rank()) << what;
      for (std::size_t d = 0; d < type.rank(); ++d)
        if (type.dims[d].is_constant()) EXPECT_EQ(tensor.dims[d], *type.dims[d].constant()) << what;
    }
  }
}

TEST(Interpreter, ShapeChainOfRepeatKv) {
  const auto outputs = outputs_of(R"(graph @g(%k: f32[1, 2, total, 1]) {
    %u = unsqueeze %k {axes = [2]}
    %shape = shape %k
    %i2 = constant i64[1] {2}
    %total = gather %shape, %i2 {axis = 0}
    %one = constant i64[1] {1}
    %two = constant i64[1] {2}
    %rep = constant i64[1] {2}
    %minus1 = constant i64[1] {-1}
    %wanted = concat %one, %two, %rep, %total, %minus1 {axis = 0}
    %n = shape %wanted
    %ones = constant_of_shape %n {value = i64[1] {1}}
    %minus = constant i64[] {-1}
    %minuses = mul %ones, %minus
    %is = equal %wanted, %minuses
    %target = where %is, %ones, %wanted
    %e = expand %u, %target
    %flat = constant i64[4] {1, 4, -1, 1}
    %y = reshape %e, %flat
    return %y
  })",
                                  {f32_tensor({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0], f32_tensor({1, 4, 3, 1}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
}

TEST(Interpreter, TheFusedFormOfALayerEqualsItsParts) {
  const auto outputs = outputs_of(
      R"(graph @g(%x: f32[1, seq, 8], %past: f32[2, 1, past, 1, 4], %pos: i64[1, seq]) {
    %nw = constant f32[8] random(1, 1)
    %w = constant f32[16, 8] random(2, 0.5)
    %wt = constant f32[8, 16] transposed(f32[16, 8] random(2, 0.5))
    %b = constant f32[16] random(3, 1)
    %f = constant f32[2] {1, 0.25}
    %q, %k, %v = qkv_projection %x, %w, %b, %nw, %pos, %f {heads = 2, kv_heads = 1, head_dim = 4, norm_epsilon = 1e-05, rope = {rotary_dim = 4}}
    %o, %p = attention %q, %k, %v, %past {heads = 2, kv_heads = 1, head_dim = 4, scale = 0.5}

    %n = rms_norm %x, %nw {epsilon = 1e-05}
    %m = matmul %n, %wt
    %a = add %m, %b
    %qf, %kf, %vf = split %a {axis = 2, sizes = [8, 4, 4]}
    %qs = constant i64[4] {1, -1, 2, 4}
    %ks = constant i64[4] {1, -1, 1, 4}
    %q4 = reshape %qf, %qs
    %k4 = reshape %kf, %ks
    %v4 = reshape %vf, %ks
    %qr = rope %q4, %pos, %f {rotary_dim = 4}
    %kr = rope %k4, %pos, %f {rotary_dim = 4}
    %kv0 = unsqueeze %kr {axes = [0]}
    %kv1 = unsqueeze %v4 {axes = [0]}
    %kv = concat %kv0, %kv1 {axis = 0}
    %present = concat %past, %kv {axis = 2}
    %i0 = constant i64[] {0}
    %i1 = constant i64[] {1}
    %keys = gather %present, %i0 {axis = 0}
    %values = gather %present, %i1 {axis = 0}
    %kt = transpose %keys {perm = [0, 2, 3, 1]}
    %vt = transpose %values {perm = [0, 2, 1, 3]}
    %qt = transpose %qr {perm = [0, 2, 1, 3]}
    %dots = matmul %qt, %kt
    %half = constant f32[] {0.5}
    %scores = mul %dots, %half
    %st = shape %scores
    %si = constant i64[] {3}
    %ninf = constant f32[] {-inf}
    %ms = constant i64[2] {2, 3}
    %mshape = gather %st, %ms {axis = 0}
    %full = expand %ninf, %mshape
    %pshape = shape %past {begin = 2, end = 3}
    %onei = constant i64[1] {1}
    %diag = add %pshape, %onei
    %mask = trilu %full, %diag {upper = true}
    %masked = add %scores, %mask
    %probs = softmax %masked {axis = -1}
    %mix = matmul %probs, %vt
    %mt = transpose %mix {perm = [0, 2, 1, 3]}
    %os = constant i64[3] {1, -1, 8}
    %y = reshape %mt, %os
    return %o, %y, %p, %present
  })",
      {f32_tensor({1, 3, 8},
                  {1, 2, 3, 4, 5, 6, 7, 8, 1, -1, 2, -2, 3, -3, 4, 5, 0, .5, 1, 2, 2, 2, 1, 0}),
       f32_tensor({2, 1, 2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}),
       i64_tensor({1, 3}, {2, 3, 4})});
  ASSERT_EQ(outputs.size(), 4u);
  expect_near(outputs[0], outputs[1], 2e-6f, "attention");
  expect_near(outputs[2], outputs[3], 2e-6f, "cache");
}

TEST(Interpreter, KeepsConstantsBetweenCalls) {
  Interpreter interpreter(graph_of(R"(graph @g(%x: f32[n, 4]) {
    %h = constant f16[4, 3] splat(0.5)
    %w = cast %h {to = f32}
    %y = matmul %x, %w
    return %y
  })"));
  const Tensor one = f32_tensor({1, 4}, {1, 2, 3, 4});
  const Tensor two = f32_tensor({2, 4}, {1, 2, 3, 4, 4, 4, 4, 4});
  for (int i = 0; i < 3; ++i) {
    auto a = interpreter.evaluate(std::span(&one, 1));
    auto b = interpreter.evaluate(std::span(&two, 1));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ((*a)[0], f32_tensor({1, 3}, {5, 5, 5}));
    EXPECT_EQ((*b)[0], f32_tensor({2, 3}, {5, 5, 5, 8, 8, 8}));
  }
}

TEST(Interpreter, WorksWithoutRoomForConstants) {
  InterpreterOptions options;
  options.constant_cache_bytes = 0;
  Interpreter interpreter(graph_of(R"(graph @g() {
    %w = constant f32[1024] splat(0.5)
    %s = reduce_sum %w {axes = []}
    return %s, %w
  })"),
                          options);
  for (int i = 0; i < 3; ++i) {
    auto outputs = interpreter.evaluate({});
    ASSERT_TRUE(outputs.ok());
    EXPECT_EQ((*outputs)[0], f32_tensor({1}, {512}));
  }
}

TEST(Interpreter, OutputsMayBeInputsAndRepeat) {
  const auto outputs =
      outputs_of("graph @g(%x: f32[1]) { %y = neg %x return %x, %y, %y }", {f32_tensor({1}, {3})});
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(outputs[0].floats[0], 3);
  EXPECT_EQ(outputs[1], outputs[2]);
}

TEST(Interpreter, InputsAreChecked) {
  const std::string text = "graph @g(%x: f32[n, 4]) { return %x }";
  EXPECT_THAT(error_of(text), HasSubstr("takes 1 inputs, got 0"));
  EXPECT_THAT(error_of(text, {f32_tensor({2, 3}, {1, 2, 3, 4, 5, 6})}),
              HasSubstr("node 'x': input 0 is f32[2, 3], not f32[n, 4]"));
  EXPECT_THAT(error_of(text, {i64_tensor({1, 4}, {1, 2, 3, 4})}), HasSubstr("i64[1, 4]"));
  EXPECT_THAT(error_of(text, {f32_tensor({4}, {1, 2, 3, 4})}), HasSubstr("f32[4]"));
}

TEST(Interpreter, ErrorsNameNodeAndOperator) {
  EXPECT_EQ(
      error_of("graph @g(%i: i64[n]) { %w = constant f32[2] {1, 2} %y = gather %w, %i {axis "
               "= 0} @\"block_3.onnx\" \"/emb/Gather\" return %y }",
               {i64_tensor({1}, {2})}),
      "llmc: error: block_3.onnx: node '/emb/Gather' (op gather): index 2 is outside dim 0 of "
      "f32[2]");
}

struct BadCase {
  const char* text;
  std::vector<Tensor> inputs;
  const char* says;
};

TEST(Interpreter, WhatInferenceCannotSeeIsCheckedHere) {
  const Tensor three = f32_tensor({3}, {1, 2, 3}), two = f32_tensor({2}, {1, 2});
  const auto ints = [](std::vector<std::int64_t> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return i64_tensor({count}, std::move(values));
  };
  const BadCase cases[] = {
      {"graph @g(%a: f32[n], %b: f32[m]) { %y = add %a, %b return %y }", {three, two}, "broadcast"},
      {"graph @g(%a: f32[n], %b: f32[m]) { %y = matmul %a, %b return %y }", {three, two}, "inner"},
      {"graph @g(%a: f32[n], %s: i64[1]) { %y = reshape %a, %s return %y }",
       {three, ints({2})},
       "does not have the 2 elements"},
      {"graph @g(%a: f32[n], %s: i64[2]) { %y = reshape %a, %s return %y }",
       {three, ints({-1, 2})},
       "does not divide"},
      {"graph @g(%a: f32[n], %s: i64[2]) { %y = reshape %a, %s return %y }",
       {three, ints({INT64_MAX, INT64_MAX})},
       "out of range"},
      {"graph @g(%s: i64[1]) { %y = constant_of_shape %s {value = f32[1] {0}} return %y }",
       {ints({-1})},
       "out of range"},
      {"graph @g(%a: f32[n], %s: i64[1]) { %y = tile %a, %s return %y }",
       {three, ints({INT64_MAX})},
       "out of range"},
      {"graph @g(%a: f32[n], %s: i64[1]) { %y = tile %a, %s return %y }",
       {three, ints({-1})},
       "out of range"},
      {"graph @g(%a: i64[n], %b: i64[n]) { %y = div %a, %b return %y }",
       {ints({1, 2}), ints({1, 0})},
       "division by zero"},
      {"graph @g(%a: i64[n], %b: i64[n]) { %y = mod %a, %b return %y }",
       {ints({1}), ints({0})},
       "division by zero"},
      {"graph @g(%a: i64[1], %b: i64[1]) { %y = range %a, %b, %a return %y }",
       {ints({0}), ints({4})},
       "step is 0"},
      {"graph @g(%a: f32[1], %b: f32[1]) { %y = range %a, %b, %a return %y }",
       {f32_tensor({1}, {0}), f32_tensor({1}, {4})},
       "too long"},
      {"graph @g(%i: i64[n]) { %t = constant f32[2, 2] splat(1) %y = embedding %i, %t return %y }",
       {ints({-3})},
       "id -3 is outside"},
      {"graph @g(%x: f32[1, n, 1, 2], %p: i64[1]) { %t = constant f32[4, 2] splat(1) %y = rope %x, "
       "%p, %t {rotary_dim = 2, table = true} return %y }",
       {f32_tensor({1, 1, 1, 2}, {1, 2}), ints({4})},
       "position 4 is outside the table of 4"},
      {"graph @g(%x: f32[n], %s: i64[1]) { %y = slice %x, %s, %s, _, %s return %y }",
       {three, ints({0})},
       "step is 0"},
      {"graph @g(%x: f32[n]) { %y, %z = split %x {axis = 0, sizes = [1, 1]} return %y }",
       {three},
       "do not add up"},
      {"graph @g(%x: f32[n]) { %y = squeeze %x {axes = [0]} return %y }", {three}, "changes"},
      {"graph @g(%x: f32[1, n]) { %y = arg_max %x {axis = 1} return %y }",
       {f32_tensor({1, 0}, {})},
       "empty"},
  };
  for (const auto& bad : cases)
    EXPECT_THAT(error_of(bad.text, bad.inputs), HasSubstr(bad.says)) << bad.text;
}

TEST(Interpreter, MemoryIsBounded) {
  InterpreterOptions options;
  options.memory_limit_bytes = 1 << 20;
  const auto big = [](const std::string& lines) {
    return "graph @g(%x: f32[1]) {\n" + lines + "\n  return %y\n}";
  };
  for (const auto* lines :
       {"%y = constant f32[1000000000, 1000000] splat(1)",
        "%s = constant i64[2] {1000000000, 1000000000} %y = expand %x, %s",
        "%s = constant i64[1] {9223372036854775807} %y = tile %x, %s",
        "%s = constant i64[1] {9223372036854775807} %y = constant_of_shape %s {value = i64[1] {0}}",
        "%a = constant i64[] {0} %b = constant i64[] {9223372036854775807} %c = constant i64[] {1} "
        "%y = range %a, %b, %c",
        "%s = constant i64[2] {1000, 1} %e = expand %x, %s %t = transpose %e {perm = [1, 0]} "
        "%y = matmul %e, %t"}) {
    const auto outputs = evaluate(graph_of(big(lines)), std::vector{f32_tensor({1}, {1})}, options);
    ASSERT_FALSE(outputs.ok()) << lines;
    EXPECT_EQ(outputs.error().first().kind, ErrorKind::kOverBudget) << lines;
  }
  // Many small values together, and a loop that piles up results.
  std::string many = "%v0 = constant f32[100000] splat(1)\n";
  std::string sum = "%y = concat %v0";
  for (int i = 1; i < 10; ++i) {
    many += "%v" + std::to_string(i) + " = neg %v" + std::to_string(i - 1) + "\n";
    sum += ", %v" + std::to_string(i);
  }
  const auto piled = evaluate(graph_of(big(many + sum + " {axis = 0}")),
                              std::vector{f32_tensor({1}, {1})}, options);
  ASSERT_FALSE(piled.ok());
  EXPECT_EQ(piled.error().first().kind, ErrorKind::kOverBudget);
  std::string loop = "%l";
  for (int i = 0; i < 50; ++i) loop += ", %r" + std::to_string(i);
  loop +=
      R"( = loop %x {count = 50, carried = 1, per_iteration_inputs = 0, per_iteration_outputs = 1}
    parameters []
    body @b(%h: f32[1]) {
      %s = constant i64[1] {100000}
      %r = tile %h, %s
      return %h, %r
    }
    %y = neg %r49)";
  const auto looped = evaluate(graph_of(big(loop)), std::vector{f32_tensor({1}, {1})}, options);
  ASSERT_FALSE(looped.ok());
  EXPECT_EQ(looped.error().first().kind, ErrorKind::kOverBudget);
}

/// No element, but sizes whose product fits no integer.
TEST(Interpreter, EmptyTensorsOfAbsurdSizesAreRefused) {
  EXPECT_THAT(error_of("graph @g() { %x = constant f32[0, 9223372036854775807, 3] {} %y = "
                       "reduce_sum %x {axes = [1, 2]} return %y }"),
              HasSubstr("out of range"));
  EXPECT_THAT(error_of("graph @g(%x: f32[n, m, 3]) { %y = softmax %x {axis = 1} return %y }",
                       {f32_tensor({0, INT64_MAX, 3}, {})}),
              HasSubstr("input 0 is"));
  const Tensor x = f32_tensor({0, INT64_MAX, INT64_MAX}, {});
  EXPECT_FALSE(evaluate_node({ir::ArgMax{}, {}, {}, {}}, {&x}).ok());
  EXPECT_THAT(error_of(R"(graph @g(%x: f32[n, m]) {
    %r = constant i64[2] {0, 4611686018427387904}
    %y = tile %x, %r
    return %y
  })",
                       {f32_tensor({1, 4}, {1, 2, 3, 4})}),
              HasSubstr("out of range"));
}

TEST(Interpreter, MemoryIsGivenBack) {
  // A chain far longer than the limit, of values that die at once.
  std::string text = "graph @g(%x: f32[n]) {\n%v0 = neg %x\n";
  for (int i = 1; i < 200; ++i)
    text += "%v" + std::to_string(i) + " = neg %v" + std::to_string(i - 1) + "\n";
  text += "%y = reduce_sum %v199 {axes = []}\nreturn %y }";
  InterpreterOptions options;
  options.memory_limit_bytes = 1 << 20;
  Interpreter interpreter(graph_of(text), options);
  const Tensor x = f32_tensor({100000}, std::vector<float>(100000, 1.0f));
  for (int i = 0; i < 3; ++i) {
    const auto outputs = interpreter.evaluate(std::span(&x, 1));
    ASSERT_TRUE(outputs.ok()) << format(outputs.error().first());
    EXPECT_EQ((*outputs)[0], f32_tensor({1}, {100000}));
  }
}

}  // namespace
}  // namespace llmc::reference
