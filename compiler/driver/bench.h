#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/native.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

namespace llmc::driver {

struct BenchOptions {
  NativeOptions native;
  std::vector<std::uint32_t> threads = {1};
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  /// Tokens of the prompt and of the generation test; 0: none. Not set: 128 and 64, or what the
  /// context holds.
  std::optional<std::uint32_t> prompt = std::nullopt, generation = std::nullopt;
  std::uint32_t repetitions = 5;
};

struct BenchResult {
  enum class Test : std::uint8_t { kPrompt, kGeneration };
  Test test = Test::kPrompt;
  std::uint32_t threads = 1;
  std::uint32_t tokens = 0;
  std::vector<double> seconds;   // one per repetition; a warm-up before them does not count
  double tokens_per_second = 0;  // of the median repetition
  double deviation = 0;          // standard deviation of tokens/s
};

struct BenchReport {
  std::vector<BenchResult> results;
  std::uint64_t weight_bytes_per_token = 0;  // read by a generation step (embedding: one row)
  std::uint64_t weight_bytes = 0;
  std::string target;
  std::string emulator;  // its command; empty when this processor ran the code
};

/// kUsage when a test does not fit the context, or there is none.
Result<BenchReport> run_bench(const BenchOptions& options, const Progress& progress = {});

}  // namespace llmc::driver
