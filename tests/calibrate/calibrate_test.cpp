#include "compiler/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/calibrate/rounding.h"
#include "compiler/calibrate/run_product.h"
#include "compiler/calibrate/window_inputs.h"
#include "compiler/quant/feedback.h"
#include "compiler/reference/interpreter.h"
#include "tests/calibrate/parsed.h"

namespace llmc::calibrate {
namespace {

using reference::Tensor;

/// Two layers in a loop, each with a gated MLP in q4, whose down projection is in q8, and a head in
/// q6. The residual is what the next matrix of the layer reads with its norm.
constexpr const char* kModel = R"(
graph @model(%input_ids: i64[seq] {kind = token_ids}, %past.0: f32[2, 1, past, 1, 64] {kind = attention_cache}, %past.1: f32[2, 1, past, 1, 64] {kind = attention_cache, layer = 1}) {
  %table = constant f32[50, 64] random(1, 1)
  %x = embedding %input_ids, %table {format = q4} : f32[seq, 64]
  %shape = constant i64[3] {1, -1, 64}
  %rows = reshape %x, %shape : f32[1, seq, 64]
  %y, %present.0, %present.1 = loop %rows, %past.0, %past.1 {count = 2, carried = 1, per_iteration_inputs = 1, per_iteration_outputs = 1}
    parameters [
      ["w1" f32[192, 64] random(2, 0.5), "w2" f32[192, 64] random(3, 0.5)],
      ["w3" f32[192, 64] random(4, 0.5), "w4" f32[192, 64] random(5, 0.5)],
      ["w5" f32[64, 96] random(6, 0.5), "w6" f32[64, 96] random(7, 0.5)]
    ]
    body @layer(%h: f32[1, seq, 64], %past: f32[2, 1, past, 1, 64]) {
      %w0 = parameter {index = 0} : f32[192, 64]
      %norm = constant f32[64] random(8, 2)
      %q, %k, %v = qkv_projection %h, %w0, _, %norm {heads = 1, kv_heads = 1, head_dim = 64, norm_epsilon = 1e-05, format = q4} : f32[1, seq, 1, 64], f32[1, seq, 1, 64], f32[1, seq, 1, 64]
      %a, %present = attention %q, %k, %v, %past {heads = 1, kv_heads = 1, head_dim = 64, scale = 0.125} : f32[1, seq, 64], f32[2, 1, past + seq, 1, 64]
      %w1 = parameter {index = 1} : f32[192, 64]
      %g = linear %a, %w1 {fn = silu, gated = true, format = q4} : f32[1, seq, 96]
      %w2 = parameter {index = 2} : f32[64, 96]
      %d = linear %g, %w2, _, _, %h {format = q8} : f32[1, seq, 64]
      return %d, %present
    } : f32[1, seq, 64], f32[2, 1, past + seq, 1, 64], f32[2, 1, past + seq, 1, 64]
  %head = constant f32[50, 64] random(9, 1)
  %logits = linear %y, %head {role = head, format = q6} : f32[1, seq, 50]
  return %logits, %present.0, %present.1
})";

std::vector<std::vector<std::int32_t>> windows() {
  return made_up_windows(5, 40, 9, 50);
}

Matrices calibrated(const ir::Graph& graph, std::size_t threads = 1) {
  return calibrated_for(graph, windows(), threads);
}

TEST(Calibrate, ListsTheMatricesOfAllLayersInOrder) {
  const std::vector<RoundedMatrix> found = matrices_of(parsed(kModel));
  ASSERT_EQ(found.size(), 7u);
  EXPECT_EQ(found[0].data->describe(), "random(2, 0.5)");
  EXPECT_EQ(found[0].kind, WeightKind::kQ4);
  EXPECT_EQ(found[2].data->describe(), "random(6, 0.5)");
  EXPECT_EQ(found[5].data->describe(), "random(7, 0.5)");
  EXPECT_EQ(found[5].kind, WeightKind::kQ8);
  EXPECT_EQ(found[6].data->describe(), "random(9, 1)");
  EXPECT_EQ(found[6].kind, coded_weight(kSixBits));
}

/// The inputs of a matrix are those of the model in which the matrices before it are rounded.
TEST(Calibrate, MatricesAreRoundedForTheInputsAfterRoundedOnes) {
  const ir::Graph graph = parsed(kModel);
  const std::vector<RoundedMatrix> constants = matrices_of(graph);
  const Matrices matrices = calibrated(graph);
  ASSERT_EQ(matrices.size(), constants.size());

  // The same model, unrolled by hand, in the interpreter: the layers' matrices are those of
  // `matrices`, and the values in front of each matrix are returned.
  const char* unrolled = R"(
graph @model(%input_ids: i64[seq] {kind = token_ids}, %past.0: f32[2, 1, 0, 1, 64] {kind = attention_cache},
    %a0: f32[192, 64], %a1: f32[192, 64], %a2: f32[64, 96],
    %b0: f32[192, 64], %b1: f32[192, 64], %b2: f32[64, 96], %head: f32[50, 64]) {
  %table = constant f32[50, 64] random(1, 1)
  %x = embedding %input_ids, %table : f32[seq, 64]
  %shape = constant i64[3] {1, -1, 64}
  %h = reshape %x, %shape : f32[1, seq, 64]
  %norm = constant f32[64] random(8, 2)
  %n = rms_norm %h, %norm {epsilon = 1e-05} : f32[1, seq, 64]
  %q, %k, %v = qkv_projection %n, %a0 {heads = 1, kv_heads = 1, head_dim = 64} : f32[1, seq, 1, 64], f32[1, seq, 1, 64], f32[1, seq, 1, 64]
  %a, %present = attention %q, %k, %v, %past.0 {heads = 1, kv_heads = 1, head_dim = 64, scale = 0.125} : f32[1, seq, 64], f32[2, 1, seq, 1, 64]
  %g = linear %a, %a1 {fn = silu, gated = true} : f32[1, seq, 96]
  %d = linear %g, %a2, _, _, %h : f32[1, seq, 64]
  %n2 = rms_norm %d, %norm {epsilon = 1e-05} : f32[1, seq, 64]
  %q2, %k2, %v2 = qkv_projection %n2, %b0 {heads = 1, kv_heads = 1, head_dim = 64} : f32[1, seq, 1, 64], f32[1, seq, 1, 64], f32[1, seq, 1, 64]
  %o, %present2 = attention %q2, %k2, %v2, %past.0 {heads = 1, kv_heads = 1, head_dim = 64, scale = 0.125} : f32[1, seq, 64], f32[2, 1, seq, 1, 64]
  %g2 = linear %o, %b1 {fn = silu, gated = true} : f32[1, seq, 96]
  %d2 = linear %g2, %b2, _, _, %d : f32[1, seq, 64]
  return %n, %a, %g, %n2, %o, %g2, %d2
})";
  reference::Interpreter interpreter(parsed(unrolled));
  using Inputs = std::vector<std::vector<float>>;
  const auto inputs_with = [&](bool rounded) {
    Inputs inputs(constants.size());
    for (const auto& window : windows()) {
      std::vector<Tensor> given{reference::i64_tensor({static_cast<std::int64_t>(window.size())},
                                                      {window.begin(), window.end()}),
                                reference::zeros(ir::ElementType::kF32, {2, 1, 0, 1, 64})};
      for (const auto& [constant, kind] : constants)
        given.push_back(
            reference::f32_tensor(constant->dims(), rounded ? decoded(*matrices.at(constant.get()))
                                                            : ir::to_floats(*constant)));
      const auto values = interpreter.evaluate(given);
      EXPECT_TRUE(values.ok()) << values.error().first().message;
      for (std::size_t i = 0; values.ok() && i < inputs.size(); ++i)
        inputs[i].insert(inputs[i].end(), (*values)[i].floats.begin(), (*values)[i].floats.end());
    }
    return inputs;
  };
  const Inputs exact = inputs_with(false), inputs = inputs_with(true);
  // Sums in another order differ in the last bits, so the codes of a few weights may differ.
  WorkerPool pool(1);
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const auto& [constant, kind] = constants[i];
    const auto rows = static_cast<std::size_t>(constant->dims()[0]);
    const auto columns = static_cast<std::size_t>(constant->dims()[1]);
    quant::Moments moments(columns);
    moments.add(inputs[i], exact[i], pool);
    quant::EncodedMatrix expected(kind, rows, columns);
    quant::Feedback(moments, 0.1, pool)
        .encode(kind, ir::to_floats(*constant), expected.panels(0, rows));
    const std::vector<float> own = decoded(*matrices.at(constant.get())),
                             wanted = decoded(expected);
    std::size_t different = 0;
    for (std::size_t k = 0; k < own.size(); ++k) different += own[k] == wanted[k] ? 0 : 1;
    EXPECT_LT(different, own.size() / 20) << i;
  }
}

