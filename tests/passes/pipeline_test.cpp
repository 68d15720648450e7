#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "compiler/ir/text.h"
#include "passes/recognise.h"
#include "passes/rewrite.h"
#include "tests/passes/parsed.h"
#include "tests/support/small_stack.h"

namespace llmc::passes {
namespace {

constexpr std::string_view kSmall = R"(graph @g(%x: f32[seq, 4]) {
  %w = constant f32[4, 4] random(1, 1)
  %a = matmul %x, %w
  %y = add %x, %a
  return %y
})";

Result<ir::Graph> breaks_types(ir::Graph graph, const PassContext&) {
  graph.value(graph.outputs()[0]).type.dims = {7, 7};
  return graph;
}

Result<ir::Graph> fails(ir::Graph, const PassContext&) {
  return Diagnostic{ErrorKind::kUnsupported, {}, "node", {}, "no can do", {}};
}

TEST(Pipeline, RunsThePassesOfTheGraphInOrder) {
  for (const bool decoder : {false, true}) {
    ir::Graph graph = parsed(kSmall);
    if (decoder) graph.add_input({"ids", {ir::ElementType::kI64, {2}}, ir::InputKind::kTokenIds});
    auto result = run_pipeline(std::move(graph));
    ASSERT_TRUE(result.ok());
    std::vector<std::string_view> run, expected;
    for (const PassReport& report : result->reports) {
      run.push_back(report.name);
      EXPECT_GE(report.seconds, 0);
    }
    for (const PassEntry& entry : pipeline())
      if (entry.graphs != (decoder ? PassGraphs::kPlain : PassGraphs::kDecoders))
        expected.push_back(entry.name);
    EXPECT_EQ(run, expected);
    EXPECT_LT(run.size(), pipeline().size());
    EXPECT_EQ(result->reports.front().nodes_before, 3u);
    EXPECT_EQ(result->reports.back().nodes_after, result->graph.nodes().size());
  }
}

TEST(Pipeline, VerifiesAfterEachPassAndNamesTheCulprit) {
  const PassEntry entries[] = {{"breaks_types", breaks_types, ""}};
  auto result = run_passes(parsed(kSmall), entries, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().kind, ErrorKind::kInternal);
  EXPECT_NE(result.error().first().message.find("breaks_types"), std::string::npos);
  PipelineOptions trusting;
  trusting.verify = false;
  EXPECT_TRUE(run_passes(parsed(kSmall), entries, trusting).ok());
}

TEST(Pipeline, ErrorsOfAPassKeepTheirKindAndPlace) {
  const PassEntry entries[] = {{"fails", fails, ""}};
  auto result = run_passes(parsed(kSmall), entries, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(result.error().first().node, "node");
  EXPECT_EQ(result.error().first().message, "pass fails: no can do");
}

TEST(Pipeline, IsIdempotentOnStages) {
  auto once = run_pipeline(parsed(kSmall));
  ASSERT_TRUE(once.ok());
  const std::string text = ir::print(once->graph);
  auto twice = run_pipeline(std::move(once->graph));
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(ir::print(twice->graph), text);
}

TEST(Pipeline, TheRegistryHasEveryPassOnce) {
  std::set<std::string_view> names;
  for (const PassEntry& entry : registry()) {
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_EQ(find_pass(entry.name)->run, entry.run);
    EXPECT_FALSE(entry.why.empty());
  }
  for (const PassEntry& entry : pipeline()) EXPECT_TRUE(names.contains(entry.name));
  EXPECT_EQ(find_pass("no such pass"), nullptr);
}

TEST(Pipeline, DumpsTheGraphAfterEachPass) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "llmc_passes_dump";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  PipelineOptions options;
  options.dump = dump_ir_to(folder);
  auto result = run_pipeline(parsed(kSmall), options);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "00-imported.ir"));
  std::ifstream last(folder / (std::to_string(result->reports.size()) + "-hadamard_inputs.ir"));
  const std::string text{std::istreambuf_iterator<char>(last), {}};
  EXPECT_EQ(text, ir::print(result->graph));
  std::filesystem::remove_all(folder);

  options.dump = dump_ir_to(folder / "missing");
  EXPECT_FALSE(run_pipeline(parsed(kSmall), options).ok());
}

TEST(Recognise, ThetaOfPlainFrequenciesOnly) {
  std::vector<double> frequencies;
  for (int i = 0; i < 32; ++i)
    frequencies.push_back(static_cast<double>(static_cast<float>(std::pow(500000.0, -i / 32.0))));
  EXPECT_EQ(theta_of(frequencies), 500000.0);
  frequencies[20] /= 8;  // as in RoPE variants with scaled frequencies
  EXPECT_EQ(theta_of(frequencies), std::nullopt);
  EXPECT_EQ(theta_of({}), std::nullopt);
  EXPECT_EQ(theta_of({1}), std::nullopt);
  EXPECT_EQ(theta_of({1, 0}), std::nullopt);
  EXPECT_EQ(theta_of({2, 1}), std::nullopt);
}

