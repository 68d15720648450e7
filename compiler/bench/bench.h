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
  /// Tokens of the prompt and of the generation tests; {} or {0}: none. Not set: 128 and 64, or
  /// what the context holds.
  std::optional<std::vector<std::uint32_t>> prompts = std::nullopt, generations = std::nullopt;
  /// Tokens in the cache before a test, behind those that were compiled into the model.
  std::vector<std::uint32_t> depths = {0};
  /// Sequences that are stepped together in generation tests.
  std::vector<std::uint32_t> parallel = {1};
  std::uint32_t repetitions = 5;
  bool layers = false;  // take the times of the stages, too
  /// Called right before and right after the tests where this machine runs the code: to measure
  /// what it can do in the same minutes.
  std::function<Status(const struct BenchReport&)> sample = {};
};

/// Seconds of generated tokens by their place, each the least of all repetitions: what the machine
/// does in the meantime hits no place every time, what the cache costs does.
struct StepTimes {
  std::uint32_t first_position = 0;  // of seconds[0]
  std::vector<double> seconds;

  /// Of the sorted times, nearest rank; `part` in 0 .. 1.
  double percentile(double part) const;
  /// Index of the largest.
  std::size_t largest() const;
};

/// A repetition of the same test with times of stages.
struct PartTimes {
  PartSeconds seconds{};  // of the repetition that took the median time
  double total() const;
};

struct BenchResult {
  enum class Test : std::uint8_t { kPrompt, kGeneration };
  Test test = Test::kPrompt;
  std::uint32_t threads = 1;
  std::uint32_t tokens = 0, depth = 0;  // of each sequence
  std::uint32_t sequences = 1;
  std::vector<double> seconds;      // one per repetition; a warm-up before them does not count
  double tokens_per_second = 0;     // of the median, of all sequences
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
  std::vector<plan::Products> products;  // of one token; empty when the bundle does not say
  std::string target;
  std::uint32_t opt_level = 0;
  std::string emulator;  // its command; empty when this processor ran the code

  /// Multiply-adds with weights of a whole test: a prompt's head is computed once.
  double macs(const BenchResult& result, const plan::Products& products) const;
};

/// kUsage when a test does not fit the context or the sequences compiled for, or there is none.
Result<BenchReport> run_bench(const BenchOptions& options, const driver::Progress& progress = {});

}  // namespace llmc::bench
