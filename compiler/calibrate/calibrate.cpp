#include "compiler/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/calibrate/all_logits.h"
#include "compiler/calibrate/matrix_products.h"
#include "compiler/calibrate/rounding.h"
#include "compiler/calibrate/run_product.h"
#include "compiler/calibrate/stream.h"
#include "compiler/calibrate/window_inputs.h"
#include "compiler/ir/constant_pages.h"
#include "compiler/ir/op_info.h"
#include "compiler/quant/feedback.h"
#include "compiler/quant/pack.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

using ir::ConstantPtr;
using reference::ProductInput;

/// Added to the diagonal of the moments, as a fraction of its mean.
constexpr double kDamping = 0.1;
/// Number of windows whose inputs of a matrix are in memory at a time.
constexpr std::size_t kWindowsAtOnce = 16;

/// Returns the storage of the node's weight if calibration can choose its codes; nullopt for other
/// formats, and if value rows have another format than query and key rows.
std::optional<WeightKind> kind_of(const ir::Node& node) {
  ir::WeightFormat format = ir::WeightFormat::kUnset;
  if (const auto* linear = std::get_if<ir::Linear>(&node.op)) {
    format = linear->format;
  } else if (const auto* qkv = std::get_if<ir::QkvProjection>(&node.op)) {
    const ir::WeightFormat value = qkv->value_format;
    if (value == ir::WeightFormat::kUnset || value == qkv->format) format = qkv->format;
  } else if (const auto* experts = std::get_if<ir::ExpertLinear>(&node.op)) {
    format = experts->format;
  }
  return rounded_kind(format);
}

/// Returns whether calibration chooses the codes of the weight.
bool is_encoded(const ir::Node& node, const ir::Constant& weight) {
  if (!kind_of(node) || weight.dims().size() != 2) return false;
  const auto rows = static_cast<std::size_t>(weight.dims()[0]), blocks = blocks_of(node);
  if (blocks == 0 || (blocks > 1 && rows % (blocks * kPanelRows) != 0)) return false;
  // The codes of quantized models are preserved.
  return rows > 0 && weight.dims()[1] > 0 && !ir::has_quantized_rows(weight);
}

/// Returns the rows of `exact` for the places of `inputs`. A row that `exact` does not have,
/// because the exact model routes it to another expert, is taken from `inputs`: its change is
/// unknown.
std::vector<float> rows_of_model(ProductInput exact, const ProductInput& inputs) {
  if (exact.places == inputs.places) return std::move(exact.rows);
  std::vector<float> rows = inputs.rows;
  if (inputs.places.empty()) return rows;
  const std::size_t columns = rows.size() / inputs.places.size();
  for (std::size_t i = 0; i < inputs.places.size(); ++i) {
    const auto found = std::ranges::lower_bound(exact.places, inputs.places[i]);
    if (found == exact.places.end() || *found != inputs.places[i]) continue;
    const auto at = static_cast<std::size_t>(found - exact.places.begin());
    std::ranges::copy(std::span(exact.rows).subspan(at * columns, columns),
                      rows.begin() + static_cast<std::ptrdiff_t>(i * columns));
  }
  return rows;
}

