#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/native.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

namespace llmc::driver {

struct PerplexityOptions {
  NativeOptions native;
  std::uint32_t threads = 1;  // 0: the machine's cores, as far as the model has room for them
  std::vector<std::int32_t> tokens;  // of the text
  /// What a token outside the vocabulary is; kUsage when they came from the command line.
  ErrorKind bad_token = ErrorKind::kBadInput;
  std::int32_t bos = -1;       // put before every window; -1: none
  std::uint32_t window = 256;  // tokens of a window, at most ctx; windows do not overlap
};

struct PerplexityReport {
  double perplexity = 0;  // exp(mean negative log likelihood, nats)
  double mean_nll = 0;
  double standard_error = 0;    // of mean_nll, over windows
  std::uint64_t predicted = 0;  // tokens counted: every token but the first of a window
  double seconds = 0;
  std::string target;
};

/// Perplexity of `tokens` cut into windows, each from an empty cache.
Result<PerplexityReport> measure_perplexity(const PerplexityOptions& options,
                                            const Progress& progress = {});

}  // namespace llmc::driver
