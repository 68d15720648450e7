#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/exec/native.h"
#include "compiler/support/result.h"

/// The cost of a grammar per generation step.
namespace llmc::bench {

struct GrammarBenchOptions {
  std::uint32_t threads = 1, cores = LLMC_CORES_OF_TARGET;
  std::uint32_t tokens = 128;  // total of all texts
  std::uint32_t repetitions = 5;
};

/// Seconds by step, each the minimum of all repetitions.
struct GrammarSteps {
  std::vector<double> step;  // sampling and running a token, with the grammar
  std::vector<double> cost;  // additional time of sampling with the grammar; at least 0

  /// Quantile `part`, in 0 .. 1, of cost / step; nearest rank.
  double share(double part) const;
  /// Index of the largest share.
  std::size_t worst() const;
};

struct GrammarBenchReport {
  std::vector<std::vector<std::int32_t>> texts;  // sampled with the grammar; one step per token
  GrammarSteps greedy, drawn;
};

/// Samples texts with the grammar (tables as for Session::set_grammar) after `prompt`, then replays
/// their tokens in two sessions, one with the grammar and one without, and measures the sampling of
/// both at each step, greedy and with llama.cpp's defaults. kBadInput if the grammar accepts only
/// the empty text, kUsage if the prompt fills the context.
Result<GrammarBenchReport> bench_grammar(const exec::NativeModel& model, std::string_view tables,
                                         std::span<const std::int32_t> prompt,
                                         const GrammarBenchOptions& options);

}  // namespace llmc::bench
