#include "compiler/calibrate/sensitivity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "compiler/calibrate/rounding.h"
#include "compiler/ir/text.h"
#include "compiler/reference/interpreter.h"

namespace llmc::calibrate {
namespace {

using reference::Tensor;

/// Two layers in a loop and a head for the last token. The matrices of the second layer are larger,
/// so that its results have more influence on the logits.
constexpr const char* kSmallModel = R"(
graph @model(%input_ids: i64[seq] {kind = token_ids}) {
  %table = constant f32[50, 64] random(1, 1)
  %x = embedding %input_ids, %table : f32[seq, 64]
  %y = loop %x {count = 2, carried = 1, per_iteration_inputs = 0, per_iteration_outputs = 0}
    parameters [
      ["w1" f32[96, 64] random(2, 0.02), "w2" f32[96, 64] random(3, 0.3)],
      ["w3" f32[64, 96] random(4, 0.3), "w4" f32[64, 96] random(5, 0.3)]
    ]
    body @layer(%h: f32[seq, 64]) {
      %w0 = parameter {index = 0} : f32[96, 64]
      %norm = constant f32[64] splat(1)
      %g = linear %h, %w0, _, %norm {fn = relu, norm_epsilon = 1e-05, format = q8} : f32[seq, 96]
      %w1 = parameter {index = 1} : f32[64, 96]
      %d = linear %g, %w1, _, _, %h {format = q8} : f32[seq, 64]
      return %d
    } : f32[seq, 64]
  %last = constant i64[] {-1}
  %row = gather %y, %last {axis = 0} : f32[64]
  %shape = constant i64[2] {1, 64}
  %one = reshape %row, %shape : f32[1, 64]
  %head = constant f32[50, 64] random(9, 0.4)
  %logits = linear %one, %head {role = head, format = q8} : f32[1, 50]
  return %logits
})";

ir::Graph graph_of(const std::string& text) {
  auto graph = ir::parse(text);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().first().message);
  return graph.ok() ? *std::move(graph) : ir::Graph();
}

MeasureOptions short_text(std::size_t threads = 1) {
  MeasureOptions how;
  how.threads = threads;
  how.windows.resize(3);
  std::uint32_t state = 1;
  for (auto& window : how.windows)
    for (std::size_t i = 0; i < (&window == &how.windows.back() ? 5u : 12u); ++i)
      window.push_back(static_cast<std::int32_t>((state = state * 1664525u + 1013904223u) >> 8) %
                       50);
  return how;
}

std::vector<ir::ConstantPtr> weights_in(const ir::Graph& graph) {
  std::vector<ir::ConstantPtr> matrices;
  for (const Product& product : products_of(graph)) matrices.push_back(product.weight);
  return matrices;
}

std::vector<Losses> losses_of(const ir::Graph& graph, const MeasureOptions& how) {
  auto losses = measure_losses(graph, weights_in(graph), how);
  EXPECT_TRUE(losses.ok()) << (losses.ok() ? "" : losses.error().first().message);
  return losses.ok() ? *std::move(losses) : std::vector<Losses>();
}

TEST(ProductsOf, ListsLayersInOrderAndTheHead) {
  const ir::Graph graph = graph_of(kSmallModel);
  const std::vector<Product> products = products_of(graph);
  ASSERT_EQ(products.size(), 5u);
  EXPECT_EQ(products[0].weight->describe(), "random(2, 0.02)");
  EXPECT_EQ(products[1].weight->describe(), "random(4, 0.3)");
  EXPECT_EQ(products[2].iteration, 1);
  EXPECT_EQ(products[4].iteration, -1);
  EXPECT_EQ(std::get<ir::Linear>(node_of(graph, products[4]).op).role, ir::WeightRole::kHead);
  EXPECT_EQ(std::get<ir::Linear>(node_of(graph, products[2]).op).function, ir::ActivationFn::kRelu);
}

TEST(ProductsOf, AMatrixOfAllLayersIsListedForEach) {
  std::string text = kSmallModel;
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  replace(R"(,
      ["w3" f32[64, 96] random(4, 0.3), "w4" f32[64, 96] random(5, 0.3)])",
          "");
  replace("%w1 = parameter {index = 1} : f32[64, 96]", "%w1 = constant f32[64, 96] random(4, 0.3)");
  const ir::Graph graph = graph_of(text);
  const std::vector<Product> products = products_of(graph);
  ASSERT_EQ(products.size(), 5u);
  EXPECT_EQ(products[1].weight->describe(), "random(4, 0.3)");
  EXPECT_EQ(products[1].weight, products[3].weight);
  EXPECT_EQ(products[1].iteration, 0);
  EXPECT_EQ(products[3].iteration, 1);
}