TEST(Calibrate, IsTheSameForAnyNumberOfThreads) {
  const ir::Graph graph = parsed(kModel);
  const Matrices one = calibrated(graph, 1), two = calibrated(graph, 2);
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [constant, matrix] : one)
    EXPECT_THAT(matrix->bytes(), testing::ElementsAreArray(two.at(constant)->bytes()));
}

/// The head of a decoder reads the last row alone; it is calibrated for all of them.
TEST(Calibrate, HeadsAreRoundedForTheInputsOfAllTokens) {
  std::string text = kModel;
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("  %logits = linear %y, %head {role = head, format = q6} : f32[1, seq, 50]", R"(
  %index = constant i64[] {-1}
  %last = gather %y, %index {axis = 1} : f32[1, 64]
  %dims = constant i64[3] {1, 1, 64}
  %row = reshape %last, %dims : f32[1, 1, 64]
  %logits = linear %row, %head {role = head, format = q6} : f32[1, 1, 50])");
  const ir::Graph all = parsed(kModel), last = parsed(text);
  const Matrices of_all = calibrated(all), of_last = calibrated(last);
  const auto bytes = [](const ir::Graph& graph, const Matrices& matrices) {
    return matrices.at(matrices_of(graph).back().data.get())->bytes();
  };
  ASSERT_EQ(of_last.size(), of_all.size());
  EXPECT_THAT(bytes(last, of_last), testing::ElementsAreArray(bytes(all, of_all)));
}

