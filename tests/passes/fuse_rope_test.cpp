// Inputs `position_axes` that another node than a rotation reads, or that index a table.
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "passes/fusions.h"
#include "tests/passes/parsed.h"

namespace llmc::passes {
namespace {

/// Returns text that computes the cosines and sines of row 1 of the positions %p i64[2, seq, 1].
std::string angles_of_second_axis() {
  return R"(  %pf = cast %p {to = f32}
  %freqs = constant f32[1, 1, 2] {1, 0.25}
  %a = mul %pf, %freqs
  %h = constant i64[1] {1}
  %ah = gather %a, %h {axis = 0}
  %aa = concat %ah, %ah {axis = 2}
  %axes = unsqueeze %aa {axes = [0]}
  %cos = cos %axes
  %sin = sin %axes
)";
}

/// Returns text that computes the rotation %y of %x by %cos and %sin.
std::string rotation() {
  return R"(  %x1, %x2 = split %x {axis = 3, sizes = [2, 2]}
  %n = neg %x2
  %turned = concat %n, %x1 {axis = 3}
  %xc = mul %x, %cos
  %xs = mul %turned, %sin
  %y = add %xc, %xs
)";
}

std::string fused(std::string_view text) {
  const auto graph = fuse_rope(parsed(text), {});
  EXPECT_TRUE(graph.ok());
  return graph.ok() ? ir::print(*graph) : std::string();
}

// For text, all rows are equal to position_ids.
TEST(PositionAxes, ArePositionsOfTextIfAnythingElseReadsThem) {
  EXPECT_EQ(
      fused(R"(graph @g(%x: f32[1, 2, seq, 4], %position_axes: i64[2, seq] {kind = position_axes}) {
  %p = unsqueeze %position_axes {axes = [2]}
)" + angles_of_second_axis() +
            rotation() + R"(  %largest = reduce_max %position_axes {axes = [1]}
  return %y, %largest
}
)"),
      R"(graph @g(%x: f32[1, 2, seq, 4], %position_ids: i64[1, seq] {kind = positions}) {
  %position_axes = concat %position_ids, %position_ids {axis = 0} : i64[2, seq]
  %0 = constant f32[2] {1, 0.25}
  %y = rope %x, %position_ids, %0 {rotary_dim = 4, heads_first = true} : f32[1, 2, seq, 4]
  %largest = reduce_max %position_axes {axes = [1]} : i64[2, 1]
  return %y, %largest
}
)");
}

TEST(PositionAxes, StayIfOthersReadTheirShape) {
  EXPECT_EQ(
      fused(R"(graph @g(%x: f32[1, 2, seq, 4], %position_axes: i64[2, seq] {kind = position_axes}) {
  %p = unsqueeze %position_axes {axes = [2]}
  %size = shape %p {begin = 1, end = 2}
)" + angles_of_second_axis() +
            rotation() + R"(  return %y, %size
}
)"),
      R"(graph @g(%x: f32[1, 2, seq, 4], %position_axes: i64[2, seq] {kind = position_axes}) {
  %p = unsqueeze %position_axes {axes = [2]} : i64[2, seq, 1]
  %size = shape %p {begin = 1, end = 2} : i64[1]
  %0 = constant f32[2] {1, 0.25}
  %y = rope %x, %position_axes, %0 {rotary_dim = 4, heads_first = true, position_axes = [1, 1]} : f32[1, 2, seq, 4]
  return %y, %size
}
)");
}

TEST(PositionAxes, ArePositionsOfTextIfARotationReadsAnUnknownAxis) {
  EXPECT_EQ(
      fused(
          R"(graph @g(%x: f32[1, 2, seq, 4], %position_axes: i64[2, seq] {kind = position_axes}, %axis: i64[1]) {
  %p = gather %position_axes, %axis {axis = 0}
  %pf = cast %p {to = f32}
  %freqs = constant f32[1, 1, 2] {1, 0.25}
  %p3 = unsqueeze %pf {axes = [2]}
  %a = mul %p3, %freqs
  %aa = concat %a, %a {axis = 2}
  %angles = unsqueeze %aa {axes = [1]}
  %cos = cos %angles
  %sin = sin %angles
)" + rotation() +
          R"(  return %y
}
)"),
      R"(graph @g(%x: f32[1, 2, seq, 4], %axis: i64[1], %position_ids: i64[1, seq] {kind = positions}) {
  %position_axes = concat %position_ids, %position_ids {axis = 0} : i64[2, seq]
  %p = gather %position_axes, %axis {axis = 0} : i64[1, seq]
  %0 = constant f32[2] {1, 0.25}
  %y = rope %x, %p, %0 {rotary_dim = 4, heads_first = true} : f32[1, 2, seq, 4]
  return %y
}
)");
}

TEST(PositionAxes, AreNoInputIfOnlyTheirShapeIsRead) {
  EXPECT_EQ(fused(R"(graph @g(%position_axes: i64[2, seq] {kind = position_axes}) {
  %size = shape %position_axes {begin = 1, end = 2}
  return %size
}
)"),
            R"(graph @g(%position_ids: i64[1, seq] {kind = positions}) {
  %position_axes = concat %position_ids, %position_ids {axis = 0} : i64[2, seq]
  %size = shape %position_axes {begin = 1, end = 2} : i64[1]
  return %size
}
)");
}

TEST(PositionAxes, ArePositionsOfTextIfTheyIndexATable) {
  EXPECT_EQ(
      fused(R"(graph @g(%x: f32[1, 2, seq, 4], %position_axes: i64[2, seq] {kind = position_axes}) {
  %table = constant f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %all = gather %table, %position_axes {axis = 0}
  %h = constant i64[1] {1}
  %row = gather %all, %h {axis = 0}
  %c, %s = split %row {axis = 2, sizes = [2, 2]}
  %cc = concat %c, %c {axis = 2}
  %ss = concat %s, %s {axis = 2}
  %cos = unsqueeze %cc {axes = [0]}
  %sin = unsqueeze %ss {axes = [0]}
)" + rotation() +
            R"(  return %y
}
)"),
      R"(graph @g(%x: f32[1, 2, seq, 4], %position_ids: i64[1, seq] {kind = positions}) {
  %0 = constant f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %y = rope %x, %position_ids, %0 {rotary_dim = 4, heads_first = true, table = true} : f32[1, 2, seq, 4]
  return %y
}
)");
}

}  // namespace
}  // namespace llmc::passes
