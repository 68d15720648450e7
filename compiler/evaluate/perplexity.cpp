#include "compiler/evaluate/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/driver/bundle_files.h"
#include "compiler/plan/kv_format.h"
#include "compiler/plan/plan.h"
#include "compiler/support/check.h"
#include "compiler/support/stopwatch.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::evaluate {
namespace {

using exec::Session;

Status check_tokens(const MeasuredText& text, std::uint32_t vocabulary) {
  for (const std::int32_t token : text.tokens) {
    if (token >= 0 && static_cast<std::uint32_t>(token) < vocabulary) continue;
    return failure(text.bad_token,
                   fmt::format("token id {} is not below the vocabulary of {}", token, vocabulary),
                   text.bad_token == ErrorKind::kUsage
                       ? "`llmc tokenize` prints the ids of a text for this model"
                       : "check that the tokenizer belongs to the model");
  }
  return ok_status();
}

/// Cuts the text into windows; errors contain the name of its file.
Result<Windows> cut(const MeasuredText& text, std::uint32_t context) {
  auto windows = Windows::cut(text.tokens, text.windows, context);
  if (!windows.ok() && windows.error().first().kind == ErrorKind::kBadInput && !text.file.empty())
    return std::move(windows).error().in_file(text.file);
  return windows;
}

/// Runs one model, or two models that process the same tokens, chunk by chunk.
class WindowReader {
 public:
  WindowReader(const exec::NativeModel& tested, std::unique_ptr<Session> tested_session,
               const exec::NativeModel* base, std::unique_ptr<Session> base_session)
      : tested_(std::move(tested_session)),
        base_(std::move(base_session)),
        vocabulary_(tested.model().vocab),
        chunk_(tested.model().chunk),
        batch_(tested.model().batch) {
    if (base == nullptr) return;
    chunk_ = std::min<std::size_t>(chunk_, base->model().chunk);
    batch_ = std::min<std::size_t>(batch_, base->model().batch);
  }

  /// Runs a window and adds its counted tokens to the scores. After each chunk, calls `read` with
  /// the number of its tokens.
  Status read(const Windows::Window& window, Scores& scores,
              const std::function<void(std::size_t)>& read) {
    LLMC_RETURN_IF_ERROR(tested_->call(&exec::Api::rewind, 0));
    if (base_) LLMC_RETURN_IF_ERROR(base_->call(&exec::Api::rewind, 0));
    const std::span<const std::int32_t> tokens = window.tokens;
    // The last token has no successor to predict.
    for (std::size_t at = 0; at + 1 < tokens.size(); at += chunk_) {
      const std::size_t count = std::min<std::size_t>(chunk_, tokens.size() - 1 - at);
      LLMC_RETURN_IF_ERROR(tested_->prefill(tokens.subspan(at, count)));
      if (base_) LLMC_RETURN_IF_ERROR(base_->prefill(tokens.subspan(at, count)));
      const std::size_t first = window.first - 1 > at ? window.first - 1 - at : 0;
      for (std::size_t row = first; row < count; row += batch_) {
        const std::size_t rows = std::min<std::size_t>(batch_, count - row);
        LLMC_RETURN_IF_ERROR(score(row, tokens.subspan(at + row + 1, rows), scores));
      }
      read(count);
    }
    return ok_status();
  }

 private:
  /// Scores `tokens`, whose logits are the rows of the last chunk from `row` on.
  Status score(std::size_t row, std::span<const std::int32_t> tokens, Scores& scores) {
    LLMC_TRY(const std::span<const float> tested, rows_of(*tested_, row, tokens.size()));
    std::span<const float> base;
    if (base_) {
      LLMC_TRY(base, rows_of(*base_, row, tokens.size()));
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto logits = tested.subspan(i * vocabulary_, vocabulary_);
      const bool counted =
          base_ ? scores.add(logits, tokens[i], base.subspan(i * vocabulary_, vocabulary_))
                : scores.add(logits, tokens[i]);
      if (counted) continue;
      return failure(
          ErrorKind::kBadInput,
          fmt::format("the logits give counted token {} (id {}) no finite probability above 0",
                      scores.count() + 1, tokens[i]),
          "values may be too large for the weight or cache format: try --quant f32 and "
          "--kv f32");
    }
    return ok_status();
  }

