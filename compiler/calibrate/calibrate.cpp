#include "compiler/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/calibrate/all_logits.h"
#include "compiler/calibrate/matrix_products.h"
#include "compiler/calibrate/rounding.h"
#include "compiler/calibrate/stream.h"
#include "compiler/calibrate/window_inputs.h"
#include "compiler/ir/constant_pages.h"
#include "compiler/quant/feedback.h"
#include "compiler/quant/pack.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

using ir::ConstantPtr;
using reference::Tensor;

/// Added to the diagonal of the moments, as a part of its mean.
constexpr double kDamping = 0.1;
/// Number of windows whose inputs of a matrix are in memory at a time.
constexpr std::size_t kWindowsAtOnce = 16;

/// Returns the format of codes that are chosen here; nullopt for others, and for query, key and
/// value rows in different formats.
std::optional<WeightKind> kind_of(const ir::Node& node) {
  ir::WeightFormat format = ir::WeightFormat::kUnset;
  if (const auto* linear = std::get_if<ir::Linear>(&node.op)) {
    format = linear->format;
  } else if (const auto* qkv = std::get_if<ir::QkvProjection>(&node.op)) {
    const ir::WeightFormat value = qkv->value_format;
    if (value == ir::WeightFormat::kUnset || value == qkv->format) format = qkv->format;
  }
  return rounded_kind(format);
}

/// Returns whether the codes of the weight are chosen here.
bool is_encoded(const ir::Node& node, const ir::Constant& weight) {
  if (!kind_of(node) || weight.dims().size() != 2) return false;
  // Codes of the model are preserved.
  return weight.dims()[0] > 0 && weight.dims()[1] > 0 && !ir::has_quantized_rows(weight);
}

/// Encodes each matrix when it is reached. Every window is run twice: the first half of the values
/// are those of the model, the second half those after the rounding of matrices.
class Encoder final : public Products {
 public:
  Encoder(const Options& options, std::uint64_t total, WorkerPool& pool)
      : options_(options), total_(total), pool_(pool) {}

  bool wants(const ir::Node& node, const ir::Constant& weight) const override {
    return !encoded_.contains(&weight) && is_encoded(node, weight);
  }
  Status visit(const ir::Node& node, const ConstantPtr& weight,
               const std::vector<Values>& operands) override {
    return wants(node, *weight) ? encode(node, *weight, operands) : ok_status();
  }
  Result<std::vector<Values>> run(const ir::Node& node, const ConstantPtr& weight,
                                  const std::vector<Values>& operands) override {
    const auto columns = static_cast<std::size_t>(weight->dims()[1]);
    LLMC_TRY(const std::vector<float> own,
             read_transposed(*weight, ir::WeightFormat::kUnset, pool_));
    std::vector<float> rounded;
    if (const auto found = encoded_.find(weight.get()); found != encoded_.end()) {
      const quant::EncodedMatrix& matrix = *found->second;
      const auto read = [&](std::size_t first, std::span<float> values) {
        quant::unpack_panels(matrix.kind(), matrix.panels(first, values.size() / columns), columns,
                             values);
        return ok_status();
      };
      LLMC_TRY(rounded, read_transposed(*weight, pool_, read));
    }
    std::vector<Values> results(node.outputs.size(), Values(2 * options_.windows.size()));
    LLMC_RETURN_IF_ERROR(
        for_windows(operands, 0, 2 * options_.windows.size(),
                    [&](std::size_t window, const auto& given) -> Status {
                      const bool as_model = window < options_.windows.size() || rounded.empty();
                      reference::InterpreterOptions how;
                      how.product = [&](std::span<const float> x, std::span<float> y) {
                        multiply(x, as_model ? own : rounded, columns, y);
                      };
                      LLMC_TRY(auto made, reference::evaluate_node(node, given, how));
                      for (std::size_t i = 0; i < results.size(); ++i)
                        results[i][window] = std::make_shared<Tensor>(std::move(made[i]));
                      return ok_status();
                    }));
    return results;
  }

  Matrices take() { return std::move(encoded_); }

 private:
  /// Calls f(window, operands) for some windows, in parallel.
  template <class F>
  Status for_windows(const std::vector<Values>& operands, std::size_t first, std::size_t count,
                     const F& f) {
    return pool_.run(count, [&](std::size_t i) -> Status {
      std::vector<const Tensor*> given;
      for (const Values& operand : operands) given.push_back(of_window(operand, first + i).get());
      return f(first + i, given);
    });
  }

