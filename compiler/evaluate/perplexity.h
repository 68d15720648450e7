#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/evaluate/scores.h"
#include "compiler/evaluate/windows.h"
#include "compiler/exec/native.h"
#include "compiler/support/result.h"

namespace llmc::evaluate {

/// The text and the options of a measurement.
struct MeasuredText {
  std::vector<std::int32_t> tokens;  // without a BOS token
  /// Error for a token outside the vocabulary; kUsage for tokens from the command line.
  ErrorKind bad_token = ErrorKind::kBadInput;
  std::string file = {};  // for messages
  WindowOptions windows = {};
};

struct PerplexityOptions {
  exec::NativeOptions native;
  std::uint32_t threads = 1;  // 0: the number of cores, at most the model's maximum
  MeasuredText text;
  bool divergence = false;  // also compare with f32 weights and an f32 cache
};

struct PerplexityReport {
  Estimate perplexity, mean_loss;  // exp(mean_loss.value); -ln p of a token, nats
  std::uint64_t predicted = 0;     // tokens counted
  std::size_t windows = 0;
  std::uint32_t window = 0;  // tokens of a full window
  double seconds = 0;        // excluding compilation
  std::string target = {};
  std::optional<Divergence> divergence = std::nullopt;
};

/// Perplexity of a text in windows, each processed from an empty cache. A base model runs in
/// lockstep, chunk by chunk, so that only the compared rows of logits are stored. Errors: those of
/// load_native and Windows::cut; kUsage for `divergence` of a bundle; kBadInput for NaN logits.
Result<PerplexityReport> measure_perplexity(const PerplexityOptions& options,
                                            const driver::Progress& progress = {});

/// The same for loaded models; `base` may be null. `phase`: name for progress reports.
Result<PerplexityReport> measure_perplexity(const exec::NativeModel& tested,
                                            const exec::NativeModel* base, const MeasuredText& text,
                                            std::uint32_t threads, std::string_view phase,
                                            const driver::Progress& progress);

/// kBadInput if the text is too short for any context; call it before compiling the model.
Status check_length(const MeasuredText& text);

/// Options of the base of comparisons: f32 weights and an f32 cache.
exec::NativeOptions base_options(exec::NativeOptions options);

/// `requested`; 0: the number of cores, at most the model's maximum.
std::uint32_t measuring_threads(std::uint32_t requested, const exec::ModelFacts& model);

}  // namespace llmc::evaluate