TEST(Recognise, CountsWhatStayedUnfused) {
  const ModelProperties facts = recognise(parsed(R"(graph @g(%x: f32[seq, 4], %ids: i64[seq]) {
    %t = constant f32[9, 4] random(1, 1)
    %e = embedding %ids, %t
    %a = tanh %e
    %s = softmax %a {axis = 1}
    %y = linear %s, %t
    return %y
  })"));
  EXPECT_EQ(facts.unfused, (std::map<std::string, std::int64_t>{{"softmax", 1}}));
  EXPECT_EQ(facts.elementwise, (std::map<std::string, std::int64_t>{{"tanh", 1}}));
  EXPECT_EQ(facts.vocabulary, 9);
  EXPECT_EQ(facts.hidden, 4);
  EXPECT_EQ(facts.layers, 0);
  EXPECT_TRUE(facts.tied);
  EXPECT_FALSE(facts.rope_theta.has_value());
}

TEST(Recognise, LayersThatDisagreeGiveNoNumber) {
  const ModelProperties facts = recognise(parsed(
      R"(graph @g(%q: f32[1, seq, 2, 4], %k: f32[1, seq, 1, 4], %p: f32[2, 1, past, 1, 4], %p2: f32[2, 1, past, 2, 4]) {
    %a, %b = attention %q, %k, %k, %p {heads = 2, kv_heads = 1, head_dim = 4, scale = 0.5}
    %c, %d = attention %q, %q, %q, %p2 {heads = 2, kv_heads = 2, head_dim = 4, scale = 0.5}
    return %a, %b, %c, %d
  })"));
  EXPECT_EQ(facts.layers, 2);
  EXPECT_EQ(facts.heads, 2);
  EXPECT_EQ(facts.kv_heads, 0);
}

/// Malicious graphs must neither overflow the stack nor take minutes.
TEST(Hostile, LongChainsAndManyUsers) {
  ir::Graph graph;
  const ir::Dim seq = ir::Dim::symbol("seq");
  const ir::TensorType type{ir::ElementType::kF32, {1, seq, 2, 8}};
  const ir::TensorType angle{ir::ElementType::kF32, {1, seq, 1, 8}};
  const ir::ValueId x = graph.add_input({"x", type});
  const ir::ValueId positions = graph.add_input(
      {"position_ids", {ir::ElementType::kI64, {1, seq, 1, 1}}, ir::InputKind::kPositions});
  ir::ValueId p = graph.append(ir::Cast{}, {positions}, {ir::ElementType::kF32, {1, seq, 1, 1}});
  const ir::ValueId f = graph.append_constant(ir::make_random({8}, 1, 1));
  ir::ValueId a = graph.append(ir::Binary{ir::BinaryKind::kMul}, {p, f}, angle);
  constexpr int kLength = 8000;        // pairs of nodes
  for (int i = 0; i < kLength; ++i) {  // concat of slices, which simplify does not merge
    const ir::TensorType half{ir::ElementType::kF32, {1, seq, 1, 4}};
    const ir::ValueId l = graph.add_value({"", half}), r = graph.add_value({"", half});
    graph.add_node({ir::Split{3, {4, 4}}, {a}, {l, r}, {}});
    a = graph.append(ir::Concat{3}, {r, l}, angle);
  }
  const ir::ValueId c = graph.append(ir::Unary{ir::UnaryKind::kCos}, {a}, angle);
  ir::ValueId y = x;
  for (int i = 0; i < 500; ++i) y = graph.append(ir::Binary{ir::BinaryKind::kMul}, {y, c}, type);
  graph.add_output(y);
  PipelineOptions options;
  options.verify = false;
  tests::with_small_stack([&] {
    const auto result = run_pipeline(std::move(graph), options);
    ASSERT_TRUE(result.ok()) << format(result.error().first());
    EXPECT_EQ(recognise(result->graph).fused.ropes, 0);
  });
}

TEST(Hostile, NestedConditionsAreGivenUp) {
  std::string text =
      R"(graph @g(%s: f32[1, 1, seq, past + seq], %m: bool[seq, past + seq], %v: f32[1, 1, past + seq, 4]) {
)";
  std::string last = "%m";
  for (int i = 0; i < 200; ++i) {
    const std::string next = "%c" + std::to_string(i);
    text += next + " = and " + last + ", " + last + "\n";
    last = next;
  }
  text += R"(%low = constant f32[] {-inf}
    %w = where )" +
          last + R"(, %s, %low
    %p = softmax %w {axis = -1}
    %y = matmul %p, %v
    return %y
  })";
  auto result = run_pipeline(parsed(text));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(recognise(result->graph).fused.attentions, 0);
}

}  // namespace
}  // namespace llmc::passes
