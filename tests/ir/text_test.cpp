#include "compiler/ir/text.h"

#include <gmock/gmock.h>

#include <cstring>

#include "compiler/ir/op_info.h"
#include "compiler/ir/verify.h"
#include "tests/ir/op_samples.h"

namespace llmc::ir {
namespace {

using ::testing::HasSubstr;

std::string message(const Result<Graph>& result) {
  return result.ok() ? "(no error)" : format(result.error().first());
}

Graph parsed(std::string_view text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << message(graph) << "\n" << text;
  return graph.ok() ? std::move(*graph) : Graph{};
}

/// The error of a text that must not parse.
std::string parse_error(std::string_view text) {
  auto graph = parse(text);
  EXPECT_FALSE(graph.ok()) << text;
  return message(graph);
}

TEST(Text, EveryOperatorGoesThroughTextUnchanged) {
  for (const auto name : op_names()) {
    const auto sample = testing::op_samples().find(name);
    ASSERT_NE(sample, testing::op_samples().end()) << "operator without a sample: " << name;
    const Graph graph = parsed(sample->second);
    bool found = false;
    const auto contains = [&](const Graph& g, auto& self) -> void {
      for (const Node& node : g.nodes()) {
        found |= op_name(node.op) == name;
        if (const auto* loop = std::get_if<Loop>(&node.op)) self(*loop->body, self);
      }
    };
    contains(graph, contains);
    EXPECT_TRUE(found) << name;
    const std::string once = print(graph);
    EXPECT_EQ(print(parsed(once)), once);
    const auto verified = verify(graph);
    EXPECT_TRUE(verified.ok()) << name << ": " << format(verified.error().first());
  }
}

TEST(Text, EveryOperatorNameMakesThatOperator) {
  for (const auto name : op_names()) {
    const auto op = make_op(name);
    ASSERT_TRUE(op.has_value()) << name;
    EXPECT_EQ(op_name(*op), name);
  }
  EXPECT_FALSE(make_op("no_such_operator").has_value());
}

TEST(Text, PrintsAsDocumented) {
  const std::string text = R"(graph @name(%x: f32[1, seq, 64], %past: f32[2, 1, past, 2, 16]) {
  %w = constant f32[64] random(7, 0.5)
  %n = rms_norm %x, %w {epsilon = 1e-06} : f32[1, seq, 64] @"block_0.onnx" "/layer/n1/Mul_1"
  return %n
}
)";
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(Text, KindsOfInputsGoThroughTextUnchanged) {
  const std::string text =
      "graph @g(%a: i64[seq] {kind = token_ids}, %b: f32[2] {kind = attention_cache}, "
      "%c: f32[2] {kind = recurrent, layer = 3}, %d: f32[2]) {\n  return %d\n}\n";
  const auto graph = parse(text);
  ASSERT_TRUE(graph.ok()) << graph.error().first().message;
  EXPECT_EQ(graph->value(graph->inputs()[2]).kind, InputKind::kRecurrent);
  EXPECT_EQ(graph->value(graph->inputs()[2]).layer, 3);
  EXPECT_EQ(print(*graph), text);
}

TEST(Text, TypesMayBeLeftOut) {
  const Graph graph = parsed("graph @g(%x: f32[seq, 4]) { %y = neg %x return %y }");
  EXPECT_EQ(to_string(graph.value(graph.outputs()[0]).type), "f32[seq, 4]");
}

TEST(Text, UnnamedValuesAreNumberedInOrder) {
  Graph graph;
  graph.name = "g";
  const ValueId unused = graph.add_value({"", {}});
  const ValueId x = graph.add_input({"", {ElementType::kF32, {Dim(2)}}});
  const ValueId y = graph.append(Unary{UnaryKind::kNeg}, {x}, {ElementType::kF32, {Dim(2)}});
  graph.add_output(y);
  EXPECT_TRUE(unused.exists());
  EXPECT_EQ(print(graph), "graph @g(%0: f32[2]) {\n  %1 = neg %0 : f32[2]\n  return %1\n}\n");
  EXPECT_EQ(print(parsed(print(graph))), print(graph));
}

TEST(Text, HostileNamesAreQuotedAndComeBack) {
  for (const std::string& name :
       {std::string("*/ int x; /*"), std::string("$(touch x)"), std::string("a\nb"),
        std::string("\"quote\\"), std::string("nul\0byte", 8), std::string("\xff\xfe"),
        std::string("12"), std::string("a//b"), std::string("\u202etxt.exe"),
        std::string("/layers.0/self_attn/MatMul_output_0"), std::string("_"), std::string("return"),
        std::string("caf\u00e9")}) {
    Graph graph;
    graph.name = name;
    const Dim symbol = Dim::symbol(name);
    const TensorType type{ElementType::kF32, {*mul(symbol, Dim(3)), *add(symbol, Dim(-1))}};
    const ValueId x = graph.add_input({name, type});
    const ValueId y =
        graph.append(Unary{UnaryKind::kNeg}, {x}, type, Origin{name, name}, name + "'");
    graph.add_output(y);
    const std::string text = print(graph);
    for (const char c : text)
      EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << text;
    const Graph back = parsed(text);
    ASSERT_EQ(back.inputs().size(), 1u);
    EXPECT_EQ(back.name, name);
    EXPECT_EQ(back.value(back.inputs()[0]).name, name);
    EXPECT_EQ(back.value(back.inputs()[0]).type, type);
    EXPECT_EQ(back.nodes()[0].origin.file, name);
    EXPECT_EQ(print(back), text);
  }
}

TEST(Text, NumbersComeBackExactly) {
  const Graph graph = parsed(R"(graph @g() {
  %a = constant f32[4] {0.1, 1e-45, 3.4028235e+38, -0}
  %b = constant f64[2] {0.1, 1e-300}
  %c = constant i64[2] {-9223372036854775808, 9223372036854775807}
  %d = constant u64[1] {18446744073709551615}
  %e = constant i8[2] {-128, 127}
  %f = constant bool[2] {true, false}
  %g = constant f16[2] {65504, 5.9604645e-08}
  %h = constant f32[0, 3] {}
  %i = constant f32[] {7}
  return %a
})");
  EXPECT_EQ(print(parsed(print(graph))), print(graph));
  const auto& a = *std::get<ConstantOp>(graph.nodes()[0].op).data;
  float values[4];
  std::memcpy(values, a.bytes().data(), sizeof values);
  EXPECT_EQ(values[0], 0.1f);
  EXPECT_EQ(values[1], 1e-45f);
  EXPECT_TRUE(std::signbit(values[3]));
}

