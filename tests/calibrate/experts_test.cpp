// Matrices of experts, each of which has inputs of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compiler/calibrate/calibrate.h"
#include "compiler/calibrate/rounding.h"
#include "compiler/calibrate/sensitivity.h"
#include "compiler/quant/feedback.h"
#include "compiler/reference/interpreter.h"
#include "tests/calibrate/parsed.h"

namespace llmc::calibrate {
namespace {

using reference::Tensor;

constexpr std::size_t kExperts = 4, kUsed = 2, kVocabulary = 50;

/// Replaces each `$` by `by`.
std::string numbered(std::string text, const std::string& by) {
  for (std::size_t at; (at = text.find('$')) != text.npos;) text.replace(at, 1, by);
  return text;
}

/// Two layers in which the router chooses 2 of 4 experts for each token, but never the last one.
/// Inputs of the experts have rank 24. `matrices` declares the matrices of layer $, `returned` are
/// the results.
std::string model(const std::string& inputs, const std::string& matrices,
                  const std::string& returned) {
  const char* layer = R"(
  %router$ = constant f32[4, 64] random(2$, 0.2)
  %scores$ = linear %x$, %router$, %never : f32[seq, 4]
  %weights$ = softmax %scores$ {axis = -1} : f32[seq, 4]
  %chosen$, %ids$ = top_k %weights$, %two {axis = -1} : f32[seq, 2], i64[seq, 2]
  %column$ = reshape %x$, %one_row : f32[seq, 1, 64]
  %rows$ = tile %column$, %copies : f32[seq, 2, 64]
  MATRICES
  %up$ = expert_linear %rows$, %w$, %ids$ {experts = 4, role = up, format = q4} : f32[seq, 2, 32]
  %act$ = tanh %up$ : f32[seq, 2, 32]
  %down$ = expert_linear %act$, %v$, %ids$ {experts = 4, role = down, format = q6} : f32[seq, 2, 64]
  %factors$ = reshape %chosen$, %one_column : f32[seq, 2, 1]
  %scaled$ = mul %down$, %factors$ : f32[seq, 2, 64]
  %sum$ = reduce_sum %scaled$ {axes = [1], keep_dims = false} : f32[seq, 64]
)";
  std::string text = "graph @model(%input_ids: i64[seq] {kind = token_ids}" + inputs + R"() {
  %table = constant f32[50, 24] random(1, 1)
  %short = embedding %input_ids, %table : f32[seq, 24]
  %wide = constant f32[64, 24] random(2, 0.3)
  %x1 = linear %short, %wide : f32[seq, 64]
  %never = constant f32[4] {0, 0, 0, -1000}
  %two = constant i64[1] {2}
  %one_row = constant i64[3] {-1, 1, 64}
  %copies = constant i64[3] {1, 2, 1}
  %one_column = constant i64[3] {-1, 2, 1}
)" + numbered(layer, "1") +
                     "  %x2 = add %x1, %sum1 : f32[seq, 64]\n" + numbered(layer, "2") + R"(
  %head = constant f32[50, 64] random(9, 0.2)
  %logits = linear %sum2, %head {role = head} : f32[seq, 50]
  return )" + returned +
                     "\n}";
  for (const char* number : {"1", "2"})
    text.replace(text.find("MATRICES"), 8, numbered(matrices, number));
  return text;
}
ir::Graph own_model() {
  return parsed(model("", R"(%w$ = constant f32[128, 64] random(3$, 0.3)
  %v$ = constant f32[256, 32] random(4$, 0.3))",
                      "%logits"));
}

std::vector<std::vector<std::int32_t>> routed_windows() {
  return made_up_windows(18, 20, 5, kVocabulary);  // more windows than are in memory at a time
}

Matrices calibrated_experts(const ir::Graph& graph, std::size_t threads = 1) {
  return calibrated_for(graph, routed_windows(), threads);
}

/// The model with its matrices as inputs. Returns the rows of all experts of the matrices in order,
/// their ids, and the logits.
class Oracle {
 public:
  Oracle()
      : interpreter_(parsed(model(", %w1: f32[128, 64], %v1: f32[256, 32], %w2: f32[128, 64], "
                                  "%v2: f32[256, 32]",
                                  "", "%rows1, %act1, %rows2, %act2, %ids1, %ids2, %logits"))) {}
  std::vector<Tensor> run(const std::vector<std::int32_t>& window,
                          const std::vector<std::vector<float>>& matrices) {
    std::vector<Tensor> given{reference::i64_tensor({static_cast<std::int64_t>(window.size())},
                                                    {window.begin(), window.end()})};
    for (std::size_t m = 0; m < 4; ++m)
      given.push_back(reference::f32_tensor(
          m % 2 == 0 ? std::vector<std::int64_t>{128, 64} : std::vector<std::int64_t>{256, 32},
          matrices[m]));
    auto results = interpreter_.evaluate(given);
    EXPECT_TRUE(results.ok()) << (results.ok() ? "" : results.error().first().message);
    return results.ok() ? *std::move(results) : std::vector<Tensor>(7);
  }

