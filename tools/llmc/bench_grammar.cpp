#include "tools/llmc/bench_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bench/bench.h"
#include "compiler/bench/grammar_bench.h"
#include "compiler/support/counted.h"
#include "compiler/support/statistics.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

/// Returns the end of the text before step `index`, counted over all texts.
std::string before(const bench::GrammarBenchReport& report, const hosted::Tokenizer& tokenizer,
                   std::size_t index) {
  constexpr std::size_t kEnd = 40;
  for (const std::vector<std::int32_t>& text : report.texts) {
    if (index >= text.size()) {
      index -= text.size();
      continue;
    }
    std::string tail = tokenizer.decode(std::span(text).first(index));
    if (tail.size() > kEnd) tail.erase(0, tail.size() - kEnd);
    return printable(tail);
  }
  return {};
}

Json steps_json(const bench::GrammarSteps& steps, const std::string& before_worst) {
  return {{"step_seconds", median(steps.step)}, {"grammar_seconds", median(steps.cost)},
          {"share", steps.share(0.5)},          {"share_p95", steps.share(0.95)},
          {"share_most", steps.share(1)},       {"most_seconds", steps.cost[steps.worst()]},
          {"most_behind", before_worst}};
}

Result<bench::GrammarBenchReport> measure(const GrammarOptions& grammar, const ModelOptions& model,
                                          const GrammarBench& options, const Globals& globals,
                                          std::unique_ptr<hosted::Tokenizer>& tokenizer,
                                          std::string& about) {
  LLMC_TRY(const driver::GrammarSource source, grammar_source(grammar));
  LLMC_TRY(tokenizer, load_tokenizer(model.model, ""));
  LLMC_TRY(const auto native, load(model, globals));
  LLMC_TRY(const std::uint32_t threads, threads_for(options.threads, native->model().threads_max));
  LLMC_TRY(const auto tables,
           grammar_for(grammar, source, model, native->model(), tokenizer.get(), globals));
  std::vector<std::int32_t> prompt = tokenizer->encode("");
  if (prompt.empty()) prompt.push_back(0);
  Progress line(globals);
  line.update("steps", 0, 0);
  about =
      fmt::format("{}, {} tokens in the vocabulary, {} bytes of tables, {}", native->model().target,
                  native->model().vocab, tables->size(), counted(threads, "thread"));
  return bench::bench_grammar(*native, *tables, prompt,
                              {.threads = threads,
                               .cores = options.cores,
                               .tokens = options.tokens,
                               .repetitions = options.repetitions});
}

}  // namespace

Result<int> bench_grammar(const GrammarOptions& grammar, const ModelOptions& model,
                          const GrammarBench& options, const Globals& globals) {
  std::unique_ptr<hosted::Tokenizer> tokenizer;
  std::string about;
  LLMC_TRY(const auto report, measure(grammar, model, options, globals, tokenizer, about));
  const std::pair<const char*, const bench::GrammarSteps&> ways[] = {{"greedy", report.greedy},
                                                                     {"drawn", report.drawn}};
  if (options.format == TableFormat::kJson) {
    Json json{{"texts", report.texts.size()}, {"steps", report.greedy.step.size()}};
    for (const auto& [name, steps] : ways)
      json[name] = steps_json(steps, before(report, *tokenizer, steps.worst()));
    print_json(json);
    return 0;
  }
  Table table(options.format,
              {{"choice", Column::Align::kLeft},
               {"step, µs"},
               {"grammar, µs"},
               {.title = "share", .unit = "%"},
               {.title = "95 % of steps", .unit = "%", .csv_title = "95th percentile"},
               {.title = "largest", .unit = "%"},
               {"largest, µs"},
               {"after", Column::Align::kLeft}});
  const auto micros = [](double seconds) { return fmt::format("{:.1f}", seconds * 1e6); };
  const auto percent = [](double share) { return fmt::format("{:.2f}", share * 100); };
  for (const auto& [name, steps] : ways) {
    table.add({name, micros(median(steps.step)), micros(median(steps.cost)),
               percent(steps.share(0.5)), percent(steps.share(0.95)), percent(steps.share(1)),
               micros(steps.cost[steps.worst()]),
               fmt::format("`{}`", before(report, *tokenizer, steps.worst()))});
  }
  print(table.text());
  note(globals,
       fmt::format("{}; {} of {}, each the minimum of {}", about,
                   counted(report.greedy.step.size(), "step"), counted(report.texts.size(), "text"),
                   counted(options.repetitions, "run")));
  return 0;
}

}  // namespace llmc::cli
