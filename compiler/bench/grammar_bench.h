#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/exec/native.h"
#include "compiler/support/result.h"

/// Measures the cost of a grammar per generation step.
namespace llmc::bench {

struct GrammarBenchOptions {
  std::uint32_t threads = 1, cores = LLMC_CORES_OF_TARGET;
  std::uint32_t tokens = 128;  // total number of tokens of all texts
  std::uint32_t repetitions = 5;
};

/// Seconds by step; each value is the minimum of all repetitions.
struct GrammarSteps {
  std::vector<double> step;  // time to sample and run a token, with the grammar
  std::vector<double> cost;  // additional time to sample with the grammar; at least 0

  /// Returns the percentile of cost / step at fraction `part` (0 to 1), by nearest rank.
  double share(double part) const;
  /// Returns the index of the step with the largest cost / step.
  std::size_t worst() const;
};

struct GrammarBenchReport {
  /// Texts sampled with the grammar; one step per token.
  std::vector<std::vector<std::int32_t>> texts;
  GrammarSteps greedy, drawn;
};

/// Samples texts after `prompt` with llama.cpp's default parameters and the grammar (tables as for
/// Session::set_grammar()). Then replays their tokens in two sessions, one with the grammar and one
/// without. At each step, measures the time of sampling in both, once greedy and once with these
/// parameters. Fails with kBadInput if the grammar accepts only the empty text, and with kUsage if
/// the prompt fills the context. Also fails like NativeModel::start() and Session::set_grammar().
Result<GrammarBenchReport> bench_grammar(const exec::NativeModel& model, std::string_view tables,
                                         std::span<const std::int32_t> prompt,
                                         const GrammarBenchOptions& options);

}  // namespace llmc::bench
