#include "tests/reference/evaluate_test_util.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"

namespace llmc::reference::testing {

ir::Graph graph_of(const std::string& text) {
  auto graph = ir::parse(text);
  EXPECT_TRUE(graph.ok()) << format(graph.error().first()) << "\n" << text;
  if (!graph.ok()) return {};
  const auto verified = ir::verify(*graph);
  EXPECT_TRUE(verified.ok()) << format(verified.error().first()) << "\n" << text;
  return std::move(*graph);
}

std::vector<Tensor> outputs_of(const std::string& text, const std::vector<Tensor>& inputs) {
  auto outputs = evaluate(graph_of(text), inputs);
  EXPECT_TRUE(outputs.ok()) << format(outputs.error().first()) << "\n" << text;
  return outputs.ok() ? std::move(*outputs) : std::vector<Tensor>{};
}

std::string error_of(const std::string& text, const std::vector<Tensor>& inputs,
                     const InterpreterOptions& options) {
  const auto outputs = evaluate(graph_of(text), inputs, options);
  EXPECT_FALSE(outputs.ok()) << text;
  return outputs.ok() ? "(none)" : format(outputs.error().first());
}

void expect_near(const Tensor& actual, const Tensor& expected, float tolerance,
                 const std::string& what) {
  EXPECT_EQ(type_text(actual), type_text(expected)) << what;
  EXPECT_EQ(actual.integers, expected.integers) << what;
  EXPECT_EQ(actual.doubles, expected.doubles) << what;
  ASSERT_EQ(actual.floats.size(), expected.floats.size()) << what;
  for (std::size_t i = 0; i < expected.floats.size(); ++i) {
    const float a = actual.floats[i], e = expected.floats[i];
    const bool same = (std::isnan(a) && std::isnan(e)) || a == e ||
                      std::fabs(a - e) <= tolerance * std::max(1.0f, std::fabs(e));
    EXPECT_TRUE(same) << what << ": element " << i << " is " << a << ", not " << e;
  }
}

}  // namespace llmc::reference::testing