/// Divergences in double from the interpreter, with a matrix of the text replaced by its rounding.
TEST(MeasureLosses, AreDivergencesOfTheModelWithOneRoundedMatrix) {
  // The same model by hand: the matrices are inputs, and all tokens have logits.
  const char* unrolled = R"(
graph @model(%input_ids: i64[seq] {kind = token_ids}, %w1: f32[96, 64], %w3: f32[64, 96], %w2: f32[96, 64],
    %w4: f32[64, 96], %head: f32[50, 64]) {
  %table = constant f32[50, 64] random(1, 1)
  %h = embedding %input_ids, %table : f32[seq, 64]
  %norm = constant f32[64] splat(1)
  %g = linear %h, %w1, _, %norm {fn = relu, norm_epsilon = 1e-05} : f32[seq, 96]
  %d = linear %g, %w3, _, _, %h : f32[seq, 64]
  %g2 = linear %d, %w2, _, %norm {fn = relu, norm_epsilon = 1e-05} : f32[seq, 96]
  %d2 = linear %g2, %w4, _, _, %d : f32[seq, 64]
  %logits = linear %d2, %head : f32[seq, 50]
  return %logits
})";
  const ir::Graph graph = graph_of(kSmallModel);
  const std::vector<ir::ConstantPtr> matrices = weights_in(graph);
  const MeasureOptions how = short_text();
  const std::vector<Losses> losses = losses_of(graph, how);
  ASSERT_EQ(losses.size(), matrices.size());
  reference::Interpreter interpreter(graph_of(unrolled));
  const auto logits = [&](const std::vector<std::int32_t>& window, std::size_t rounded) {
    std::vector<Tensor> given{reference::i64_tensor({static_cast<std::int64_t>(window.size())},
                                                    {window.begin(), window.end()})};
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      std::vector<float> values = ir::to_floats(*matrices[m]);
      const auto columns = static_cast<std::size_t>(matrices[m]->dims()[1]);
      for (std::size_t at = 0; m == rounded && at < values.size(); at += columns)
        EXPECT_TRUE(
            round_rows(WeightKind::kQ4, std::span(values).subspan(at, columns), columns).ok());
      given.push_back(reference::f32_tensor(matrices[m]->dims(), std::move(values)));
    }
    auto results = interpreter.evaluate(given);
    EXPECT_TRUE(results.ok());
    return (*results)[0].floats;
  };
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    double sum = 0, tokens = 0;
    for (const auto& window : how.windows) {
      const std::vector<float> p = logits(window, matrices.size()), q = logits(window, m);
      for (std::size_t row = 0; row < p.size(); row += 50, ++tokens) {
        double all_p = 0, all_q = 0;
        for (std::size_t i = row; i < row + 50; ++i) {
          all_p += std::exp(p[i]);
          all_q += std::exp(q[i]);
        }
        for (std::size_t i = row; i < row + 50; ++i)
          sum += std::exp(p[i]) / all_p * (p[i] - std::log(all_p) - q[i] + std::log(all_q));
      }
    }
    EXPECT_NEAR(losses[m][0], sum / tokens, 1e-6 + 1e-3 * sum / tokens) << m;
    EXPECT_GT(losses[m][0], 0) << m;
    EXPECT_LT(losses[m][1], losses[m][0] / 5) << "q6";
    EXPECT_LT(losses[m][2], losses[m][1] / 5) << "q8";
  }
}

TEST(MeasureLosses, DoNotDependOnThreadsAndGroups) {
  const ir::Graph graph = graph_of(kSmallModel);
  MeasureOptions few = short_text(2);
  few.logits_bytes = 3 * 29 * 50 * 4;  // of the model and two others
  EXPECT_EQ(losses_of(graph, short_text()), losses_of(graph, few));
}

TEST(MeasureLosses, AMatrixWithMoreInfluenceGetsMoreBits) {
  const ir::Graph graph = graph_of(kSmallModel);
  const std::vector<Losses> losses = losses_of(graph, short_text());
  ASSERT_EQ(losses.size(), 5u);
  // The first matrix of each layer is as large, but what the first one makes is small.
  EXPECT_LT(10 * losses[0][0], losses[2][0]);
  std::vector<ChoiceUnit> units;
  for (const std::size_t m : {0u, 2u}) units.push_back({{3456, 4992, 6528}, losses[m]});
  EXPECT_THAT(least_loss(units, 3456 + 4992), testing::ElementsAre(0, 1));
}

TEST(MeasureDivergence, OfAllMatricesIsAboutTheSumOfTheirLosses) {
  const ir::Graph graph = graph_of(kSmallModel);
  const std::vector<ir::ConstantPtr> matrices = weights_in(graph);
  Rounded rounded;
  for (const auto& matrix : matrices) rounded[matrix.get()] = ir::WeightFormat::kQ4;
  double sum = 0;
  for (const Losses& loss : losses_of(graph, short_text())) sum += loss[0];
  const auto all = measure_divergence(graph, rounded, short_text());
  ASSERT_TRUE(all.ok());
  EXPECT_GT(*all, 0.5 * sum);
  EXPECT_LT(*all, 2 * sum);
  EXPECT_EQ(*measure_divergence(graph, {}, short_text()), 0);
}

TEST(MeasureLosses, RefusesValuesThatAreNotFinite) {
  std::string text = kSmallModel;
  text.replace(text.find("splat(1)"), 8, "splat(inf)");
  const ir::Graph graph = graph_of(text);
  const auto losses = measure_losses(graph, weights_in(graph), short_text());
  ASSERT_FALSE(losses.ok());
  EXPECT_EQ(losses.error().first().kind, ErrorKind::kBadInput);
}

}  // namespace
}  // namespace llmc::calibrate
