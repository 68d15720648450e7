#include "compiler/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/calibrate/all_logits.h"
#include "compiler/calibrate/stream.h"
#include "compiler/calibrate/window_inputs.h"
#include "compiler/ir/constant_pages.h"
#include "compiler/quant/feedback.h"
#include "compiler/quant/pack.h"
#include "compiler/quant/products.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

using ir::ConstantPtr;
using quant::MatrixView;
using reference::Tensor;

/// Added to the diagonal of the moments, as a part of its mean.
constexpr double kDamping = 0.1;
/// Number of rows that a thread encodes at a time, a multiple of those of a panel.
constexpr std::size_t kRowsAtOnce = 64;
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
  switch (format) {
    case ir::WeightFormat::kQ4:
      return WeightKind::kQ4;
    case ir::WeightFormat::kQ6:
      return coded_weight(kSixBits);
    case ir::WeightFormat::kQ8:
      return WeightKind::kQ8;
    default:
      return std::nullopt;
  }
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
    const auto rows = static_cast<std::size_t>(weight->dims()[0]);
    const auto columns = static_cast<std::size_t>(weight->dims()[1]);
    std::vector<float> own(rows * columns), rounded;
    LLMC_RETURN_IF_ERROR(read_turned(*weight, false, own));
    if (encoded_.contains(weight.get())) {
      rounded.resize(own.size());
      LLMC_RETURN_IF_ERROR(read_turned(*weight, true, rounded));
    }
    const auto multiply = [&](std::span<const float> x, std::span<float> y,
                              const std::vector<float>& turned) {
      const MatrixView<const float> w{turned.data(), columns, rows, rows};
      const std::size_t tokens = x.size() / columns;
      std::vector<float> inputs(x.size());
      quant::transpose({x.data(), tokens, columns, columns},
                       {inputs.data(), columns, tokens, tokens});
      std::ranges::fill(y, 0.0f);
      quant::add_products({inputs.data(), columns, tokens, tokens}, w,
                          {y.data(), tokens, rows, rows});
    };
    std::vector<Values> results(node.outputs.size(), Values(2 * options_.windows.size()));
    LLMC_RETURN_IF_ERROR(
        for_windows(operands, 0, 2 * options_.windows.size(),
                    [&](std::size_t window, const auto& given) -> Status {
                      const bool as_model = window < options_.windows.size() || rounded.empty();
                      reference::InterpreterOptions how;
                      how.product = [&](std::span<const float> x, std::span<float> y) {
                        multiply(x, y, as_model ? own : rounded);
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

  /// Reads the rounded weights, or those of the model for other matrices, transposed.
  Status read_turned(const ir::Constant& weight, bool rounded, std::span<float> turned) {
    const auto rows = static_cast<std::size_t>(weight.dims()[0]);
    const auto columns = static_cast<std::size_t>(weight.dims()[1]);
    const auto found = rounded ? encoded_.find(&weight) : encoded_.end();
    const std::size_t parts = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    const Status read = pool_.run(parts, [&](std::size_t part) -> Status {
      const std::size_t first = part * kRowsAtOnce, count = std::min(kRowsAtOnce, rows - first);
      std::vector<float> values(count * columns);
      if (found == encoded_.end()) {
        weight.read_rows(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count),
                         values);
      } else {
        quant::unpack_panels(found->second->kind(), found->second->panels(first, count), columns,
                             values);
      }
      quant::transpose({values.data(), count, columns, columns},
                       {turned.data() + first, columns, count, rows});
      return ok_status();
    });
    ir::drop_pages(weight);
    return read;
  }

  const Options& options_;
  const std::uint64_t total_;
  WorkerPool& pool_;
  Matrices encoded_;
  std::uint64_t done_ = 0;
};

void collect(const ir::Graph& graph, const ir::Loop* loop, std::size_t iteration,
             std::vector<RoundedMatrix>& found, std::set<const ir::Constant*>& seen) {
  std::map<std::uint32_t, ConstantPtr> constants;
  for (const ir::Node& node : graph.nodes()) {
    if (const auto* constant = std::get_if<ir::ConstantOp>(&node.op)) {
      constants[node.outputs[0].index] = constant->data;
    } else if (const auto* parameter = std::get_if<ir::Parameter>(&node.op); parameter && loop) {
      constants[node.outputs[0].index] =
          loop->parameters.at(static_cast<std::size_t>(parameter->index)).at(iteration);
    } else if (const auto* inner = std::get_if<ir::Loop>(&node.op); inner && inner->body) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(inner->count); ++i)
        collect(*inner->body, inner, i, found, seen);
    } else if (const auto kind = kind_of(node)) {
      const auto weight = constants.find(node.inputs[1].index);
      if (weight != constants.end() && is_encoded(node, *weight->second) &&
          seen.insert(weight->second.get()).second)
        found.push_back({weight->second, *kind});
    }
  }
}

}  // namespace

std::vector<RoundedMatrix> matrices_of(const ir::Graph& stages) {
  std::vector<RoundedMatrix> found;
  std::set<const ir::Constant*> seen;
  collect(stages, nullptr, 0, found, seen);
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