  Result<std::span<const float>> rows_of(Session& session, std::size_t row,
                                         std::size_t rows) const {
    LLMC_TRY(
        const std::span<const float> all,
        session.logits_rows(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(rows)));
    LLMC_CHECK(all.size() == rows * vocabulary_);
    return all;
  }

  std::unique_ptr<Session> tested_, base_;
  const std::size_t vocabulary_;
  std::size_t chunk_, batch_;
};

}  // namespace

Status check_length(const MeasuredText& text) {
  // A default window size is limited to the context.
  if (text.windows.size == 0) return ok_status();
  const auto windows = cut(text, plan::kMaxContext);
  return windows.ok() ? ok_status() : Status(windows.error());
}

exec::NativeOptions base_options(exec::NativeOptions options) {
  options.compile.quant = ir::WeightFormat::kF32;
  options.compile.kv = {};
  options.compile.calibration.reset();
  options.compile.requantize = false;
  options.compile.budget.reset();
  return options;
}

std::uint32_t measuring_threads(std::uint32_t requested, const exec::ModelFacts& model) {
  return requested > 0 ? requested
                       : std::min(hosted::usable_cores(), std::max(model.threads_max, 1u));
}

Result<std::unique_ptr<Session>> start_measuring(const exec::NativeModel& native,
                                                 const MeasuredText& text, std::uint32_t threads) {
  LLMC_RETURN_IF_ERROR(exec::check_source(native.model(), text.source));
  LLMC_TRY(auto session, native.start(measuring_threads(threads, native.model())));
  if (!text.source.empty()) LLMC_RETURN_IF_ERROR(session->encode(text.source));
  return session;
}

Result<PerplexityReport> measure_perplexity(const exec::NativeModel& tested,
                                            const exec::NativeModel* base, const MeasuredText& text,
                                            std::uint32_t threads, std::string_view phase,
                                            const driver::Progress& progress) {
  const exec::ModelFacts& model = tested.model();
  LLMC_RETURN_IF_ERROR(check_tokens(text, model.vocab));
  LLMC_TRY(const Windows windows, cut(text, model.ctx));
  LLMC_CHECK(base == nullptr ||
             (base->model().vocab == model.vocab && base->model().ctx >= model.ctx));
  LLMC_TRY(auto session, start_measuring(tested, text, threads));
  std::unique_ptr<Session> base_session;
  if (base != nullptr) {
    LLMC_TRY(base_session, start_measuring(*base, text, threads));
  }
  WindowReader reader(tested, std::move(session), base, std::move(base_session));

  const Stopwatch watch;
  Scores scores;
  std::uint64_t done = 0;
  // The last window may be shorter.
  const std::uint64_t total = (windows.count() - 1) * std::uint64_t{windows.width() - 1} +
                              windows.at(windows.count() - 1).tokens.size() - 1;
  driver::report(progress, phase, 0, total);
  for (std::size_t i = 0; i < windows.count(); ++i) {
    LLMC_RETURN_IF_ERROR(reader.read(windows.at(i), scores, [&](std::size_t tokens) {
      driver::report(progress, phase, done += tokens, total);
    }));
  }
  PerplexityReport report{.perplexity = scores.perplexity(),
                          .mean_loss = scores.mean_loss(),
                          .predicted = scores.count(),
                          .windows = windows.count(),
                          .window = windows.width()};
  report.target = model.target;
  report.quant = tested.bundle_facts().quant;
  report.kv = plan::to_string(tested.bundle_facts().kv);
  report.rounding = tested.bundle_facts().rounding;
  report.divergence = scores.divergence();
  report.seconds = watch.seconds();
  return report;
}

Result<PerplexityReport> measure_perplexity(const PerplexityOptions& options,
                                            const driver::Progress& progress) {
  const bool bundle = driver::looks_like_bundle(options.native.compile.model);
  if (bundle && options.divergence) {
    return usage_error("a compiled bundle has no float weights to compare with",
                       "give the model from which it was compiled");
  }
  if (!bundle) LLMC_RETURN_IF_ERROR(check_length(options.text));
  LLMC_TRY(const auto tested, exec::load_native(options.native, progress));
  std::unique_ptr<exec::NativeModel> base;
  if (options.divergence) {
    LLMC_TRY(base, exec::load_native(base_options(options.native), progress));
  }
  return measure_perplexity(*tested, base.get(), options.text, options.threads, "perplexity",
                            progress);
}

}  // namespace llmc::evaluate
