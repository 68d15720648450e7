#include "compiler/calibrate/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/calibrate/all_logits.h"
#include "compiler/calibrate/rounding.h"
#include "compiler/calibrate/run_product.h"
#include "compiler/calibrate/stream.h"
#include "compiler/calibrate/window_inputs.h"
#include "compiler/reference/functions.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

using ir::WeightFormat;
using reference::Tensor;

Diagnostic not_finite(const char* what) {
  return {.kind = ErrorKind::kBadInput,
          .message = std::string(what) + " not finite for the text that measures the formats",
          .hint = "give another text with --calibrate, or a format with --quant"};
}

/// Runs the windows of several models. The first is the exact model; the others have some matrices
/// rounded. Window `w` of model `m` is m * windows + w.
class RoundedModels final : public Products {
 public:
  /// `models`: the rounded matrices of each model except the first.
  RoundedModels(std::vector<Rounded> models, std::size_t windows, WorkerPool& pool,
                std::function<void()> on_measured)
      : models_(std::move(models)),
        windows_(windows),
        pool_(pool),
        on_measured_(std::move(on_measured)) {
    models_.insert(models_.begin(), Rounded());
  }

  bool wants(const ir::Node&, const ir::Constant&) const override { return false; }

  Result<std::vector<Values>> run(const ir::Node& node, const ir::ConstantPtr& weight,
                                  std::vector<Values> operands) override {
    const std::size_t count = models_.size() * windows_;
    // Windows with the same operands and the same version of the matrix share one result.
    const std::vector<std::size_t> first = first_with_same(operands, count);
    std::map<std::pair<std::size_t, WeightFormat>, std::size_t> seen;
    std::vector<std::size_t> shared(count);
    std::vector<WindowVersion> runs;
    std::vector<WeightFormat> formats{WeightFormat::kUnset};  // of the versions of the matrix
    for (std::size_t i = 0; i < count; ++i) {
      const WeightFormat format = format_in(i / windows_, *weight);
      shared[i] = seen.emplace(std::pair(first[i], format), i).first->second;
      if (shared[i] != i) continue;
      const auto known = std::ranges::find(formats, format);
      runs.push_back({i, static_cast<std::size_t>(known - formats.begin())});
      if (known == formats.end()) formats.push_back(format);
    }
    const bool measured = formats.size() > 1 && measures_;
    Losses unused{};
    Losses& sums = measured ? errors_[weight.get()] : unused;
    const auto read = [&](std::size_t block) -> Result<std::vector<std::vector<float>>> {
      std::vector<std::vector<float>> versions;
      for (const WeightFormat format : formats) {
        LLMC_TRY(std::vector<float> version,
                 read_transposed(*weight, {block, blocks_of(node)}, format, pool_));
        versions.push_back(std::move(version));
      }
      if (measured)
        LLMC_RETURN_IF_ERROR(add_errors(node, *weight, operands, block, formats, versions, sums));
      return versions;
    };
    LLMC_TRY(auto results, run_product(node, static_cast<std::size_t>(weight->dims()[1]), operands,
                                       count, runs, read, pool_));
    if (measured && on_measured_) on_measured_();
    for (Values& result : results)
      for (std::size_t i = 0; i < count; ++i) result[i] = result[shared[i]];
    return results;
  }

  /// Makes run() sum the squared errors of the results of rounded matrices, for each of kChoices.
  void measure_errors() { measures_ = true; }
  /// Returns these sums for a matrix; nullptr if it was not reached.
  const Losses* errors(const ir::Constant& weight) const {
    const auto found = errors_.find(&weight);
    return found == errors_.end() ? nullptr : &found->second;
  }

 private:
  WeightFormat format_in(std::size_t model, const ir::Constant& weight) const {
    const auto found = models_[model].find(&weight);
    return found == models_[model].end() ? WeightFormat::kUnset : found->second;
  }

