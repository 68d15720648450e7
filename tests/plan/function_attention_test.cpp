// Which operators of a function are fused to attention, and which only look like it.

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/plan/nest_lower.h"
#include "passes/fusions.h"

namespace llmc::plan {
namespace {

ir::Graph parse(const std::string& text) {
  auto graph = ir::parse(text);
  if (!graph.ok()) ADD_FAILURE() << format(graph.error().first());
  EXPECT_TRUE(ir::verify(*graph).ok());
  return *std::move(graph);
}

ir::Graph fused(const std::string& text) {
  auto graph = passes::fuse_scaled_attention(parse(text), {});
  EXPECT_TRUE(graph.ok() && ir::verify(*graph).ok());
  return *std::move(graph);
}

std::size_t matches(const std::string& text) {
  const ir::Graph graph = fused(text);
  return static_cast<std::size_t>(std::ranges::count_if(graph.nodes(), [](const ir::Node& node) {
    return std::holds_alternative<ir::ScaledAttention>(node.op);
  }));
}

/// Returns a graph with y = softmax(e) . v, where `scores` computes %e from %s = %q . %k.
std::string around(const std::string& scores, const std::string& queries = "3",
                   const std::string& depth = "4", const std::string& keys = "5") {
  return "graph @g(%q: f32[" + queries + ", " + depth + "], %k: f32[" + depth + ", " + keys +
         "], %v: f32[5, 2], %m: bool[3, 5], %b: f32[3, 5]) {\n  %s = matmul %q, %k\n" + scores +
         "  %p = softmax %e {axis = 1}\n  %y = matmul %p, %v\n  return %y\n}";
}

TEST(FunctionAttention, IsFoundWithScaleBiasOrMask) {
  EXPECT_EQ(matches(around("  %c = constant f32[] {2}\n  %d = div %s, %c\n  %e = add %b, %d\n")),
            1u);
  for (const char* fill : {"-1", "-1e4", "-inf", "7"}) {
    const std::string constant = std::string("  %f = constant f32[] {") + fill + "}\n";
    EXPECT_EQ(matches(around(constant + "  %e = where %m, %s, %f\n")), 1u) << fill;
    EXPECT_EQ(matches(around(constant + "  %e = where %m, %f, %s\n")), 1u) << fill;
  }
}

TEST(FunctionAttention, HasASoftcapBeforeTheBias) {
  const std::string cap = "  %c = constant f32[] {30}\n";
  EXPECT_EQ(matches(around(cap + "  %d = div %s, %c\n  %t = tanh %d\n  %u = mul %t, %c\n"
                                 "  %e = add %u, %b\n")),
            1u);
  // Here the cap bounds the sum of score and bias.
  EXPECT_EQ(matches(around(cap + "  %u = add %s, %b\n  %d = div %u, %c\n  %t = tanh %d\n"
                                 "  %e = mul %t, %c\n")),
            0u);
}

TEST(FunctionAttention, IsLeftAloneWhereItIsSomethingElse) {
  const std::string f = "  %f = constant f32[] {-1e38}\n", zero = "  %f = constant f32[] {0}\n";
  // For the kernel, a fill of 0 means "no mask".
  EXPECT_EQ(matches(around(zero + "  %e = where %m, %s, %f\n")), 0u);
  // A scale of the sum. Applied to the terms, it could overflow.
  EXPECT_EQ(matches(around(f + "  %d = add %s, %b\n  %e = mul %d, %f\n")), 0u);
  EXPECT_EQ(matches(around(zero + "  %e = mul %s, %f\n")), 0u);
  EXPECT_EQ(matches(around("  %c = constant f32[] {1e-40}\n  %e = div %s, %c\n")), 0u);
  // Scores that the mask or the bias broadcasts over queries or keys.
  for (const auto& [queries, keys] : {std::pair{"1", "5"}, std::pair{"3", "1"}}) {
    EXPECT_EQ(matches(around(f + "  %e = where %m, %s, %f\n", queries, "4", keys)), 0u);
    EXPECT_EQ(matches(around(f + "  %e = where %m, %f, %s\n", queries, "4", keys)), 0u);
    EXPECT_EQ(matches(around("  %e = add %s, %b\n", queries, "4", keys)), 0u);
  }
  // There are no keys.
  EXPECT_EQ(matches(around("  %e = add %s, %b\n", "3", "0")), 0u);
}

/// Returns the number of stages that call the kernel. Expects that a stage writes each output.
std::size_t kernels(const std::string& text, const std::string& prefix) {
  const ir::Graph graph = fused(text);
  auto program = lower(graph, {.entry = ir::EntryKind::kRun});
  EXPECT_TRUE(program.ok());
  if (!program.ok()) return 0;
  std::size_t count = 0;
  std::set<std::uint32_t> written;
  for (const auto& stage : program->forward) {
    if (const auto* kernel = std::get_if<CallStage>(&stage.op)) {
      count += kernel->kernel.starts_with(prefix);
      for (const auto& buffer : kernel->buffers)
        if (buffer.written) written.insert(buffer.buffer);
    } else if (const auto* map = std::get_if<MapStage>(&stage.op)) {
      written.insert(map->target.buffer);
    }
  }
  for (const auto& output : program->outputs)
    EXPECT_TRUE(written.contains(output.buffer)) << output.name;
  return count;
}

TEST(FunctionAttention, OfAnAttentionIsOneOfTheTwo) {
  EXPECT_EQ(kernels(R"(graph @g(%q: f32[3, 4], %k: f32[4, 5], %v: f32[5, 6], %w: f32[6, 2]) {
  %s = matmul %q, %k
  %p = softmax %s {axis = 1}
  %o = matmul %p, %v
  %r = softmax %o {axis = 1}
  %y = matmul %r, %w
  return %y
})",
                    "attention"),
            1u);
}

TEST(FunctionAttention, WithoutKeysStillWritesItsResult) {
  EXPECT_EQ(kernels(R"(graph @g(%q: f32[3, 4], %k: f32[4, 0], %v: f32[0, 6]) {
  %s = matmul %q, %k
  %p = softmax %s {axis = 1}
  %y = matmul %p, %v
  return %y
})",
                    "attention"),
            0u);
}

}  // namespace
}  // namespace llmc::plan
