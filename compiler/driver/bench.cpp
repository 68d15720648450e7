#include "compiler/driver/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "compiler/driver/bundle_files.h"

namespace llmc::driver {
namespace {

Diagnostic usage_error(std::string message, std::string hint) {
  return Diagnostic{.kind = ErrorKind::kUsage,
                    .file = {},
                    .node = {},
                    .op = {},
                    .message = std::move(message),
                    .hint = std::move(hint)};
}

std::vector<std::int32_t> tokens_for(std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>((i * 7919ull + 1) % vocabulary));
  }
  return tokens;
}

/// Tokens run one after the other, each greedily following the last.
Status generate(NativeModel::Session& session, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    LLMC_TRY([[maybe_unused]] const std::int32_t token, session.step());
  }
  return ok_status();
}

void finish(BenchResult& result) {
  std::vector<double> sorted = result.seconds;
  std::ranges::sort(sorted);
  const double tokens = result.tokens;
  result.tokens_per_second = tokens / sorted[sorted.size() / 2];
  if (sorted.size() < 2) return;
  double mean = 0, squares = 0;
  for (const double s : sorted) mean += tokens / s / static_cast<double>(sorted.size());
  for (const double s : sorted) squares += (tokens / s - mean) * (tokens / s - mean);
  result.deviation = std::sqrt(squares / static_cast<double>(sorted.size() - 1));
}

}  // namespace

Result<BenchReport> run_bench(const BenchOptions& options, const Progress& progress) {
  LLMC_TRY(const auto native, load_native(options.native, progress));
  LLMC_TRY(const BundleFacts facts, read_bundle(native->bundle()));
  const ModelFacts& model = native->model();
  BenchReport report;
  report.weight_bytes = facts.weights_bytes;
  report.weight_bytes_per_token = facts.weights_per_token_bytes;
  report.target = model.target;
  report.emulator = native->emulator();
  const std::uint32_t prompt = options.prompt.value_or(std::min(128u, model.ctx));
  const std::uint32_t generation = options.generation.value_or(std::min(64u, model.ctx - 1));
  if (prompt == 0 && generation == 0)
    return usage_error("there is nothing to measure: no prompt and no generation", "");
  if (prompt > model.ctx || generation >= model.ctx) {
    return usage_error(
        fmt::format("a prompt of {} tokens or one and {} generated do not fit the context of {}",
                    prompt, generation, model.ctx),
        "use fewer, or a larger --ctx");
  }
  const std::uint64_t total = options.threads.size() * (options.repetitions + 1) * 2;
  std::uint64_t done = 0;
  for (const std::uint32_t threads : options.threads) {
    LLMC_TRY(const auto session, native->start({.threads = threads, .cores = options.cores}));
    for (const auto test : {BenchResult::Test::kPrompt, BenchResult::Test::kGeneration}) {
      const bool is_prompt = test == BenchResult::Test::kPrompt;
      BenchResult result{.test = test,
                         .threads = threads,
                         .tokens = is_prompt ? prompt : generation,
                         .seconds = {}};
      if (result.tokens == 0 || options.repetitions == 0) continue;
      const auto input = tokens_for(is_prompt ? prompt : 1, model.vocab);
      for (std::uint32_t i = 0; i <= options.repetitions; ++i) {
        driver::report(progress, "bench", done++, total);
        LLMC_RETURN_IF_ERROR(session->rewind(0));
        if (!is_prompt) LLMC_RETURN_IF_ERROR(session->prefill(input));
        const auto started = std::chrono::steady_clock::now();
        LLMC_RETURN_IF_ERROR(is_prompt ? session->prefill(input) : generate(*session, generation));
        const auto took = std::chrono::steady_clock::now() - started;
        if (i > 0) result.seconds.push_back(std::chrono::duration<double>(took).count());
      }
      finish(result);
      report.results.push_back(std::move(result));
    }
  }
  driver::report(progress, "bench", total, total);
  return report;
}

}  // namespace llmc::driver
