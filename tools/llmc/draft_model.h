#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/options.h"
#include "tools/llmc/sampling_options.h"

namespace llmc::cli {

/// Decides whether drafts save time. Compares the time per token of passes with and without drafts,
/// first after a few passes of each, then again from time to time.
class DraftPace {
 public:
  /// Returns whether the next pass has a draft.
  bool drafts() const { return drafts_; }
  /// Adds a pass that appended `tokens`.
  void note(double seconds, std::uint32_t tokens);

 private:
  struct Passes {
    double seconds = 0;
    std::uint32_t tokens = 0;
    double per_token() const { return seconds / tokens; }
  };
  static constexpr std::uint32_t kTrial = 4, kLong = 64;  // numbers of passes

  Passes with_, without_;
  bool drafts_ = true, is_trial_ = false, is_first_ = true;
  std::uint32_t count_ = 0, limit_ = kTrial;
};

/// Reason why a model runs tokens in single steps (ModelFacts::single_steps), as the object of
/// "it has".
inline constexpr const char* kSingleStepsReason =
    "recurrent states, or position scales that depend on the length of the text";

/// The draft model of speculative decoding (--draft): a smaller model that proposes tokens to the
/// main model. It samples with the same parameters and the same random draws as the main model.
class DraftModel {
 public:
  /// Loads `path` to draft up to `most` tokens for `model`. Compiles it with the options `like`,
  /// except those that a draft model does not need (such as sequences and calibration), and with
  /// the context of `model`, limited to the context for which the draft model was trained. Returns
  /// nullptr if `path` is empty. Fails with kUsage if its vocabulary has another size, or if it is
  /// an encoder-decoder or runs tokens in single steps (ModelFacts::single_steps). Fails with
  /// kUsage if `model` runs under an emulator or on several ranks, and like load().
  static Result<std::unique_ptr<DraftModel>> load(const std::string& path, const ModelOptions& like,
                                                  const exec::NativeModel& model,
                                                  const exec::SessionOptions& options,
                                                  const SamplingOptions& sampling,
                                                  const hosted::Tokenizer* tokenizer,
                                                  std::uint32_t most, const Globals& globals);

  /// Chooses and appends up to `most` tokens to the selected sequence of `session` in one pass.
  /// Returns the tokens of llmc_step_draft.
  Result<std::vector<std::int32_t>> step(exec::Session& session, std::size_t most,
                                         std::span<const std::int32_t> stop_ids);

 private:
  DraftModel(std::unique_ptr<exec::NativeModel> model, std::unique_ptr<exec::Session> session,
             std::uint32_t most)
      : model_(std::move(model)), session_(std::move(session)), most_(most), length_(most) {}
  /// Appends tokens that probably follow `text` to `draft`, until it has `most` tokens. If the
  /// session fails, for example because its pool of blocks is full, the draft stays shorter.
  /// Returns whether the session first had to prefill more than `most_` tokens of `text`.
  bool append_draft(std::vector<std::int32_t> text, std::size_t most,
                    std::vector<std::int32_t>& draft);

  std::unique_ptr<exec::NativeModel> model_;
  std::unique_ptr<exec::Session> session_;
  std::vector<std::int32_t> tokens_;  // in the cache of session_
  std::size_t most_, length_;         // maximum and current number of tokens of a draft
  DraftPace pace_;
};

}  // namespace llmc::cli