TEST(Calibrate, RefusesValuesThatAreNotFinite) {
  std::string text = kModel;
  const std::string norm = "random(8, 2)";
  text.replace(text.find(norm), norm.size(), "splat(inf)");
  Options options;
  options.windows = windows();
  const auto matrices = calibrate(parsed(text), options);
  ASSERT_FALSE(matrices.ok());
  EXPECT_EQ(matrices.error().first().kind, ErrorKind::kBadInput);
  EXPECT_THAT(matrices.error().first().message, testing::HasSubstr("not finite"));
}

TEST(Calibrate, RefusesInputsThatADecoderDoesNotHave) {
  std::string text = kModel;
  const std::string past = "%past.1: f32[2, 1, past, 1, 64] {kind = attention_cache, layer = 1}";
  text.replace(text.find(past), past.size(), "%other : f32[2, 1, past, 1, 64]");
  const std::size_t use = text.find("%past.1 {count");
  text.replace(use, 7, "%other ");
  Options options;
  options.windows = windows();
  const auto matrices = calibrate(parsed(text), options);
  ASSERT_FALSE(matrices.ok());
  EXPECT_EQ(matrices.error().first().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(matrices.error().first().message, testing::HasSubstr("other"));
}

TEST(Calibrate, LeavesQuantizedAndOtherMatricesAlone) {
  std::string text = kModel;
  for (std::size_t at; (at = text.find("format = q4} : f32[1, seq, 96]")) != text.npos;)
    text.replace(at, 11, "format = f16");
  EXPECT_EQ(matrices_of(parsed(text)).size(), 5u);
}

/// Counts operands that exist after the product that reads them last.
class LateOperands final : public Products {
 public:
  LateOperands(std::size_t windows, WorkerPool& pool) : windows_(windows), pool_(pool) {}

  bool wants(const ir::Node&, const ir::Constant&) const override { return false; }
  Result<std::vector<Values>> run(const ir::Node& node, const ir::ConstantPtr& weight,
                                  std::vector<Values> operands) override {
    std::vector<std::weak_ptr<const Tensor>> read;
    // The down projection adds the operand of query, key and value.
    if (!std::holds_alternative<ir::QkvProjection>(node.op))
      read.assign(operands[0].begin(), operands[0].end());
    std::vector<WindowVersion> runs;
    for (std::size_t window = 0; window < windows_; ++window) runs.push_back({window, 0});
    LLMC_TRY(auto results,
             run_product(
                 node, static_cast<std::size_t>(weight->dims()[1]), operands, windows_, runs,
                 [&](std::size_t block) -> Result<std::vector<std::vector<float>>> {
                   LLMC_TRY(auto matrix,
                            read_transposed(*weight, {block, 1}, ir::WeightFormat::kUnset, pool_));
                   std::vector<std::vector<float>> versions;
                   versions.push_back(std::move(matrix));
                   return versions;
                 },
                 pool_));
    watched_ += read.size();
    for (const auto& operand : read) late_ += operand.expired() ? 0 : 1;
    return results;
  }

  std::size_t watched() const { return watched_; }
  std::size_t late() const { return late_; }

 private:
  const std::size_t windows_;
  WorkerPool& pool_;
  std::size_t watched_ = 0, late_ = 0;
};

TEST(Stream, OperandsAreReleasedByTheProductThatReadsThemLast) {
  const ir::Graph graph = parsed(kModel);
  const std::size_t count = windows().size();
  auto inputs = window_inputs(graph, windows(), 1);
  ASSERT_TRUE(inputs.ok());
  WorkerPool pool(2);
  LateOperands products(count, pool);
  ASSERT_TRUE(stream(graph, *std::move(inputs), count, products, pool, true).ok());
  EXPECT_EQ(products.watched(), (2 * 2 + 1) * count) << "two products of two layers, and the head";
  EXPECT_EQ(products.late(), 0u);
}

}  // namespace
}  // namespace llmc::calibrate
