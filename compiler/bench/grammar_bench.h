#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/exec/native.h"
#include "compiler/support/result.h"

/// What a grammar costs a generation step.
namespace llmc::bench {

struct GrammarBenchOptions {
  std::uint32_t threads = 1, cores = LLMC_CORES_OF_TARGET;
  std::uint32_t tokens = 128;  // of all texts together
  std::uint32_t repetitions = 5;
};

/// Seconds by step, each the least of all repetitions.
struct GrammarSteps {
  std::vector<double> step;  // choosing a token and running it, with the grammar
  std::vector<double> cost;  // of that, what choosing takes longer than without; at least 0

  /// Of cost / step, nearest rank; `part` in 0 .. 1.
  double share(double part) const;
  /// Index of the largest share.
  std::size_t worst() const;
};

struct GrammarBenchReport {
  std::vector<std::vector<std::int32_t>> texts;  // drawn under the grammar; steps are their tokens
  GrammarSteps greedy, drawn;
};

/// Draws texts of the grammar (tables as Session::set_grammar takes them) behind `prompt`, then
/// replays their tokens in two sessions, one with the grammar and one without, and times both
/// choices at each step: greedy ones, and draws with llama.cpp's defaults. kBadInput when the
/// grammar has no text but the empty one, kUsage when the prompt fills the context.
Result<GrammarBenchReport> bench_grammar(const exec::NativeModel& model, std::string_view tables,
                                         std::span<const std::int32_t> prompt,
                                         const GrammarBenchOptions& options);

}  // namespace llmc::bench