  /// Adds the squared errors of one block's results in the windows of the exact model to `sums`,
  /// for each of kChoices. versions[i] has the format formats[i]; the first one is not rounded.
  Status add_errors(const ir::Node& node, const ir::Constant& weight,
                    const std::vector<Values>& operands, std::size_t block,
                    std::span<const WeightFormat> formats,
                    std::span<const std::vector<float>> versions, Losses& sums) {
    const auto columns = static_cast<std::size_t>(weight.dims()[1]);
    for (std::size_t f = 0; f < kChoices.size(); ++f) {
      std::vector<float> error;
      if (const auto known = std::ranges::find(formats, kChoices[f]); known != formats.end()) {
        error = versions[static_cast<std::size_t>(known - formats.begin())];
      } else {
        LLMC_TRY(error, read_transposed(weight, {block, blocks_of(node)}, kChoices[f], pool_));
      }
      for (std::size_t i = 0; i < error.size(); ++i) error[i] -= versions[0][i];
      std::vector<double> parts(windows_, 0);
      LLMC_RETURN_IF_ERROR(pool_.run(windows_, [&](std::size_t window) -> Status {
        LLMC_TRY(const auto x,
                 reference::product_input(node, operands_of(operands, window), block));
        std::vector<float> y(x.places.size() * (error.size() / columns));
        multiply(x.rows, error, columns, y);
        for (const float value : y) parts[window] += double{value} * double{value};
        return ok_status();
      }));
      for (const double part : parts) sums[f] += part;
    }
    return ok_status();
  }

  std::vector<Rounded> models_;
  const std::size_t windows_;
  WorkerPool& pool_;
  std::function<void()> on_measured_;
  bool measures_ = false;
  std::map<const ir::Constant*, Losses> errors_;
};

/// Returns ln x for x > 0, with the same bits on every host.
double natural_logarithm(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  // ln m = 2 atanh((m - 1) / (m + 1)), and |t| <= 0.172.
  const double t = (mantissa - 1) / (mantissa + 1), square = t * t;
  double sum = 0;
  for (int n = 23; n > 0; n -= 2) sum = sum * square + 1.0 / n;
  return 2 * t * sum + exponent * kLn2;
}

/// Returns ln of the sum of exp(x[i]).
double log_sum_exp(std::span<const float> x) {
  const double largest = *std::ranges::max_element(x);
  double sum = 0;
  for (const float value : x) sum += reference::exact_exp(value - largest);
  return largest + natural_logarithm(sum);
}

/// Adds KL(exact || others[m]) to sums[m]. The arguments are rows of logits for one token.
void add_divergences(std::span<const float> exact, std::span<const std::span<const float>> others,
                     std::span<double> sums) {
  const double total = log_sum_exp(exact);
  std::vector<double> probabilities(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i)
    probabilities[i] = reference::exact_exp(exact[i] - total);
  for (std::size_t m = 0; m < others.size(); ++m) {
    // sum of p (ln p - ln q), where ln p = x - lse(x).
    double sum = 0;
    for (std::size_t i = 0; i < exact.size(); ++i)
      sum += probabilities[i] * (double{exact[i]} - double{others[m][i]});
    sums[m] += std::max(0.0, sum - total + log_sum_exp(others[m]));
  }
}

class Measurement {
 public:
  Measurement(const ir::Graph& stages, const MeasureOptions& options)
      : graph_(with_all_logits(stages)), options_(options), pool_(options.threads) {
    LLMC_CHECK(!options.windows.empty());
    for (const auto& window : options.windows) tokens_ += window.size();
  }

  WorkerPool& pool() { return pool_; }
  std::size_t windows() const { return options_.windows.size(); }

  /// Returns the number of models, without the exact one, whose logits fit the limit; at least 1.
  std::size_t models_at_once() const {
    const ir::TensorType& type = graph_.value(graph_.outputs().front()).type;
    const std::int64_t width = type.dims.empty() ? 1 : type.dims.back().constant().value_or(1);
    const std::uint64_t bytes = sizeof(float) * tokens_ * static_cast<std::uint64_t>(width);
    const std::uint64_t fitting = options_.logits_bytes / std::max<std::uint64_t>(bytes, 1);
    return std::max<std::size_t>(fitting, 2) - 1;
  }