 private:
  reference::Interpreter interpreter_;
};

/// Rows of one expert: inputs in the model and after rounding; without a row of the same expert in
/// the same place of the model, that after rounding.
struct Rows {
  std::vector<float> exact, rounded;
};

class CalibrateExperts : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const RoundedMatrix& matrix : matrices_of(graph_)) {
      constants_.push_back(matrix);
      exact_.push_back(ir::to_floats(*matrix.data));
    }
    ASSERT_EQ(constants_.size(), 4u);
    matrices_ = calibrated_experts(graph_);
    ASSERT_EQ(matrices_.size(), 4u);
    for (const RoundedMatrix& matrix : constants_)
      rounded_.push_back(decoded(*matrices_.at(matrix.data.get())));
    for (std::size_t m = 0; m < 4; ++m) rows_.emplace_back(kExperts);
    Oracle oracle;
    for (const auto& window : routed_windows()) {
      const auto exact = oracle.run(window, exact_), rounded = oracle.run(window, rounded_);
      for (std::size_t m = 0; m < 4; ++m) {
        const auto &ids = rounded[4 + m / 2].integers, &before = exact[4 + m / 2].integers;
        const std::size_t k = columns(m);
        for (std::size_t row = 0; row < ids.size(); ++row) {
          const auto part = [&](const Tensor& tensor) {
            return std::span(tensor.floats).subspan(row * k, k);
          };
          moved_ += ids[row] != before[row] ? 1 : 0;
          Rows& of = rows_[m][static_cast<std::size_t>(ids[row])];
          const auto given = part(rounded[m]),
                     own = ids[row] == before[row] ? part(exact[m]) : given;
          of.rounded.insert(of.rounded.end(), given.begin(), given.end());
          of.exact.insert(of.exact.end(), own.begin(), own.end());
        }
      }
    }
  }

  std::size_t columns(std::size_t m) const {
    return static_cast<std::size_t>(constants_[m].data->dims()[1]);
  }
  /// Returns the weights of an expert.
  std::vector<float> block(const std::vector<float>& matrix, std::size_t expert) const {
    const std::size_t size = matrix.size() / kExperts;
    const auto first = matrix.begin() + static_cast<std::ptrdiff_t>(expert * size);
    return {first, first + static_cast<std::ptrdiff_t>(size)};
  }
  /// Returns the squared error of products of rows with an expert's rounded weights.
  double error(const std::vector<float>& x, std::size_t m, std::size_t expert,
               std::vector<float> weights) const {
    const std::vector<float> own = block(exact_[m], expert);
    for (std::size_t i = 0; i < own.size(); ++i) weights[i] -= own[i];
    double sum = 0;
    for (std::size_t t = 0; t < x.size(); t += columns(m))
      for (std::size_t r = 0; r < weights.size(); r += columns(m)) {
        double y = 0;
        for (std::size_t k = 0; k < columns(m); ++k) y += double{x[t + k]} * double{weights[r + k]};
        sum += y * y;
      }
    return sum;
  }
  std::vector<float> rounded_alone(std::size_t m, std::size_t expert) const {
    std::vector<float> weights = block(exact_[m], expert);
    EXPECT_TRUE(round_rows(constants_[m].kind, weights, columns(m)).ok());
    return weights;
  }
  /// Returns the rows of all experts of a matrix after rounding.
  std::vector<float> all_rows(std::size_t m) const {
    std::vector<float> all;
    for (const Rows& rows : rows_[m])
      all.insert(all.end(), rows.rounded.begin(), rows.rounded.end());
    return all;
  }

  const ir::Graph graph_ = own_model();
  std::vector<RoundedMatrix> constants_;
  Matrices matrices_;
  std::vector<std::vector<float>> exact_, rounded_;  // by matrix
  std::vector<std::vector<Rows>> rows_;              // by matrix and expert
  std::size_t moved_ = 0;                            // rows to which rounding gave another expert
};

TEST_F(CalibrateExperts, AreListedWithTheirFormats) {
  EXPECT_EQ(constants_[0].data->describe(), "random(31, 0.3)");
  EXPECT_EQ(constants_[0].kind, WeightKind::kQ4);
  EXPECT_EQ(constants_[3].data->describe(), "random(42, 0.3)");
  EXPECT_EQ(constants_[3].kind, coded_weight(kSixBits));
}

