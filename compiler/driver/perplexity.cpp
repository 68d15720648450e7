#include "compiler/driver/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "compiler/driver/logits.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::driver {
namespace {

Diagnostic bad_input(std::string message, std::string hint) {
  return Diagnostic{
      .kind = ErrorKind::kBadInput, .message = std::move(message), .hint = std::move(hint)};
}

/// Sum of -log softmax(logits)[token] over tokens 1 … of a window.
Result<double> window_loss(NativeModel::Session& session, std::span<const std::int32_t> tokens,
                           std::size_t chunk, std::size_t vocabulary) {
  LLMC_RETURN_IF_ERROR(session.rewind(0));
  double loss = 0;
  // The last token predicts nothing.
  for (std::size_t at = 0; at + 1 < tokens.size(); at += chunk) {
    const std::size_t count = std::min(chunk, tokens.size() - 1 - at);
    LLMC_RETURN_IF_ERROR(session.prefill(tokens.subspan(at, count)));
    for (std::size_t row = 0; row < count; ++row) {
      LLMC_TRY(const std::span<const float> all,
               session.logits_at(static_cast<std::uint32_t>(row)));
      LLMC_CHECK(all.size() == vocabulary);
      loss += log_sum_exp(all) - all[static_cast<std::size_t>(tokens[at + row + 1])];
    }
  }
  return loss;
}

}  // namespace

Result<PerplexityReport> measure_perplexity(const PerplexityOptions& options,
                                            const Progress& progress) {
  LLMC_TRY(const auto native, load_native(options.native, progress));
  const ModelFacts& model = native->model();
  const std::size_t bos = options.bos >= 0 ? 1 : 0;
  if (options.window < 2 || options.window > model.ctx) {
    return usage_error(fmt::format("a window of {} tokens does not fit the context of {}",
                                   options.window, model.ctx),
                       "use a --window of 2 tokens up to --ctx");
  }
  if (options.tokens.size() + bos < 2) return bad_input("the text has no token to predict", "");
  for (const std::int32_t token : options.tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= model.vocab) {
      Diagnostic d = bad_input(
          fmt::format("token id {} is not below the vocabulary of {}", token, model.vocab),
          options.bad_token == ErrorKind::kUsage ? "" : "is this the model's own tokenizer?");
      d.kind = options.bad_token;
      return d;
    }
  }
  LLMC_TRY(const auto session, native->start(options.threads > 0 ? options.threads
                                                                 : std::min(hosted::usable_cores(),
                                                                            model.threads_max)));

  const auto started = std::chrono::steady_clock::now();
  PerplexityReport report;
  report.target = model.target;
  std::vector<double> means;  // of windows, for the error of the mean
  double total = 0;
  const std::size_t per_window = options.window - bos;
  for (std::size_t at = 0; at < options.tokens.size(); at += per_window) {
    driver::report(progress, "perplexity", at, options.tokens.size());
    std::vector<std::int32_t> window(bos, options.bos);
    const std::size_t count = std::min(per_window, options.tokens.size() - at);
    const auto begin = options.tokens.begin() + static_cast<std::ptrdiff_t>(at);
    window.insert(window.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    if (window.size() < 2) break;
    LLMC_TRY(const double loss, window_loss(*session, window, model.chunk, model.vocab));
    const std::size_t predicted = window.size() - 1;
    total += loss;
    report.predicted += predicted;
    means.push_back(loss / static_cast<double>(predicted));
  }
  driver::report(progress, "perplexity", options.tokens.size(), options.tokens.size());
  report.mean_nll = total / static_cast<double>(report.predicted);
  report.perplexity = std::exp(report.mean_nll);
  if (means.size() > 1) {
    double squares = 0;
    for (const double mean : means) squares += (mean - report.mean_nll) * (mean - report.mean_nll);
    const auto n = static_cast<double>(means.size());
    report.standard_error = std::sqrt(squares / (n - 1) / n);
  }
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace llmc::driver