  /// Returns the mean of KL(exact || other) over all tokens for each of the `count` other models.
  Result<std::vector<double>> run(RoundedModels& models, std::size_t count) {
    LLMC_TRY(auto inputs, window_inputs(graph_, options_.windows, count + 1));
    const std::size_t windows = options_.windows.size();
    LLMC_TRY(Values logits,
             stream(graph_, std::move(inputs), (count + 1) * windows, models, pool_, true));
    std::vector<std::vector<double>> parts(windows, std::vector<double>(count, 0));
    LLMC_RETURN_IF_ERROR(pool_.run(windows, [&](std::size_t window) -> Status {
      const Tensor& exact = *of_window(logits, window);
      const auto width = static_cast<std::size_t>(exact.dims.back());
      if (width == 0 || exact.floats.size() != width * options_.windows[window].size())
        return failure(ErrorKind::kUnsupported,
                       "the model has no logits of all tokens, which --fit and --max-kl compare",
                       "choose a format with --quant");
      for (std::size_t at = 0; at < exact.floats.size(); at += width) {
        std::vector<std::span<const float>> rows;
        for (std::size_t m = 1; m <= count; ++m)
          rows.push_back(
              std::span(of_window(logits, m * windows + window)->floats).subspan(at, width));
        add_divergences(std::span(exact.floats).subspan(at, width), rows, parts[window]);
      }
      return ok_status();
    }));
    std::vector<double> means(count, 0);
    for (std::size_t m = 0; m < count; ++m) {
      for (const auto& part : parts) means[m] += part[m];
      means[m] /= static_cast<double>(tokens_);
      if (!std::isfinite(means[m])) return not_finite("logits are");
    }
    return means;
  }

 private:
  const ir::Graph graph_;
  const MeasureOptions& options_;
  WorkerPool pool_;
  std::size_t tokens_ = 0;
};

}  // namespace

Result<std::vector<Losses>> measure_losses(const ir::Graph& stages,
                                           const std::vector<ir::ConstantPtr>& matrices,
                                           const MeasureOptions& options) {
  Measurement measurement(stages, options);
  std::uint64_t done = 0;
  const auto on_measured = [&] {
    ++done;
    if (options.progress) options.progress(done, matrices.size());
  };
  if (options.progress) options.progress(0, matrices.size());
  std::vector<Losses> losses;
  const std::size_t at_once = measurement.models_at_once();
  for (std::size_t first = 0; first < matrices.size(); first += at_once) {
    const std::size_t count = std::min(at_once, matrices.size() - first);
    std::vector<Rounded> rounded;
    for (std::size_t m = 0; m < count; ++m)
      rounded.push_back({{matrices[first + m].get(), kChoices.front()}});
    RoundedModels models(rounded, measurement.windows(), measurement.pool(), on_measured);
    models.measure_errors();
    LLMC_TRY(const std::vector<double> means, measurement.run(models, count));
    for (std::size_t m = 0; m < count; ++m) {
      Losses& loss = losses.emplace_back();
      const Losses* const errors = models.errors(*matrices[first + m]);
      if (errors == nullptr) continue;  // no logits depend on the matrix
      for (std::size_t f = 0; f < kChoices.size(); ++f) {
        if (!std::isfinite((*errors)[f])) return not_finite("the results of a matrix are");
        loss[f] = errors->front() > 0 ? means[m] * ((*errors)[f] / errors->front()) : 0;
      }
    }
  }
  return losses;
}

Result<double> measure_divergence(const ir::Graph& stages, const Rounded& rounded,
                                  const MeasureOptions& options) {
  Measurement measurement(stages, options);
  RoundedModels models({rounded}, measurement.windows(), measurement.pool(), {});
  LLMC_TRY(const std::vector<double> means, measurement.run(models, 1));
  return means.front();
}

}  // namespace llmc::calibrate
