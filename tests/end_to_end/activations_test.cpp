// What int8 activations alone cost: models with float weights whose products read rounded inputs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/calibrate/all_logits.h"
#include "compiler/calibrate/rounding.h"
#include "compiler/calibrate/run_product.h"
#include "compiler/calibrate/window_inputs.h"
#include "compiler/driver/compile.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/file.h"
#include "runtime/hosted/tokenizer.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

using calibrate::Values;

/// Rounds a row as kernels do (llmc/kernels/quantize.h): 8 bits and a scale for 256 elements.
void round_row(std::span<float> row) {
  constexpr std::size_t kSuperblock = 256;
  for (std::size_t at = 0; at < row.size(); at += kSuperblock) {
    const auto part = row.subspan(at, std::min(kSuperblock, row.size() - at));
    float largest = 0;
    for (const float x : part) largest = std::max(largest, std::fabs(x));
    if (largest == 0) continue;
    for (float& x : part) x = std::nearbyint(x * (127 / largest)) * (largest / 127);
  }
}

/// Runs every window twice: the first half of the windows is that of the model, the products of the
/// second half read rounded inputs.
class IntegerInputs final : public calibrate::Products {
 public:
  IntegerInputs(std::size_t windows, WorkerPool& pool) : windows_(windows), pool_(pool) {}

  bool wants(const ir::Node&, const ir::Constant&) const override { return false; }
  Result<std::vector<Values>> run(const ir::Node& node, const ir::ConstantPtr& weight,
                                  std::vector<Values> operands) override {
    ++products_;
    const auto columns = static_cast<std::size_t>(weight->dims()[1]);
    LLMC_TRY(const std::vector<float> matrix,
             calibrate::read_transposed(*weight, {}, ir::WeightFormat::kUnset, pool_));
    std::vector<Values> results(node.outputs.size(), Values(2 * windows_));
    LLMC_RETURN_IF_ERROR(pool_.run(2 * windows_, [&](std::size_t window) -> Status {
      reference::InterpreterOptions how;
      how.product = [&](std::size_t, std::span<const float> x, std::span<float> y) {
        std::vector<float> rows(x.begin(), x.end());
        if (window >= windows_)
          for (std::size_t at = 0; at < rows.size(); at += columns)
            round_row(std::span(rows).subspan(at, columns));
        calibrate::multiply(rows, matrix, columns, y);
      };
      LLMC_TRY(auto made,
               reference::evaluate_node(node, calibrate::operands_of(operands, window), how));
      for (std::size_t r = 0; r < results.size(); ++r)
        results[r][window] = std::make_shared<reference::Tensor>(std::move(made[r]));
      return ok_status();
    }));
    return results;
  }

  std::size_t products() const { return products_; }

 private:
  const std::size_t windows_;
  WorkerPool& pool_;
  std::size_t products_ = 0;
};

/// The sum of p (ln p - ln q) for logits of p and of q.
double divergence(std::span<const float> exact, std::span<const float> other) {
  const auto log_sum = [](std::span<const float> logits) {
    const double largest = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float x : logits) sum += std::exp(x - largest);
    return largest + std::log(sum);
  };
  const double of_exact = log_sum(exact), of_other = log_sum(other);
  double sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    sum += std::exp(exact[i] - of_exact) * ((exact[i] - of_exact) - (other[i] - of_other));
  return sum;
}

/// Checks the mean divergence on the first windows of a text, each of which begins with BOS.
void expect_cost(const std::filesystem::path& model, const std::filesystem::path& text_file,
                 std::size_t layers, double max_divergence) {
  constexpr std::size_t kWindows = 4, kTokens = 256;
  auto options = options_for(model, "generic", {ir::WeightFormat::kQ8});
  ir::Graph stages;
  options.on_stages = [&](const ir::Graph& graph) { stages = graph; };
  const auto plan = driver::plan_model(options);
  ASSERT_TRUE(plan.ok()) << format(plan.error().first());
  const auto tokenizer = hosted::Tokenizer::load(model / "tokenizer.txt");
  const auto text = read_file(text_file);
  ASSERT_TRUE(tokenizer.ok() && text.ok());
  const std::vector<std::int32_t> ids = (*tokenizer)->encode(*text, {.add_prefix = false});
  ASSERT_GE(ids.size(), kWindows * (kTokens - 1));
  std::vector<std::vector<std::int32_t>> windows;
  for (std::size_t w = 0; w < kWindows; ++w) {
    windows.push_back({(*tokenizer)->bos().value()});
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(w * (kTokens - 1));
    windows.back().insert(windows.back().end(), first, first + kTokens - 1);
  }
  const ir::Graph graph = calibrate::with_all_logits(stages);
  auto inputs = calibrate::window_inputs(graph, windows, 2);
  ASSERT_TRUE(inputs.ok());
  WorkerPool pool(0);
  IntegerInputs rounded(kWindows, pool);
  const auto logits =
      calibrate::stream(graph, *std::move(inputs), 2 * kWindows, rounded, pool, true);
  ASSERT_TRUE(logits.ok()) << format(logits.error().first());
  EXPECT_EQ(rounded.products(), 4 * layers + 1) << "every product of the layers and the head";
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t w = 0; w < kWindows; ++w) {
    const reference::Tensor &exact = *(*logits)[w], &other = *(*logits)[kWindows + w];
    const auto width = static_cast<std::size_t>(exact.dims.back());
    for (std::size_t at = 0; at < exact.floats.size(); at += width, ++count)
      sum += divergence(std::span(exact.floats).subspan(at, width),
                        std::span(other.floats).subspan(at, width));
  }
  ASSERT_EQ(count, kWindows * kTokens);
  const double mean = sum / static_cast<double>(count);
  ::testing::Test::RecordProperty("divergence", fmt::format("{:.6f}", mean));
  EXPECT_GT(mean, 0);
  EXPECT_LE(mean, max_divergence);
}

TEST(IntegerActivations, CostTheShippedModelLittle) {
  expect_cost(tinyfable(), tinyfable() / "heldout.txt", 4, 0.00012);  // measured: 0.00009
}

// Without the transform of inputs (decision 16): 0.0047.
TEST(IntegerActivations, CostStories15MLittle) {
  const std::filesystem::path model = shared_folder() / "models/stories15M-split";
  const std::filesystem::path text = shared_folder() / "text/tinystories-30k.txt";
  if (!std::filesystem::exists(model) || !std::filesystem::exists(text))
    GTEST_SKIP() << model << " or " << text << " is not there";
  expect_cost(model, text, 6, 0.0008);  // measured: 0.00061
}

}  // namespace
}  // namespace llmc::tests
