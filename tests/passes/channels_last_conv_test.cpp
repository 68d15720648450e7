#include <gtest/gtest.h>

#include <string>

#include "passes/transforms.h"
#include "tests/passes/parsed.h"

namespace llmc::passes {
namespace {

/// Returns a graph with `count` convolutions of one group, followed by one of four groups.
std::string graph_with_groups(int count) {
  std::string text =
      "graph @g(%x0: f32[1, 16, 40]) {\n  %w = constant f32[16, 16, 3] random(1, 1)\n";
  for (int i = 0; i < count; ++i)
    text += "  %x" + std::to_string(i + 1) + " = conv %x" + std::to_string(i) +
            ", %w {strides = [1], dilations = [1]}\n";
  return text + "  %v = constant f32[16, 4, 3] random(2, 1)\n  %y = conv %x" +
         std::to_string(count) +
         ", %v {strides = [1], dilations = [1], groups = 4}\n  return %y\n}\n";
}

bool converts(int count, ir::WeightFormat format) {
  const ir::Graph before = parsed(graph_with_groups(count));
  const auto after = channels_last_conv(before, {.options = {.weights = format}});
  return after.ok() && ir::print(*after) != ir::print(before);
}

TEST(ChannelsLastConv, FloatsKeepTheirOrderBesideManyGroups) {
  using enum ir::WeightFormat;
  EXPECT_FALSE(converts(5, kF32));
  EXPECT_FALSE(converts(5, kUnset));
  EXPECT_TRUE(converts(6, kF32));
  EXPECT_TRUE(converts(6, kUnset));
  EXPECT_TRUE(converts(1, kQ8));
}

}  // namespace
}  // namespace llmc::passes