TEST(Text, MappedDataNeedsAResolver) {
  const std::string text = "graph @g() { %w = constant f32[2] mapped \"f:w\" return %w }";
  EXPECT_THAT(parse_error(text), HasSubstr("is not available"));
  ParseOptions options;
  options.resolve = [](ElementType, const std::vector<std::int64_t>&, const std::string& name) {
    return name == "f:w" ? make_f32({2}, {1, 2}) : nullptr;
  };
  EXPECT_TRUE(parse(text, options).ok());
  options.resolve = [](ElementType, const std::vector<std::int64_t>&, const std::string&) {
    return make_f32({3}, {1, 2, 3});
  };
  EXPECT_THAT(message(parse(text, options)), HasSubstr("another type"));
}

struct BadText {
  const char* text;
  const char* says;
};

TEST(Text, ErrorsNameLineAndColumn) {
  const BadText cases[] = {
      {"", "1:1: expected 'graph', got the end"},
      {"graph", "1:6: expected '@'"},
      {"graph @g(%x f32[1]) {}", "1:13: expected ':'"},
      {"graph @g(%x: f33[1]) {}", "1:14: expected an element type"},
      {"graph @g(%x: f32[-1]) {}", "1:18: a size is negative"},
      {"graph @g(%x: f32[1], %x: f32[1]) {}", "1:22: value %x is defined twice"},
      {"graph @g() {\n  %y = nonsense\n}", "2:8: no operator is called 'nonsense'"},
      {"graph @g() {\n  %y = neg %z\n}", "2:12: value %z is not defined above"},
      {"graph @g(%x: f32[2]) { %y = neg %x {axis = 1} return %y }", "no attribute is called"},
      {"graph @g(%x: f32[2]) { %y = softmax %x {axis = 0, axis = 0} return %y }", "given twice"},
      {"graph @g(%x: f32[2]) { %y = softmax %x {axis = 9223372036854775808} return %y }",
       "not a whole number of 64 bits"},
      {"graph @g(%x: f32[2]) { %y = softmax %x {axis = 0.5} return %y }", "not a whole number"},
      {"graph @g(%x: f32[2]) { %y = cast %x {to = f12} return %y }", "expected one of f32, f16"},
      {"graph @g(%x: f32[2]) { %y = neg %x, %x return %y }", "takes 1 operand, got 2"},
      {"graph @g(%x: f32[2]) { %y = neg _ return %y }", "operand 0 is absent"},
      {"graph @g(%x: f32[2]) { %y = neg %x : f32[3] return %y }", "%y is f32[2], not f32[3]"},
      {"graph @g(%x: f32[2]) { %y, %z = neg %x return %y }", "neg has 1 results"},
      {"graph @g() { %w = constant f32[2] {1} return %w }", "has 1 elements, not 2"},
      {"graph @g() { %w = constant f32[seq] splat(1) return %w }", "symbolic size"},
      {"graph @g() { %w = constant f32[9223372036854775807, 9] splat(1) return %w }",
       "does not fit 64 bits"},
      {"graph @g() { %w = constant i8[1] {128} return %w }", "128 does not fit i8"},
      {"graph @g() { %w = constant u8[1] {-1} return %w }", "-1 does not fit u8"},
      {"graph @g() { %w = constant f32[1] {1e} return %w }", "expected a number"},
      {"graph @g() { %w = constant f32[1] {1e999} return %w }", "expected a number"},
      {"graph @g() { %w = constant i32[2] random(1, 1) return %w }", "random data is f32"},
      {"graph @g() { %w = constant f32[2] transposed(f32[2, 1] splat(1)) return %w }",
       "only matrices"},
      {"graph @g() { %w = constant f32[2, 2] transposed(f32[2, 1] splat(1)) return %w }",
       "another type than the one written"},
      {"graph @g() { %w = constant f32[2, 2] concat(f32[1, 2] splat(1), f32[1, 3] splat(1)) "
       "return %w }",
       "do not fit on top of each other"},
      {"graph @g() { %w = constant f32[1, 2] rows(f32[1, 2] splat(1), [1]) return %w }",
       "the source has no row 1"},
      {"graph @g() { %w = constant u8[2, 2] packed(u8[1] {1}, 4, unsigned, 0) return %w }",
       "do not fit their source"},
      {"graph @g() { %w = constant u8[2] packed(u8[1] {1}, 4, odd, 0) return %w }",
       "expected unsigned, signed or offset"},
      {"graph @g() { %w = constant i8[2] packed(u8[1] {1}, 4, unsigned, 0) return %w }",
       "another type than the one written"},
      {"graph @g() { %w = constant f32[1, 2] quantized(u8[1, 2] {1, 2}, f32[1, 2] {1, 2}, _, "
       "[1, 2]) return %w }",
       "do not fit each other"},
      {"graph @g() { %w = constant f32[1, 2] quantized(u8[1, 2] {1, 2}, f32[1, 1] {1}, _, [0, 2]) "
       "return %w }",
       "do not fit each other"},
      {"graph @g() { %w = constant f32[2, 2] nonsense(f32[2, 2] splat(1)) return %w }",
       "unknown kind of data"},
      {"graph @g() { %y = parameter {index = 0} return %y }", "type of a parameter is missing"},
      {"graph @\"unterminated", "malformed or unterminated string"},
      {"graph @\"bad \\q escape\"() {}", "malformed or unterminated string"},
      {"graph @g() { return _ }", "an output cannot be absent"},
      {"graph @g() { return } extra", "expected the end"},
      {"graph @g(%: f32[1]) {}", "malformed value name"},
      {"graph @g() { # }", "unexpected character"},
  };
  for (const auto& bad : cases) EXPECT_THAT(parse_error(bad.text), HasSubstr(bad.says)) << bad.text;
}