TEST_F(CalibrateExperts, AreRoundedForTheInputsOfEachExpertAndPartlyForThoseOfAll) {
  EXPECT_GT(moved_, 0u) << "the router of the second layer reads rounded results";
  WorkerPool pool(1);
  for (std::size_t m = 0; m < 4; ++m) {
    quant::Moments all(columns(m));
    all.add(all_rows(m), pool);
    for (std::size_t expert = 0; expert < kExperts; ++expert) {
      const Rows& rows = rows_[m][expert];
      EXPECT_EQ(rows.rounded.empty(), expert == 3);
      quant::Moments moments(columns(m));
      moments.add(rows.rounded, rows.exact, pool);
      moments.add_scaled(
          all, kSharedRows * static_cast<double>(columns(m)) / static_cast<double>(all.rows()));
      const std::vector<float> own = block(exact_[m], expert);
      const std::size_t count = own.size() / columns(m);
      quant::EncodedMatrix encoded(constants_[m].kind, count, columns(m));
      quant::Feedback(moments, 0.1, pool).encode(encoded.kind(), own, encoded.panels(0, count));
      const std::vector<float> expected = decoded(encoded), found = block(rounded_[m], expert);
      // Sums in another order differ in the last bits, so the codes of a few weights may differ.
      std::size_t different = 0;
      for (std::size_t i = 0; i < found.size(); ++i) different += found[i] == expected[i] ? 0 : 1;
      EXPECT_LT(different, found.size() / 20) << m << ", expert " << expert;
    }
  }
}

/// What calibration is for, of each expert: the error of its own products falls.
TEST_F(CalibrateExperts, ErrorsOfEachExpertsProductsFall) {
  for (const std::size_t m : {0u, 1u}) {
    for (std::size_t expert = 0; expert < kExperts; ++expert) {
      const std::vector<float> x = expert < 3 ? rows_[m][expert].rounded : all_rows(m);
      EXPECT_LT(error(x, m, expert, block(rounded_[m], expert)),
                (m == 0 ? 0.6 : 0.9) * error(x, m, expert, rounded_alone(m, expert)))
          << m << ", expert " << expert;
    }
  }
}

TEST_F(CalibrateExperts, AreTheSameForAnyNumberOfThreads) {
  const Matrices two = calibrated_experts(graph_, 2), five = calibrated_experts(graph_, 5);
  for (const auto& [constant, matrix] : matrices_) {
    EXPECT_THAT(matrix->bytes(), testing::ElementsAreArray(two.at(constant)->bytes()));
    EXPECT_THAT(matrix->bytes(), testing::ElementsAreArray(five.at(constant)->bytes()));
  }
}

TEST_F(CalibrateExperts, HaveTheSameBitsOnEveryHost) {
  unsigned hash = 2166136261u;
  for (const RoundedMatrix& matrix : constants_)
    for (const std::byte byte : matrices_.at(matrix.data.get())->bytes())
      hash = (hash ^ static_cast<unsigned>(byte)) * 16777619u;
  EXPECT_EQ(hash, 601361488u);
}

TEST_F(CalibrateExperts, LossesAreMeasuredForTheMatrixOfAllExperts) {
  MeasureOptions how;
  how.windows = routed_windows();
  how.threads = 1;
  std::vector<ir::ConstantPtr> weights;
  for (const RoundedMatrix& matrix : constants_) weights.push_back(matrix.data);
  const auto losses = measure_losses(graph_, weights, how);
  ASSERT_TRUE(losses.ok()) << losses.error().first().message;
  how.threads = 3;
  EXPECT_EQ(*losses, *measure_losses(graph_, weights, how));
  Oracle oracle;
  for (std::size_t m = 0; m < 4; ++m) {
    std::vector<std::vector<float>> matrices = exact_;
    ASSERT_TRUE(round_rows(WeightKind::kQ4, matrices[m], columns(m)).ok());
    double sum = 0, tokens = 0;
    for (const auto& window : how.windows) {
      const std::vector<float> p = oracle.run(window, exact_)[6].floats,
                               q = oracle.run(window, matrices)[6].floats;
      for (std::size_t row = 0; row < p.size(); row += kVocabulary, ++tokens) {
        double all_p = 0, all_q = 0;
        for (std::size_t i = row; i < row + kVocabulary; ++i) {
          all_p += std::exp(double{p[i]});
          all_q += std::exp(double{q[i]});
        }
        for (std::size_t i = row; i < row + kVocabulary; ++i)
          sum += std::exp(double{p[i]}) / all_p *
                 (double{p[i]} - std::log(all_p) - double{q[i]} + std::log(all_q));
      }
    }
    const Losses& loss = (*losses)[m];
    EXPECT_NEAR(loss[0], sum / tokens, 1e-6 + 1e-3 * sum / tokens) << m;
    EXPECT_GT(loss[0], 0) << m;
    EXPECT_LT(loss[1], loss[0] / 5) << "q6";
    EXPECT_LT(loss[2], loss[1] / 5) << "q8";
  }
}

}  // namespace
}  // namespace llmc::calibrate
