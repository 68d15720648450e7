#pragma once

#include "candidates.h"
#include "history.h"
#include "llmc/llmc.h"

/// Choosing the next token. docs/sampling.md says what the stages do,
/// docs/adding-a-sampler.md what a new one needs.
namespace llmc::core {

// Numbers of the random draws at one position (philox.h).
inline constexpr uint32_t kTokenDraw = 0;
inline constexpr uint32_t kXtcDraw = 1;

/// What stages look at beside the candidates.
struct SamplerContext {
  const llmc_sampling& sampling;
  const TokenHistory& history;
  const llmc_dry_breakers& breakers;

  uint32_t position() const { return history.count(); }  // of the token that is chosen
};

/// A step of the chain: narrows or reshapes the candidates; never leaves none, nor only such with a
/// logit of -infinity. Each is described where it is defined, in sampler_history.cpp and
/// sampler_stages.cpp.
struct SamplerStage {
  uint8_t name;        // LLMC_SAMPLER_…
  bool first;          // needs all tokens in their places (Candidates::by_id) and leaves them there
  bool keeps_best;     // the most likely candidate stays, and stays the most likely
  bool with_mirostat;  // the others do nothing then
  bool (*on)(const llmc_sampling& sampling);
  void (*apply)(Candidates& candidates, const SamplerContext& context);  // when it is on
};
/// The stage LLMC_SAMPLER_…; NULL when there is none.
const SamplerStage* find_stage(uint8_t name);

// The stages' functions.
bool penalties_on(const llmc_sampling& sampling);
bool dry_on(const llmc_sampling& sampling);
bool top_k_on(const llmc_sampling& sampling);
bool tfs_z_on(const llmc_sampling& sampling);
bool typical_p_on(const llmc_sampling& sampling);
bool top_p_on(const llmc_sampling& sampling);
bool min_p_on(const llmc_sampling& sampling);
bool xtc_on(const llmc_sampling& sampling);
bool temperature_on(const llmc_sampling& sampling);
void apply_penalties(Candidates& candidates, const SamplerContext& context);
void apply_dry(Candidates& candidates, const SamplerContext& context);
void apply_top_k(Candidates& candidates, const SamplerContext& context);
void apply_tfs_z(Candidates& candidates, const SamplerContext& context);
void apply_typical_p(Candidates& candidates, const SamplerContext& context);
void apply_top_p(Candidates& candidates, const SamplerContext& context);
void apply_min_p(Candidates& candidates, const SamplerContext& context);
void apply_xtc(Candidates& candidates, const SamplerContext& context);
void apply_temperature(Candidates& candidates, const SamplerContext& context);

/// Tokens that may come next for a reason outside the model, such as a grammar's.
struct TokenFilter {
  /// Writes the words of u32[vocab / 32, rounded up] that is `mask`: bit i % 32 of word i / 32 says
  /// whether token i may come next. Bits behind the vocabulary do not matter. NULL: all may. Called
  /// whenever a choice is made or looked at, perhaps several times at one position.
  void (*allow)(void* state, uint32_t* mask) = nullptr;
  void* state = nullptr;
};

// Mirostat: what is left of the candidates, and its state after a token was drawn from them with a
// probability.
void cut_mirostat_1(Candidates& candidates, float mu, uint32_t vocab);
void cut_mirostat_2(Candidates& candidates, float mu);
float next_mu(const llmc_sampling& sampling, float mu, double probability);

/// Everything a choice depends on.
struct Situation {
  const float* logits;  // [vocab]
  uint32_t vocab;
  uint32_t best;  // the first of the largest logits (llmc_model.head)
  const TokenHistory& history;
  const llmc_sampling& sampling;
  const llmc_logit_bias* biases = nullptr;  // [bias_count], tokens of the vocabulary
  size_t bias_count = 0;
  llmc_dry_breakers breakers = {};
  TokenFilter filter = {};
  /// Logits of the sequence that guides (llmc_set_guidance), with the first of the largest, and how
  /// far to go away from them; NULL: none.
  const float* guide = nullptr;
  uint32_t guide_best = 0;
  float guidance = 1.0f;
  float mu = 0.0f;  // mirostat's state; +0: that of a start. After a token never +0, but maybe -0
};

struct Choice {
  int32_t token;
  float mu;  // the state when the token has been appended
};

/// LLMC_OK, LLMC_ERROR_SAMPLING (not finite or out of range), or LLMC_ERROR_VERSION (reserved words
/// set).
llmc_status check_sampling(const llmc_sampling& sampling);

/// The next token; `room` is for vocab entries. LLMC_ERROR_NOT_FINITE when the largest logit is
/// infinite or all are NaN; single NaN logits count as impossible. LLMC_ERROR_NO_CANDIDATE when
/// biases and filter leave nothing possible.
llmc_status sample_token(const Situation& situation, Candidate* room, Choice* choice);

/// The `n` likeliest next tokens into candidates[*count] (llmc_candidates). Errors of sample_token.
llmc_status likeliest_tokens(const Situation& situation, int which, Candidate* room,
                             llmc_candidate* candidates, size_t n, size_t* count);

/// ln of the softmax of logits[vocab] at `token`; errors of sample_token. `best` as in Situation.
llmc_status log_probability(const float* logits, uint32_t vocab, uint32_t best, uint32_t token,
                            float* logprob);

}  // namespace llmc::core
