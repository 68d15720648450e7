#include "compiler/driver/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace llmc::driver {
namespace {

Diagnostic bad_text(std::string message, std::string hint) {
  return Diagnostic{.kind = ErrorKind::kBadInput,
                    .file = {},
                    .node = {},
                    .op = {},
                    .message = std::move(message),
                    .hint = std::move(hint)};
}

/// -log softmax(logits)[target], in double so that the sum over a vocabulary does not round.
double negative_log_likelihood(std::span<const float> logits, std::int32_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - largest);
  return std::log(sum) + largest - static_cast<double>(logits[static_cast<std::size_t>(target)]);
}

/// Runs `window` from an empty cache, chunk by chunk; the logits of every token but the last
/// predict the one after it.
Result<double> window_nll(NativeModel::Session& session, std::span<const std::int32_t> window,
                          std::uint32_t chunk, std::uint32_t vocabulary) {
  LLMC_RETURN_IF_ERROR(session.rewind(0));
  double nll = 0;
  for (std::size_t at = 0; at + 1 < window.size(); at += chunk) {
    const std::size_t count = std::min<std::size_t>(chunk, window.size() - 1 - at);
    LLMC_RETURN_IF_ERROR(session.prefill(window.subspan(at, count)));
    for (std::size_t row = 0; row < count; ++row) {
      const float* logits = session.api().logits_at(session.handle(), row);
      LLMC_CHECK(logits != nullptr);
      nll += negative_log_likelihood({logits, vocabulary}, window[at + row + 1]);
    }
  }
  return nll;
}

}  // namespace

Result<PerplexityReport> measure_perplexity(const PerplexityOptions& options,
                                            const Progress& progress) {
  LLMC_TRY(const std::unique_ptr<NativeModel> native, load_native(options.native, progress));
  const llmc_model& model = native->model();
  for (const std::int32_t token : options.tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= model.vocab) {
      return bad_text(fmt::format("token {} is outside the vocabulary of {}", token, model.vocab),
                      "the tokenizer belongs to another model");
    }
  }
  if (options.window > model.ctx) {
    return bad_text(
        fmt::format("windows of {} tokens do not fit the context of {}", options.window, model.ctx),
        "give a smaller --window or a larger --ctx");
  }
  const std::size_t bos = options.bos >= 0 ? 1 : 0;
  const std::size_t step = options.window > bos ? options.window - bos : 0;
  if (step == 0 || options.tokens.size() + bos < 2)
    return bad_text("there is nothing to predict", "give a text of at least two tokens");

  LLMC_TRY(const auto session, native->start(options.threads));
  const auto start = std::chrono::steady_clock::now();
  PerplexityReport report;
  double nll = 0;
  std::vector<double> means;  // of each window
  std::vector<std::int32_t> window;
  for (std::size_t at = 0; at < options.tokens.size(); at += step) {
    driver::report(progress, "perplexity", at, options.tokens.size());
    const std::size_t count = std::min(step, options.tokens.size() - at);
    window.clear();
    if (bos > 0) window.push_back(options.bos);
    window.insert(window.end(), options.tokens.begin() + static_cast<std::ptrdiff_t>(at),
                  options.tokens.begin() + static_cast<std::ptrdiff_t>(at + count));
    if (window.size() < 2) continue;
    LLMC_TRY(const double sum, window_nll(*session, window, model.chunk, model.vocab));
    nll += sum;
    report.predicted += window.size() - 1;
    means.push_back(sum / static_cast<double>(window.size() - 1));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.mean_nll = nll / static_cast<double>(report.predicted);
  report.perplexity = std::exp(report.mean_nll);
  if (means.size() > 1) {
    double mean = 0, squares = 0;
    for (const double m : means) mean += m / static_cast<double>(means.size());
    for (const double m : means) squares += (m - mean) * (m - mean);
    report.standard_error = std::sqrt(squares / static_cast<double>(means.size() - 1) /
                                      static_cast<double>(means.size()));
  }
  return report;
}

}  // namespace llmc::driver
