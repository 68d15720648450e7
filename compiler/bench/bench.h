#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/bench/stage_times.h"
#include "compiler/driver/bundle_files.h"
#include "compiler/driver/progress.h"
#include "compiler/exec/native.h"
#include "compiler/support/result.h"

namespace llmc::bench {

struct BenchOptions {
  exec::NativeOptions native;
  std::vector<std::uint32_t> threads = {1};
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  /// Tokens of the prompt and of the generation tests; {} or {0}: none. Default: 128 and 64, or
  /// fewer if the context is smaller.
  std::optional<std::vector<std::uint32_t>> prompts = std::nullopt, generations = std::nullopt;
  /// Tokens in the cache before a test, in addition to a compiled-in prompt.
  std::vector<std::uint32_t> depths = {0};
  /// Numbers of sequences that generation tests decode together.
  std::vector<std::uint32_t> parallel = {1};
  std::uint32_t repetitions = 5;
  bool layers = false;  // also measure the stages
  /// Called immediately before and after the tests if this machine runs the code, to measure its
  /// peak speed at the same time.
  std::function<Status(const struct BenchReport&)> sample = {};
};

/// Seconds of generated tokens by position, each the minimum of all repetitions: interference by
/// other programs varies between repetitions, the cost of the cache does not.
struct StepTimes {
  std::uint32_t first_position = 0;  // of seconds[0]
  std::vector<double> seconds;

  /// Quantile `part`, in 0 .. 1, of the times; nearest rank.
  double percentile(double part) const;
  /// Index of the largest time.
  std::size_t largest() const;
};

/// Stage times of a test.
struct PartTimes {
  PartSeconds seconds{};  // of the repetition with the median time
  double total() const;
};

struct BenchResult {
  enum class Test : std::uint8_t { kPrompt, kGeneration };
  Test test = Test::kPrompt;
  std::uint32_t threads = 1;
  std::uint32_t tokens = 0, depth = 0;  // of each sequence
  std::uint32_t sequences = 1;
  std::vector<double> seconds;      // one per repetition, without the warm-up
  double tokens_per_second = 0;     // of all sequences, from the median time
  double deviation = 0;             // standard deviation of tokens/s
  double minimum = 0, maximum = 0;  // tokens/s
  StepTimes steps = {};             // of a generation test
  std::optional<PartTimes> parts = std::nullopt;

  std::uint64_t all_tokens() const { return std::uint64_t{tokens} * sequences; }
};

struct BenchReport {
  std::vector<BenchResult> results;  // by threads, depth, prompts before generations, sequences
  std::uint64_t weight_bytes_per_token = 0;  // read by a generation step (embedding: one row)
  std::uint64_t weight_bytes = 0;
  std::vector<plan::Products> products;  // of one token; empty if the bundle does not list them
  std::string target;
  std::uint32_t opt_level = 0;
  std::string emulator;  // its command; empty if this processor ran the code

  /// Multiply-adds with weights of a whole test; the head is computed once per prompt.
  double macs(const BenchResult& result, const plan::Products& products) const;
};

/// kUsage if there is no test, or if one exceeds the context or the number of sequences.
Result<BenchReport> run_bench(const BenchOptions& options, const driver::Progress& progress = {});

}  // namespace llmc::bench