  Status encode(const ir::Node& node, const ir::Constant& weight,
                const std::vector<Values>& operands) {
    const auto rows = static_cast<std::size_t>(weight.dims()[0]);
    const auto columns = static_cast<std::size_t>(weight.dims()[1]);
    quant::Moments moments(columns);
    const std::size_t windows = options_.windows.size();
    for (std::size_t first = 0; first < windows; first += kWindowsAtOnce) {
      const std::size_t count = std::min(kWindowsAtOnce, windows - first);
      std::vector<Tensor> exact(count), rounded(count);
      LLMC_RETURN_IF_ERROR(
          for_windows(operands, first, count, [&](std::size_t window, const auto& given) -> Status {
            LLMC_TRY(exact[window - first], reference::product_input(node, given));
            return ok_status();
          }));
      LLMC_RETURN_IF_ERROR(for_windows(
          operands, windows + first, count, [&](std::size_t window, const auto& given) -> Status {
            LLMC_TRY(rounded[window - windows - first], reference::product_input(node, given));
            return ok_status();
          }));
      for (std::size_t w = 0; w < count; ++w)
        moments.add(rounded[w].floats, exact[w].floats, pool_);
    }
    if (!moments.finite())
      return Diagnostic{.kind = ErrorKind::kBadInput,
                        .file = node.origin.file,
                        .node = node.origin.node,
                        .message =
                            "the inputs of the matrix are not finite for the calibration's "
                            "text",
                        .hint = "--calibrate none encodes the weights without a text"};
    const quant::Feedback feedback(moments, kDamping, pool_);
    const WeightKind kind = *kind_of(node);
    auto matrix = std::make_shared<quant::EncodedMatrix>(kind, rows, columns);
    const float largest = quant::largest_weight(kind);
    const std::size_t parts = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    const Status done = pool_.run(parts, [&](std::size_t part) -> Status {
      const std::size_t first = part * kRowsAtOnce, count = std::min(kRowsAtOnce, rows - first);
      std::vector<float> values(count * columns);
      weight.read_rows(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count), values);
      for (const float value : values)
        if (!(value <= largest && value >= -largest))
          return Diagnostic{.kind = ErrorKind::kBadInput,
                            .file = node.origin.file,
                            .node = node.origin.node,
                            .message = "a weight is not finite or too large for its format",
                            .hint = "the model's file is damaged, or try --quant=f32"};
      feedback.encode(kind, values, matrix->panels(first, count));
      return ok_status();
    });
    LLMC_RETURN_IF_ERROR(done);
    encoded_[&weight] = std::move(matrix);
    ir::drop_pages(weight);
    done_ += rows * columns;
    if (options_.progress) options_.progress(done_, total_);
    return ok_status();
  }

  const Options& options_;
  const std::uint64_t total_;
  WorkerPool& pool_;
  Matrices encoded_;
  std::uint64_t done_ = 0;
};

}  // namespace

std::vector<RoundedMatrix> matrices_of(const ir::Graph& stages) {
  std::vector<RoundedMatrix> found;
  std::set<const ir::Constant*> seen;
  for (const Product& product : products_of(stages)) {
    const ir::Node& node = node_of(stages, product);
    if (is_encoded(node, *product.weight) && seen.insert(product.weight.get()).second)
      found.push_back({product.weight, *kind_of(node)});
  }
  return found;
}

Result<Matrices> calibrate(const ir::Graph& stages, const Options& options) {
  LLMC_CHECK(!options.windows.empty());
  std::uint64_t total = 0;
  for (const RoundedMatrix& matrix : matrices_of(stages))
    total += static_cast<std::uint64_t>(matrix.data->element_count());
  const ir::Graph graph = with_all_logits(stages);
  LLMC_TRY(std::vector<Values> inputs, window_inputs(graph, options.windows, 2));
  WorkerPool pool(options.threads);
  Encoder encoder(options, total, pool);
  if (options.progress) options.progress(0, total);
  LLMC_RETURN_IF_ERROR(stream(graph, std::move(inputs), 2 * options.windows.size(), encoder, pool));
  return encoder.take();
}

}  // namespace llmc::calibrate
