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

/// What is read, and how.
struct MeasuredText {
  std::vector<std::int32_t> tokens;  // without a beginning token
  /// What a token outside the vocabulary is; kUsage when they came from the command line.
  ErrorKind bad_token = ErrorKind::kBadInput;
  std::string file = {};  // for messages
  WindowOptions windows = {};
};

struct PerplexityOptions {
  exec::NativeOptions native;
  std::uint32_t threads = 1;  // 0: the machine's cores, as far as the model has room for them
  MeasuredText text;
  bool divergence = false;  // also from the same model with f32 weights and an f32 cache
};

struct PerplexityReport {
  Estimate perplexity, mean_loss;  // exp(mean_loss.value); -ln p of a token, nats
  std::uint64_t predicted = 0;     // tokens counted
  std::size_t windows = 0;
  std::uint32_t window = 0;  // tokens of a whole one
  double seconds = 0;        // without compiling
  std::string target = {};
  std::optional<Divergence> divergence = std::nullopt;
};

/// Perplexity of a text cut into windows, each read from an empty cache. A base is read in step
/// with the model, a chunk of tokens after the other, so no logits are stored but the rows being
/// compared. Errors: of load_native and Windows::cut; kUsage for `divergence` of a bundle;
/// kBadInput for logits that are no numbers.
Result<PerplexityReport> measure_perplexity(const PerplexityOptions& options,
                                            const driver::Progress& progress = {});

/// The same of loaded models; `base` may be null. `phase` is what progress calls it.
Result<PerplexityReport> measure_perplexity(const exec::NativeModel& tested,
                                            const exec::NativeModel* base, const MeasuredText& text,
                                            std::uint32_t threads, std::string_view phase,
                                            const driver::Progress& progress);

/// kBadInput when the text is too short whatever the model's context turns out to be: to be said
/// before a model is compiled.
Status check_length(const MeasuredText& text);

/// The options for what others are measured against: f32 weights and an f32 cache.
exec::NativeOptions base_options(exec::NativeOptions options);

/// `asked`, or if that is 0 the machine's cores, as far as the model has room for them.
std::uint32_t measuring_threads(std::uint32_t asked, const exec::ModelInfo& model);

}  // namespace llmc::evaluate
