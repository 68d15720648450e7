#include "passes/assign_weight_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/passes/parsed.h"

namespace llmc::passes {
namespace {

using ir::WeightFormat;
using ir::WeightRole;
using ::testing::ElementsAre;

/// A layer with a matrix of every role except kQueryKey and kValue.
constexpr std::string_view kLayer =
    R"(graph @g(%input_ids: i64[seq] {kind = token_ids}, %position_ids: i64[1, seq] {kind = positions},
    %past.0: f32[2, 1, past, 1, 4] {kind = attention_cache}) {
  %t = constant f32[16, 8] random(1, 1)
  %a = embedding %input_ids, %t
  %p = squeeze %position_ids {axes = [0]}
  %b = embedding %p, %t
  %s = add %a, %b
  %x = unsqueeze %s {axes = [0]}
  %wq = constant f32[16, 8] random(2, 1)
  %q, %k, %v = qkv_projection %x, %wq {heads = 2, kv_heads = 1, head_dim = 4}
  %o, %present = attention %q, %k, %v, %past.0 {heads = 2, kv_heads = 1, head_dim = 4, scale = 0.5}
  %w = constant f32[8, 8] random(3, 1)
  %y = linear %o, %w
  %up = linear %y, %w {fn = relu}
  %down = linear %up, %w
  %w2 = constant f32[16, 8] random(4, 1)
  %gate = linear %down, %w2 {fn = silu, gated = true}
  %down2 = linear %gate, %w
  %z = linear %down2, %w
  %other = add %z, %x
  %logits = linear %other, %t
  return %logits, %present
})";

std::vector<std::string> decisions(const FormatPolicy& policy, const ir::Graph& graph) {
  std::vector<std::string> texts;
  assign_weight_formats(
      graph, policy, [&](const WeightDecision& decision) { texts.push_back(to_string(decision)); });
  return texts;
}

TEST(AssignWeightFormats, FindsRolesAndSaysWhy) {
  EXPECT_THAT(decisions(format_policy(kQ4Mixed, {.hidden = 8}), parsed(kLayer)),
              ElementsAre("'': embedding, q4: --quant", "'': position_embedding, q4: --quant",
                          "'': qkv, q6: a narrow model, with q4m",
                          "'': attention_out, q6: a narrow model, with q4m", "'': up, q4: --quant",
                          "'': down, q6: a narrow model, with q4m", "'': gate_up, q4: --quant",
                          "'': down, q6: a narrow model, with q4m", "'': linear, q4: --quant",
                          "'': head, q6: the head, with q4"));
}

TEST(AssignWeightFormats, DecidesOnceForEachMatrix) {
  FormatPolicy policy = format_policy(WeightFormat::kQ8, {});
  policy[WeightRole::kValue] = {WeightFormat::kF16, "of this test"};
  const ir::Graph once = assign_weight_formats(parsed(kLayer), policy);
  const auto again = decisions(format_policy(WeightFormat::kQ4, {}), once);
  for (const std::string& text : again) EXPECT_THAT(text, ::testing::EndsWith(": the graph's own"));
  for (const ir::Node& node : once.nodes()) {
    const auto* qkv = ir::op_as<ir::QkvProjection>(&node);
    if (qkv == nullptr) continue;
    EXPECT_EQ(qkv->format, WeightFormat::kQ8);
    EXPECT_EQ(qkv->value_format, WeightFormat::kF16);
  }
}

TEST(HiddenSize, IsTheWidthThatMostLayersReadWithoutAnEmbedding) {
  EXPECT_EQ(hidden_size(parsed(kLayer)), 8u);
  EXPECT_EQ(hidden_size(parsed(R"(graph @g(%pixels: f32[4, 24]) {
  %patches = constant f32[8, 24] random(1, 1)
  %x = linear %pixels, %patches
  %w = constant f32[8, 8] random(2, 1)
  %y = linear %x, %w
  %z = linear %y, %w
  return %z
})")),
            8u);
  EXPECT_EQ(hidden_size(parsed("graph @g(%x: f32[4]) {\n  %y = neg %x\n  return %y\n}")), 0u);
}

TEST(FormatPolicy, WideBeginsAt512) {
  for (const std::uint64_t hidden : {511u, 512u}) {
    const FormatPolicy mixed = format_policy(kQ4Mixed, {.hidden = hidden});
    const FormatPolicy same = format_policy(WeightFormat::kQ4, {.hidden = hidden});
    for (const FormatPolicy& policy : {mixed, same}) {
      EXPECT_EQ(policy[WeightRole::kHead].format, WeightFormat::kQ6);
      EXPECT_EQ(policy[WeightRole::kGateUp].format, WeightFormat::kQ4);
    }
    const auto rest = hidden < 512 ? WeightFormat::kQ6 : WeightFormat::kQ4;
    for (const auto role : {WeightRole::kQueryKey, WeightRole::kValue, WeightRole::kAttentionOut,
                            WeightRole::kDown}) {
      EXPECT_EQ(mixed[role].format, rest);
      EXPECT_EQ(same[role].format, WeightFormat::kQ4);
    }
  }
}