/// Encodes each matrix when it is reached. Every window is run twice: the first half of the windows
/// with the exact matrices, the second half with the rounded ones.
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
                                  std::vector<Values> operands) override {
    const auto columns = static_cast<std::size_t>(weight->dims()[1]);
    const auto found = encoded_.find(weight.get());
    const bool rounded = found != encoded_.end();
    const auto read = [&](std::size_t index) -> Result<std::vector<std::vector<float>>> {
      const Block block{index, blocks_of(node)};
      std::vector<std::vector<float>> versions(rounded ? 2 : 1);
      LLMC_TRY(versions[0], read_transposed(*weight, block, ir::WeightFormat::kUnset, pool_));
      if (!rounded) return versions;
      const auto decode = [&](std::size_t first, std::span<float> values) {
        const quant::EncodedMatrix& matrix = *found->second;
        quant::unpack_panels(matrix.kind(), matrix.panels(first, values.size() / columns), columns,
                             values);
        return ok_status();
      };
      LLMC_TRY(versions[1], read_transposed(*weight, block, pool_, decode));
      return versions;
    };
    const std::size_t windows = options_.windows.size();
    std::vector<WindowVersion> runs;
    for (std::size_t window = 0; window < 2 * windows; ++window)
      runs.push_back({window, rounded && window >= windows ? 1u : 0u});
    return run_product(node, columns, operands, 2 * windows, runs, read, pool_);
  }

  Matrices take() { return std::move(encoded_); }

 private:
  /// Adds the input rows of a block of the product's weight, or of all blocks, to `moments`. They
  /// are those of the rounded model. `changes`: also adds their differences from the exact ones.
  Status add_inputs(const ir::Node& node, const std::vector<Values>& operands,
                    std::optional<std::size_t> block, bool changes, quant::Moments& moments) {
    const std::size_t windows = options_.windows.size();
    for (std::size_t first = 0; first < windows; first += kWindowsAtOnce) {
      const std::size_t count = std::min(kWindowsAtOnce, windows - first);
      std::vector<ProductInput> inputs(2 * count);
      LLMC_RETURN_IF_ERROR(pool_.run(2 * count, [&](std::size_t i) -> Status {
        if (i < count && !changes) return ok_status();
        const std::size_t window = i < count ? first + i : windows + first + i - count;
        LLMC_TRY(inputs[i], reference::product_input(node, operands_of(operands, window), block));
        return ok_status();
      }));
      std::size_t size = 0;
      for (std::size_t w = 0; w < count; ++w) size += inputs[count + w].rows.size();
      std::vector<float> rows, exact;
      rows.reserve(size);
      if (changes) exact.reserve(size);
      for (std::size_t w = 0; w < count; ++w) {
        const ProductInput rounded = std::exchange(inputs[count + w], {});
        rows.insert(rows.end(), rounded.rows.begin(), rounded.rows.end());
        if (!changes) continue;
        const std::vector<float> of_model = rows_of_model(std::exchange(inputs[w], {}), rounded);
        exact.insert(exact.end(), of_model.begin(), of_model.end());
      }
      if (changes)
        moments.add(rows, exact, pool_);
      else
        moments.add(rows, pool_);
    }
    return ok_status();
  }

  Status encode(const ir::Node& node, const ir::Constant& weight,
                const std::vector<Values>& operands) {
    const auto rows = static_cast<std::size_t>(weight.dims()[0]);
    const auto columns = static_cast<std::size_t>(weight.dims()[1]);
    auto matrix = std::make_shared<quant::EncodedMatrix>(*kind_of(node), rows, columns);
    const std::size_t blocks = blocks_of(node);
    std::optional<quant::Moments> all;
    if (blocks > 1)
      LLMC_RETURN_IF_ERROR(add_inputs(node, operands, {}, false, all.emplace(columns)));
    for (std::size_t block = 0; block < blocks; ++block) {
      quant::Moments moments(columns);
      LLMC_RETURN_IF_ERROR(add_inputs(node, operands, block, true, moments));
      if (all && all->rows() > 0)
        moments.add_scaled(
            *all, kSharedRows * static_cast<double>(columns) / static_cast<double>(all->rows()));
      LLMC_RETURN_IF_ERROR(encode(node, weight, {block, blocks}, std::move(moments), *matrix));
      done_ += rows / blocks * columns;
      if (options_.progress) options_.progress(done_, total_);
    }
    encoded_[&weight] = std::move(matrix);
    ir::drop_pages(weight);
    return ok_status();
  }

  Status encode(const ir::Node& node, const ir::Constant& weight, Block block,
                quant::Moments moments, quant::EncodedMatrix& matrix) {
    if (!moments.finite())
      return ir::node_failure(ErrorKind::kBadInput, node,
                              "the inputs of the matrix are not finite for the calibration's text",
                              "--calibrate none encodes the weights without a text");
    const quant::Feedback feedback(std::move(moments), kDamping, pool_);
    const std::size_t rows = matrix.rows() / block.count, columns = matrix.columns();
    const float largest = quant::largest_weight(matrix.kind());
    const std::size_t parts = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    return pool_.run(parts, [&](std::size_t part) -> Status {
      const std::size_t count = std::min(kRowsAtOnce, rows - part * kRowsAtOnce);
      const std::size_t first = block.index * rows + part * kRowsAtOnce;
      std::vector<float> values(count * columns);
      weight.read_rows(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count), values);
      for (const float value : values)
        if (!(value <= largest && value >= -largest))
          return ir::node_failure(ErrorKind::kBadInput, node,
                                  "a weight is not finite or too large for its format",
                                  "the model's file is damaged, or try --quant=f32");
      feedback.encode(matrix.kind(), values, matrix.panels(first, count));
      return ok_status();
    });
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
