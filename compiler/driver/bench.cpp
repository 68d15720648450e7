#include "compiler/driver/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "compiler/driver/bundle_files.h"

namespace llmc::driver {
namespace {

using Clock = std::chrono::steady_clock;

/// Token ids spread over the vocabulary, the same in every run: speed does not depend on them, but
/// the embedding rows they touch should not all be one cache line.
std::vector<std::int32_t> spread_tokens(std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<std::int32_t> tokens(count);
  std::uint64_t state = 1;
  for (std::int32_t& token : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<std::int32_t>((state >> 33) % vocabulary);
  }
  return tokens;
}

/// Fills in the figures that follow from `seconds`.
void summarise(BenchResult& result) {
  std::vector<double> rates;
  for (const double s : result.seconds) rates.push_back(result.tokens / s);
  std::sort(rates.begin(), rates.end());
  const std::size_t n = rates.size();
  result.tokens_per_second = n % 2 == 1 ? rates[n / 2] : (rates[n / 2 - 1] + rates[n / 2]) / 2;
  double mean = 0, squares = 0;
  for (const double r : rates) mean += r / static_cast<double>(n);
  for (const double r : rates) squares += (r - mean) * (r - mean);
  result.deviation = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
}

/// One timed run: a whole prompt at once, or token by token from an empty cache.
Result<double> run_once(NativeModel::Session& session, BenchResult::Test test,
                        std::span<const std::int32_t> tokens) {
  LLMC_RETURN_IF_ERROR(session.rewind(0));
  const auto start = Clock::now();
  if (test == BenchResult::Test::kPrompt) {
    LLMC_RETURN_IF_ERROR(session.prefill(tokens));
  } else {
    for (const std::int32_t& token : tokens)
      LLMC_RETURN_IF_ERROR(session.prefill(std::span(&token, 1)));
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Result<BenchReport> run_bench(const BenchOptions& options, const Progress& progress) {
  LLMC_TRY(const std::unique_ptr<NativeModel> native, load_native(options.native, progress));
  LLMC_TRY(const BundleFacts facts, read_bundle(native->bundle()));
  BenchReport report;
  report.weight_bytes = facts.weights_bytes;
  report.weight_bytes_per_token = facts.weights_per_token_bytes;

  const llmc_model& model = native->model();
  const std::uint32_t repetitions = std::max(options.repetitions, 1u);
  std::uint64_t done = 0;
  const std::uint64_t total = std::uint64_t{2} * options.threads.size() * (repetitions + 1);
  for (const std::uint32_t threads : options.threads) {
    LLMC_TRY(const auto session, native->start(threads));
    for (const auto test : {BenchResult::Test::kPrompt, BenchResult::Test::kGeneration}) {
      const std::uint32_t wanted =
          test == BenchResult::Test::kPrompt ? options.prompt : options.generation;
      BenchResult result{
          .test = test, .threads = threads, .tokens = std::min(wanted, model.ctx), .seconds = {}};
      if (result.tokens == 0) continue;
      const auto tokens = spread_tokens(result.tokens, model.vocab);
      for (std::uint32_t i = 0; i < repetitions + 1; ++i) {  // the first one warms up
        driver::report(progress, "bench", done++, total);
        LLMC_TRY(const double seconds, run_once(*session, test, tokens));
        if (i > 0) result.seconds.push_back(seconds);
      }
      summarise(result);
      report.results.push_back(std::move(result));
    }
  }
  return report;
}

}  // namespace llmc::driver
