#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/draft_model.h"
#include "tools/llmc/options.h"

/// Speculative decoding with drafts from the text itself (--lookup) or another model (--draft).
namespace llmc::cli {

struct LookupOptions {
  CLI::Option* option = nullptr;
  CLI::Option* draft_option = nullptr;
  std::uint32_t tokens = 1;  // maximum number of tokens of a pass; 1: no drafts
  std::string draft_model;   // empty: drafts come from the text

  bool on() const { return tokens > 1; }
  /// Returns the option that turned it on, for messages.
  const char* name() const { return draft_model.empty() ? "--lookup" : "--draft"; }
};

void add_lookup_option(CLI::App& app, LookupOptions& options);
/// Sets the default number of tokens per pass if only --draft is given, and increases the batch of
/// `compile` to the tokens of a pass. Fails with kUsage if --draft is empty or combined with
/// --lookup 1, and with kBadInput if its path does not exist.
Status prepare_lookup(LookupOptions& options, driver::CompileOptions& compile);
/// Turns `options` off, with a note, for a model and sampling parameters with which drafts are not
/// used (speculation.h). Fails with kUsage if the model's batch is smaller than a pass.
Status check_lookup(LookupOptions& options, const exec::ModelFacts& model,
                    const llmc_sampling& sampling, const Globals& globals);

/// Number of passes that had a draft or could have had one, and of the tokens that they appended.
struct LookupPasses {
  std::uint64_t count = 0, tokens = 0;

  /// Returns 0 without passes.
  double tokens_per_pass() const {
    return count == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(count);
  }
  LookupPasses since(const LookupPasses& before) const {
    return {count - before.count, tokens - before.tokens};
  }
};

/// The text in the selected sequence of a session. After a pass with several tokens, the session is
/// ahead of the text: it already contains the next tokens, which sample() then returns one by one.
/// append() with another token drops them. The text and its logits are the same as without lookup.
class LookupText {
 public:
  /// `stop_ids`: no draft continues after these tokens. `drafts`: the draft model; nullptr: drafts
  /// come from the text.
  LookupText(exec::Session& session, const exec::ModelFacts& model, const LookupOptions& options,
             std::vector<std::int32_t> stop_ids, DraftModel* drafts = nullptr)
      : session_(session),
        context_(model.ctx),
        max_tokens_(options.tokens),
        stop_ids_(std::move(stop_ids)),
        drafts_(drafts) {}

  /// Returns the next token of the text. `wanted`: maximum number of tokens that the caller still
  /// needs, including this one.
  Result<std::int32_t> sample(std::size_t wanted = SIZE_MAX);
  Status append(std::span<const std::int32_t> tokens);
  /// Returns the logits after the last token of the text.
  Result<std::span<const float>> logits();
  /// Returns whether the session has tokens that are not in the text.
  bool is_ahead() const { return !ahead_.empty(); }
  /// Drops these tokens. `last`: the last token of the text; its logits are available again.
  Status drop_ahead(std::int32_t last);
  /// Returns the number of tokens in the text.
  std::uint32_t position() const {
    return session_.position() - static_cast<std::uint32_t>(ahead_.size());
  }
  /// Drops the tokens of the text from `position` on.
  Status rewind(std::size_t position);

  /// Returns the passes so far; none without drafts.
  const LookupPasses& passes() const { return passes_; }

 private:
  exec::Session& session_;
  const std::uint32_t context_;
  const std::uint32_t max_tokens_;
  const std::vector<std::int32_t> stop_ids_;
  DraftModel* const drafts_;
  std::deque<std::int32_t> ahead_;    // tokens in the session, but not yet in the text
  std::optional<std::int32_t> stop_;  // token that was sampled after them, but not appended
  std::uint32_t row_ = 0;             // row of the text's last token in the last pass + 1; 0: none
  LookupPasses passes_;
};

/// Returns "; lookup: 2.40 tokens per pass"; empty for 0. `name`: LookupOptions::name().
std::string lookup_text(double tokens_per_pass, std::string_view name);

}  // namespace llmc::cli
