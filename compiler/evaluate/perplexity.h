#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/evaluate/scores.h"
#include "compiler/evaluate/windows.h"
#include "compiler/exec/native.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"

namespace llmc::evaluate {

/// A text, and how it is measured.
struct MeasuredText {
  std::vector<std::int32_t> tokens;  // without a BOS token
  /// Kind of the error for a token outside the vocabulary; kUsage if the tokens are from the
  /// command line.
  ErrorKind bad_token = ErrorKind::kBadInput;
  std::string file = {};           // for messages
  exec::EncoderInput source = {};  // to which an encoder-decoder attends
  WindowOptions windows = {};
};

struct PerplexityOptions {
  exec::NativeOptions native;
  std::uint32_t threads = 1;  // 0: the number of cores, limited to the model's maximum
  MeasuredText text;
  bool divergence = false;  // also compare with f32 weights and an f32 cache
};

struct PerplexityReport {
  /// Perplexity: exp(mean_loss.value); mean_loss: mean of -ln p per token, in nats.
  Estimate perplexity, mean_loss;
  std::uint64_t predicted = 0;  // number of predicted tokens that are counted
  std::size_t windows = 0;
  std::uint32_t window = 0;                      // tokens of a full window
  double seconds = 0;                            // without compilation
  std::string target = {}, quant = {}, kv = {};  // of the compiled model
  plan::Rounding rounding = {};                  // of its weights
  std::optional<Divergence> divergence = std::nullopt;
};

/// Measures the perplexity of a text. The text is cut into windows, and each window starts with an
/// empty cache. A base model, if needed, runs each chunk right after the tested model, so that only
/// the compared rows of logits are stored. Fails like load_native(), start_measuring() and
/// Windows::cut(). Also fails with kUsage if `divergence` is requested for a bundle, with
/// text.bad_token for a token outside the vocabulary, and with kBadInput if the loss or the
/// divergence of a token is not finite.
Result<PerplexityReport> measure_perplexity(const PerplexityOptions& options,
                                            const driver::Progress& progress = {});

/// Measures loaded models; `base` may be nullptr. It must have the same vocabulary and at least the
/// context of `tested` (LLMC_CHECK). `phase`: the name for progress reports.
Result<PerplexityReport> measure_perplexity(const exec::NativeModel& tested,
                                            const exec::NativeModel* base, const MeasuredText& text,
                                            std::uint32_t threads, std::string_view phase,
                                            const driver::Progress& progress);

/// Fails like Windows::cut() if the text cannot be cut into windows of the requested size, whatever
/// the context. Call it before compiling the model.
Status check_length(const MeasuredText& text);

/// Returns `options` with f32 weights and an f32 cache, to compile the base model.
exec::NativeOptions base_options(exec::NativeOptions options);

/// Starts a session with these threads (see measuring_threads) and encodes the source of the text,
/// if it has one. Fails like exec::check_source(), NativeModel::start() and Session::encode().
Result<std::unique_ptr<exec::Session>> start_measuring(const exec::NativeModel& native,
                                                       const MeasuredText& text,
                                                       std::uint32_t threads);

/// Returns `requested`; if it is 0, the number of cores, limited to the model's maximum.
std::uint32_t measuring_threads(std::uint32_t requested, const exec::ModelFacts& model);

}  // namespace llmc::evaluate