TEST(FormatPolicy, ALargeHeadHas4BitsIfTheOthersGetMoreForThem) {
  const auto formats = [](MatrixSizes sizes) {
    const FormatPolicy policy = format_policy(kQ4Mixed, sizes);
    EXPECT_EQ(policy[WeightRole::kValue].format, policy[WeightRole::kDown].format);
    for (const auto role : {WeightRole::kUp, WeightRole::kLinear})
      EXPECT_EQ(policy[role].format, policy[WeightRole::kGateUp].format);
    return std::vector{policy[WeightRole::kHead].format, policy[WeightRole::kDown].format,
                       policy[WeightRole::kGateUp].format};
  };
  const auto q4 = WeightFormat::kQ4, q6 = WeightFormat::kQ6;
  EXPECT_THAT(formats({.hidden = 8, .head = 0, .others = 0}), ElementsAre(q6, q6, q4));
  EXPECT_THAT(formats({.hidden = 8, .head = 99, .others = 100}), ElementsAre(q6, q6, q4));
  EXPECT_THAT(formats({.hidden = 8, .head = 100, .others = 100}), ElementsAre(q4, q6, q6));
  EXPECT_THAT(formats({.hidden = 512, .head = 100, .others = 100}), ElementsAre(q6, q4, q4));
}

TEST(MatrixSizes, CountsMatricesWithoutAFormat) {
  const MatrixSizes sizes = matrix_sizes(parsed(kLayer), false);
  EXPECT_EQ(sizes.hidden, 8u);
  EXPECT_EQ(sizes.head, 16u * 8);
  EXPECT_EQ(sizes.others, 64u + 16 * 8 + 64);
  ir::Graph plain = parsed(kLayer);
  for (const ir::ValueId input : plain.inputs()) plain.value(input).kind = ir::InputKind::kNone;
  const MatrixSizes encoder = matrix_sizes(plain, false);
  EXPECT_EQ(encoder.head, 0u);
  EXPECT_EQ(encoder.others, sizes.others + sizes.head);
  const ir::Graph decided =
      assign_weight_formats(parsed(kLayer), format_policy(WeightFormat::kQ8, {}));
  EXPECT_EQ(matrix_sizes(decided, false).head, 0u);
  const ir::Graph layers = parsed(R"(graph @g(%x: f32[1, seq, 4]) {
  %y = loop %x {count = 2, carried = 1, per_iteration_inputs = 0, per_iteration_outputs = 0}
    parameters [
      ["a" f32[4, 4] random(1, 1), "b" f32[4, 4] random(2, 1)]]
    body @layer(%x: f32[1, seq, 4]) {
      %w = parameter {index = 0} : f32[4, 4]
      %z = linear %x, %w, _, _, %x
      return %z
    } : f32[1, seq, 4]
  return %y
})");
  EXPECT_EQ(matrix_sizes(layers, false).others, 2u * 16);
}

TEST(MatrixSizes, CodesCountIfTheyAreRounded) {
  const ir::Graph graph = parsed(R"(graph @g(%ids: i64[seq] {kind = token_ids}, %x: f32[seq, 32]) {
  %w = constant f32[64, 32] quantized(i8[64, 32] splat(3), f32[64, 1] splat(0.5), _, [1, 32])
  %y = linear %x, %w
  return %y
})");
  EXPECT_EQ(matrix_sizes(graph, false).head, 0u);
  EXPECT_EQ(matrix_sizes(graph, true).head, 64u * 32);
}

TEST(QuantScheme, HasAName) {
  EXPECT_EQ(quant_scheme_list(" or "), "q4, q4m, q6, q8, f16 or f32");
  for (const char* name : {"q4", "q4m", "q6", "q8", "f16", "f32"}) {
    const auto scheme = parse_quant_scheme(name);
    ASSERT_TRUE(scheme) << name;
    EXPECT_EQ(quant_name(*scheme), name);
  }
  EXPECT_EQ(parse_quant_scheme("q4m"), kQ4Mixed);
  for (const char* name : {"", "unset", "q6m", "Q4"}) EXPECT_FALSE(parse_quant_scheme(name));
}

}  // namespace
}  // namespace llmc::passes
