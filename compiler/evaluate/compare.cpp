#include "compiler/evaluate/compare.h"

#include <fmt/format.h>

#include <memory>

#include "compiler/support/check.h"
#include "compiler/support/counted.h"
#include "compiler/support/statistics.h"
#include "compiler/support/stopwatch.h"

namespace llmc::evaluate {
namespace {

/// Returns the tokens that are prefilled before the decode steps. Fails with kUsage if the steps
/// exceed the context.
Result<std::vector<std::int32_t>> prompt_of(const CompareOptions& options, std::uint32_t context) {
  LLMC_TRY(const Windows windows, Windows::cut(options.text.tokens, options.text.windows, context));
  std::vector<std::int32_t> prompt = windows.at(0).tokens;
  prompt.resize((prompt.size() + 1) / 2);
  if (prompt.size() + options.steps <= context) return prompt;
  return usage_error(
      fmt::format("{} after {} do not fit the context of {}", counted(options.steps, "step"),
                  counted(prompt.size(), "token"), context),
      "use fewer --steps, or compile with a larger --ctx");
}

/// Returns the median time of greedy decode steps, in seconds.
Result<double> measure_steps(const exec::NativeModel& native,
                             const std::vector<std::int32_t>& prompt,
                             const CompareOptions& options) {
  LLMC_TRY(const auto session, start_measuring(native, options.text, options.threads));
  LLMC_RETURN_IF_ERROR(session->prefill(prompt));
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < options.steps; ++i) {
    const Stopwatch watch;
    LLMC_TRY([[maybe_unused]] const std::int32_t token, session->step());
    seconds.push_back(watch.seconds());
  }
  return median(std::move(seconds));
}

/// Compiles and loads the model in the formats of `mode`.
Result<std::unique_ptr<exec::NativeModel>> load_mode(const CompareOptions& options,
                                                     const Mode& mode,
                                                     const driver::Progress& progress) {
  exec::NativeOptions native = options.native;
  native.compile.quant = mode.quant;
  native.compile.kv = mode.kv;
  if (mode.has_budget()) {
    native.compile.budget = driver::WeightBudget{mode.fit, mode.max_kl, options.budget_text};
  } else if (!ir::is_quantized(mode.quant.format)) {
    native.compile.calibration.reset();
  }
  return exec::load_native(native, progress);
}

}  // namespace

std::string Mode::weights_text() const {
  if (fit > 0) return "fit " + fit_text;
  return max_kl > 0 ? fmt::format("max-kl {}", max_kl) : passes::quant_name(quant);
}

double Comparison::bits_per_weight(std::uint64_t bytes) const {
  if (weights_per_token == 0) return 0;
  return 8 * static_cast<double>(bytes) / static_cast<double>(weights_per_token);
}

Result<Comparison> compare_modes(const CompareOptions& options, const driver::Progress& progress,
                                 const std::function<Status(const Comparison&)>& row_done) {
  LLMC_CHECK(!options.modes.empty() && options.steps > 0);
  LLMC_RETURN_IF_ERROR(check_length(options.text));
  LLMC_TRY(const auto base, exec::load_native(base_options(options.native), progress));
  LLMC_TRY(const std::vector<std::int32_t> prompt, prompt_of(options, base->model().ctx));
  Comparison result{.rows = {}, .weights_per_token = base->bundle_facts().parameters_per_token};
  // Models with a budget are compiled into the cache first: an impossible budget fails before
  // anything is measured. They are unloaded, because together they may need too much memory.
  for (const Mode& mode : options.modes) {
    if (!mode.has_budget() || !exec::keeps_compiled(options.native)) continue;
    if (auto model = load_mode(options, mode, progress); !model.ok())
      return std::move(model).error();
  }
  for (const Mode& mode : options.modes) {
    LLMC_TRY(const auto tested, load_mode(options, mode, progress));
    const driver::BundleFacts& facts = tested->bundle_facts();
    CompareRow row{.mode = mode,
                   .weight_bytes = facts.weights_bytes,
                   .weight_bytes_per_token = facts.weights_per_token_bytes,
                   .cache_bytes_per_token = facts.cache_token_bytes,
                   .quality = {},
                   .depth = static_cast<std::uint32_t>(prompt.size())};
    const std::string phase =
        fmt::format("{}, kv {} ({} of {})", mode.weights_text(), plan::to_string(mode.kv),
                    result.rows.size() + 1, options.modes.size());
    LLMC_TRY(row.quality, measure_perplexity(*tested, base.get(), options.text, options.threads,
                                             phase, progress));
    LLMC_TRY(row.step_seconds, measure_steps(*tested, prompt, options));
    result.rows.push_back(std::move(row));
    if (row_done) LLMC_RETURN_IF_ERROR(row_done(result));
  }
  return result;
}

}  // namespace llmc::evaluate
