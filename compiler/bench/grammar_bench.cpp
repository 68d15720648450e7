#include "compiler/bench/grammar_bench.h"

#include <algorithm>
#include <limits>

#include "compiler/support/check.h"
#include "compiler/support/statistics.h"
#include "compiler/support/stopwatch.h"

namespace llmc::bench {
namespace {

using exec::Session;

llmc_sampling draws(std::uint64_t seed) {
  llmc_sampling sampling;
  llmc_sampling_defaults(&sampling);
  sampling.seed = seed;
  return sampling;
}

/// Rewinds the session, prefills the prompt, and sets the grammar unless `tables` is nullptr.
Status begin(Session& session, std::span<const std::int32_t> prompt,
             const std::string_view* tables) {
  LLMC_RETURN_IF_ERROR(session.call(&exec::Api::rewind, 0));
  LLMC_RETURN_IF_ERROR(session.prefill(prompt));
  return tables != nullptr ? session.set_grammar(*tables) : ok_status();
}

Result<std::vector<std::vector<std::int32_t>>> draw_texts(Session& session, std::uint32_t context,
                                                          std::span<const std::int32_t> prompt,
                                                          std::string_view tables,
                                                          std::uint32_t tokens) {
  std::vector<std::vector<std::int32_t>> texts;
  for (std::uint32_t count = 0; count < tokens;) {
    LLMC_RETURN_IF_ERROR(begin(session, prompt, &tables));
    const llmc_sampling sampling = draws(texts.size());
    LLMC_RETURN_IF_ERROR(session.call(&exec::Api::set_sampling, &sampling));
    std::vector<std::int32_t>& text = texts.emplace_back();
    LLMC_TRY(int state, session.get<int>(&exec::Api::text_state));
    if (state == LLMC_GRAMMAR_COMPLETE) {
      return failure(ErrorKind::kBadInput, "the grammar accepts only the empty text");
    }
    for (; count < tokens && session.position() < context && state != LLMC_GRAMMAR_COMPLETE;
         ++count) {
      LLMC_TRY(const std::int32_t token, session.sample());
      LLMC_RETURN_IF_ERROR(session.prefill(std::span(&token, 1)));
      LLMC_TRY(state, session.get<int>(&exec::Api::text_state));
      text.push_back(token);
    }
  }
  return texts;
}

/// Times of one replay in seconds, by step: sampling with the grammar, sampling without it, and
/// running the token.
struct Replay {
  std::vector<double> held, plain, run;
};

Result<Replay> replay(Session& held, Session& plain,
                      const std::vector<std::vector<std::int32_t>>& texts,
                      std::span<const std::int32_t> prompt, std::string_view tables,
                      const llmc_sampling& sampling) {
  Replay result;
  LLMC_RETURN_IF_ERROR(held.call(&exec::Api::set_sampling, &sampling));
  LLMC_RETURN_IF_ERROR(plain.call(&exec::Api::set_sampling, &sampling));
  for (const std::vector<std::int32_t>& text : texts) {
    LLMC_RETURN_IF_ERROR(begin(held, prompt, &tables));
    LLMC_RETURN_IF_ERROR(begin(plain, prompt, nullptr));
    for (const std::int32_t token : text) {
      Stopwatch watch;
      LLMC_TRY([[maybe_unused]] const std::int32_t held_token, held.sample());
      result.held.push_back(watch.seconds());
      watch.restart();
      LLMC_RETURN_IF_ERROR(held.prefill(std::span(&token, 1)));
      result.run.push_back(watch.seconds());
      watch.restart();
      LLMC_TRY([[maybe_unused]] const std::int32_t plain_token, plain.sample());
      result.plain.push_back(watch.seconds());
      LLMC_RETURN_IF_ERROR(plain.prefill(std::span(&token, 1)));
    }
  }
  return result;
}

void keep_minimum(std::vector<double>& minimum, const std::vector<double>& values) {
  if (minimum.empty()) minimum.assign(values.size(), std::numeric_limits<double>::infinity());
  LLMC_CHECK(minimum.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) minimum[i] = std::min(minimum[i], values[i]);
}

}  // namespace

double GrammarSteps::share(double part) const {
  if (step.empty()) return 0;
  std::vector<double> shares;
  for (std::size_t i = 0; i < step.size(); ++i) shares.push_back(cost[i] / step[i]);
  return percentile(std::move(shares), part);
}

std::size_t GrammarSteps::worst() const {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < step.size(); ++i)
    if (cost[i] / step[i] > cost[worst] / step[worst]) worst = i;
  return worst;
}

Result<GrammarBenchReport> bench_grammar(const exec::NativeModel& model, std::string_view tables,
                                         std::span<const std::int32_t> prompt,
                                         const GrammarBenchOptions& options) {
  const std::uint32_t context = model.model().ctx;
  if (prompt.size() >= context)
    return usage_error("the prompt fills the context", "compile with a larger --ctx");
  const exec::SessionOptions session{.threads = options.threads, .cores = options.cores};
  LLMC_TRY(const auto held, model.start(session));
  LLMC_TRY(const auto plain, model.start(session));
  GrammarBenchReport report;
  LLMC_TRY(report.texts, draw_texts(*held, context, prompt, tables, options.tokens));
  for (const bool drawn : {false, true}) {
    Replay minimum;
    for (std::uint32_t i = 0; i <= options.repetitions; ++i) {
      const llmc_sampling sampling = drawn ? draws(i) : llmc_sampling{};
      LLMC_TRY(const Replay once, replay(*held, *plain, report.texts, prompt, tables, sampling));
      if (i == 0) continue;  // the first iteration is the warm-up
      keep_minimum(minimum.held, once.held);
      keep_minimum(minimum.plain, once.plain);
      keep_minimum(minimum.run, once.run);
    }
    GrammarSteps& steps = drawn ? report.drawn : report.greedy;
    for (std::size_t i = 0; i < minimum.run.size(); ++i) {
      steps.step.push_back(minimum.held[i] + minimum.run[i]);
      steps.cost.push_back(std::max(0.0, minimum.held[i] - minimum.plain[i]));
    }
  }
  return report;
}

}  // namespace llmc::bench