TEST(Text, QuantizedConstantsGoThroughTextUnchanged) {
  const std::string text =
      "graph @g() {\n"
      "  %w = constant f32[2, 3] quantized(u8[2, 3] packed(u8[4] {33, 67, 248, 0}, 4, unsigned, "
      "4), "
      "f16[2, 2] {1, 2, 0.5, -4}, i8[2, 2] {8, 7, 0, -1}, [1, 2])\n"
      "  %t = constant f32[3, 2] transposed(f32[2, 3] quantized(u8[2, 3] packed(u8[4] {33, 67, "
      "248, "
      "0}, 4, offset, 4), f32[1, 1] {1}, _, [2, 3]))\n"
      "  return %w\n}\n";
  const auto graph = parse(text);
  // Codes with offset are i8.
  EXPECT_FALSE(graph.ok());
  std::string good = text;
  good.replace(good.rfind("quantized(u8"), 12, "quantized(i8");
  const std::string once = print(parsed(good));
  EXPECT_EQ(print(parsed(once)), once);
  EXPECT_THAT(once, HasSubstr("packed(u8[4] {33, 67, 248, 0}, 4, unsigned, 4)"));
  EXPECT_THAT(once, HasSubstr("_, [3, 2])"));
}

TEST(Text, DeepNestingIsAnErrorNotACrash) {
  std::string data;
  for (int i = 0; i < 100'000; ++i) data += "transposed(f32[1, 1] ";
  EXPECT_THAT(parse_error("graph @g() { %w = constant f32[1, 1] " + data),
              HasSubstr("nested too deeply"));
  std::string loops;
  for (int i = 0; i < 100'000; ++i)
    loops +=
        "%y = loop {count = 1, carried = 0, per_iteration_inputs = 0, per_iteration_outputs = 0} "
        "parameters [] body @b() { ";
  EXPECT_THAT(parse_error("graph @g() { " + loops), HasSubstr("nested too deeply"));
}

/// Every prefix of a text and every text with one byte changed either parses or fails.
TEST(Text, DamagedTextNeverCrashes) {
  std::string all;
  for (const auto& [name, text] : testing::op_samples()) {
    if (name != "loop" && name != "linear" && name != "rope" && name != "constant") continue;
    for (std::size_t n = 0; n < text.size(); ++n) {
      (void)parse(text.substr(0, n)).ok();
      for (const char c : {'\0', '%', '{', '"', '9', '-', '\xff'}) {
        std::string damaged = text;
        damaged[n] = c;
        if (auto graph = parse(damaged); graph.ok()) {
          const auto once = print(*graph);
          EXPECT_EQ(print(parsed(once)), once);
        }
      }
    }
  }
}

TEST(Text, ABrokenGraphStillPrints) {
  Graph graph;
  graph.name = "broken";
  const ValueId y = graph.add_value({"y", {ElementType::kF32, {}}});
  graph.add_node({ConstantOp{}, {}, {y}, {}});
  graph.add_node({Loop{}, {kNoValue}, {y}, {}});
  graph.add_output(ValueId{77});
  const auto text = print(graph);
  EXPECT_THAT(text, HasSubstr("constant missing"));
  EXPECT_THAT(text, HasSubstr("no such value"));
  EXPECT_FALSE(verify(graph).ok());
}

}  // namespace
}  // namespace llmc::ir
