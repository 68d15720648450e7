// Values of a graph of one token per call that follow from its sizes.
#include "compiler/onnx/bind/row_evaluation.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace llmc::importer {
namespace {

ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse(text);
  if (!graph.ok()) ADD_FAILURE() << format(graph.error().first());
  return std::move(graph).value();
}

/// The analysis of a graph of %positions, %ones and nodes that compute %x.
class Analysed {
 public:
  explicit Analysed(const std::string& nodes)
      : graph_(parsed("graph @g(%positions: i64[1, seq], %ones: i64[seq, past + 1], "
                      "%cache: f32[seq, 2, past, 8]) {\n"
                      "  %past = shape %cache {begin = 2, end = 3}\n" +
                      nodes + "\n  return %x\n}\n")),
        analysis_(graph_, {graph_.inputs()[0], graph_.inputs()[1], {}}) {}
  std::optional<RowIntegers> integers() { return analysis_.integers(graph_.outputs()[0]); }
  std::optional<DistanceBias> bias() const { return analysis_.distance_bias(graph_.outputs()[0]); }

 private:
  const ir::Graph graph_;
  RowAnalysis analysis_;
};

std::string constant(const std::string& number) {
  return "  %c = constant i64[1] {" + number + "}\n";
}

TEST(RowAnalysis, IntegersGrowWithSizes) {
  const auto found = Analysed(constant("7") + "  %y = mul %past, %c\n  %x = sub %c, %y").integers();
  ASSERT_TRUE(found);
  ASSERT_EQ(found->elements.size(), 1u);
  EXPECT_EQ(found->elements[0].start, 7);
  EXPECT_EQ(found->elements[0].past, -7);
  EXPECT_EQ(found->elements[0].rows, 0);
  EXPECT_TRUE(Analysed("  %x = transpose %positions {perm = [1, 0]}").integers());
  EXPECT_FALSE(Analysed("  %x = mul %past, %past").integers());
}

TEST(RowAnalysis, IntegersDoNotOverflow) {
  const std::string largest = constant("9223372036854775807");
  const auto found = Analysed(largest + "  %x = sub %c, %past").integers();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->elements[0].start, INT64_MAX);
  EXPECT_EQ(found->elements[0].at({.rows = 1, .past = 2}), INT64_MAX - 2);
  EXPECT_FALSE(found->elements[0].at({.rows = 1, .past = -1}));
  // The evaluation wraps.
  EXPECT_FALSE(Analysed(largest + "  %x = add %c, %past").integers());
  EXPECT_FALSE(Analysed(largest + "  %x = mul %c, %past").integers());
}

TEST(RowAnalysis, DepthIsNotLimited) {
  std::string nodes = constant("1") + "  %x0 = add %past, %c\n";
  constexpr int kDepth = 2000;
  for (int i = 1; i < kDepth; ++i)
    nodes += "  %x" + std::to_string(i) + " = add %x" + std::to_string(i - 1) + ", %c\n";
  const auto found =
      Analysed(nodes + "  %x = add %x" + std::to_string(kDepth - 1) + ", %c").integers();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->elements[0].start, kDepth + 1);
}

TEST(RowAnalysis, MemoryOfAllValuesIsLimited) {
  // 1.6 MB a value, 20 of them fit 32 MB.
  const auto sums = [](int count) {
    std::string nodes = "  %shape = constant i64[1] {200000}\n  %x0 = expand %past, %shape\n";
    for (int i = 0; i < count; ++i)
      nodes += "  %x" + std::to_string(i + 1) + " = add %x" + std::to_string(i) + ", %past\n";
    return nodes + "  %x = reduce_max %x" + std::to_string(count) + " {axes = [0]}";
  };
  EXPECT_TRUE(Analysed(sums(10)).integers());
  EXPECT_FALSE(Analysed(sums(40)).integers());
}

TEST(RowAnalysis, BiasesHaveDistances) {
  const std::string keys = R"(  %zero = constant i64[] {0}
  %one = constant i64[] {1}
  %count1 = shape %ones {begin = 1, end = 2}
  %count = squeeze %count1 {axes = [0]}
  %k = range %zero, %count, %one
)";
  const auto window = Analysed(keys + R"(  %width = constant i64[] {5}
  %first = sub %count, %width
  %seen = greater_or_equal %k, %first
  %low = constant f32[] {-1}
  %nothing = constant f32[] {0}
  %x = where %seen, %nothing, %low)")
                          .bias();
  ASSERT_TRUE(window);
  EXPECT_EQ(window->values, (std::vector<float>{0, 0, 0, 0, 0, -1}));
  EXPECT_FALSE(Analysed(keys + "  %x = cast %k {to = f32}").bias());
  EXPECT_FALSE(Analysed("  %x = constant f32[1, 5000000, 1, 1] splat(0)").bias());
  EXPECT_FALSE(Analysed("  %x = constant f32[1, 0, 1, 1] {}").bias());
}

}  // namespace
}  // namespace llmc::importer
