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
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"

namespace llmc::bench {

struct BenchOptions {
  exec::NativeOptions native;
  std::vector<std::uint32_t> threads = {1};
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  /// Numbers of tokens of the prompt tests and of the generation tests; {} or {0}: no test.
  /// Default: 128 and 64, or fewer if the context is smaller.
  std::optional<std::vector<std::uint32_t>> prompts = std::nullopt, generations = std::nullopt;
  /// Numbers of tokens in the cache before a test, in addition to a compiled-in prompt. A
  /// generation test has at least one.
  std::vector<std::uint32_t> depths = {0};
  /// Numbers of sequences that generation tests decode per step.
  std::vector<std::uint32_t> parallel = {1};
  /// Sizes of the sources to encode (tokens, samples or frames). The prompt and generation tests
  /// attend to a source of the last size. {}: 128 tokens, ten seconds of sound at 16 kHz, or all
  /// frames of a spectrogram or an image, but at most the model's limit. Only for encoder-decoders.
  std::vector<std::uint32_t> sources = {};
  /// Also run each generation test without the cache: every step runs all tokens after a
  /// compiled-in prompt again, one sequence after the other. A source is encoded once.
  bool uncached = false;
  std::uint32_t repetitions = 5;
  /// Also measure the time of each Part. No accelerator is used then.
  bool layers = false;
  /// Called immediately before and after the tests, if this machine runs the code, so that its peak
  /// speed can be measured under the same conditions.
  std::function<Status(const struct BenchReport&)> sample = {};
};

/// Seconds per step of a generation test by position; a step generates a token for each sequence.
/// Each value is the minimum of all repetitions, because interference by other programs varies
/// between repetitions but the cost of the cache does not.
struct StepTimes {
  std::uint32_t first_position = 0;  // position of seconds[0]
  std::vector<double> seconds;

  /// Returns the percentile of the times at fraction `part` (0 to 1), by nearest rank.
  double percentile(double part) const;
  /// Returns the index of the largest time.
  std::size_t largest() const;
};

/// Time of each Part of the model in a test.
struct PartTimes {
  PartSeconds seconds{};  // times of the repetition with the median total
  double total() const;
};

struct BenchResult {
  enum class Test : std::uint8_t { kPrompt, kGeneration, kEncode, kEncodeImage, kEncodeAudio };
  Test test = Test::kPrompt;
  std::uint32_t threads = 1;
  /// Tokens per sequence, size of a source, or rows of an image or a sound; cached tokens.
  std::uint32_t tokens = 0, depth = 0;
  std::uint32_t sequences = 1;
  bool uncached = false;            // a generation test that runs all tokens in each step
  std::vector<double> seconds;      // one per repetition, without the warm-up
  double tokens_per_second = 0;     // for all sequences together, from the median time
  double deviation = 0;             // standard deviation of tokens/s
  double minimum = 0, maximum = 0;  // tokens/s
  StepTimes steps = {};             // times of a generation test
  /// Mean fraction of the logits that a generation step computed (llmc_logits_computed).
  double logits_computed = 1;
  std::optional<PartTimes> parts = std::nullopt;

  std::uint64_t all_tokens() const { return std::uint64_t{tokens} * sequences; }
};

struct BenchReport {
  /// By number of threads. For each number: by depth, with prompts before generations; then the
  /// tests of encoders.
  std::vector<BenchResult> results;
  /// Weights read by one generation step, with one row of the embedding.
  std::uint64_t weight_bytes_per_token = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t arena_bytes = 0, cache_bytes = 0;  // of a session, and of its KV cache
  /// Products for one token; empty if the bundle does not list them.
  std::vector<plan::Products> products;
  std::vector<plan::CacheReads> cache_reads;  // empty if the bundle does not list them
  std::string target, quant;
  plan::Rounding rounding;  // of the weights
  std::uint32_t opt_level = 0;
  std::string emulator;  // the emulator's command; empty if this processor ran the code
  exec::HugePageUse huge_pages;
  std::vector<exec::DeviceUse> devices = {};  // use of the accelerator, by number of threads

  /// Returns the multiply-adds of `products` in a whole test with the cache. In a prompt test, the
  /// head is computed only once. Returns 0 for tests of encoders, whose products are not listed.
  double macs(const BenchResult& result, const plan::Products& products) const;
  /// Return the bytes of the weights of `products`, and of all weights, that a step of a generation
  /// test reads. Bytes that are read only for logits that the step does not compute are excluded.
  double bytes_read(const BenchResult& result, const plan::Products& products) const;
  double weight_bytes_read(const BenchResult& result) const;
  /// Returns the bytes of cached keys and values that a whole generation test with the cache reads,
  /// without those of a source.
  double cache_bytes_read(const BenchResult& result) const;
};

/// Runs all tests. Fails like load_native(), like load_with_stage_times() with `layers`, and with
/// the error of `sample`. Fails with kUsage if there is no test, if a test exceeds the context or
/// the maximum number of sequences, if a source has a size that the encoder does not accept, or if
/// `sources` is set for a decoder.
Result<BenchReport> run_bench(const BenchOptions& options, const driver::Progress& progress = {});

}  // namespace llmc::bench
