#pragma once

#include "candidates.h"
#include "history.h"
#include "llmc/llmc.h"

/// Chooses the next token. docs/sampling.md describes the stages, docs/adding-a-sampler.md how to
/// add one.
namespace llmc::core {

// Stream numbers of the random draws at one position (philox.h).
inline constexpr uint32_t kTokenDraw = 0;
inline constexpr uint32_t kXtcDraw = 1;

/// The data that stages read, in addition to the candidates.
struct SamplerContext {
  const llmc_sampling& sampling;
  const TokenHistory& history;
  const llmc_dry_breakers& breakers;

  uint32_t position() const { return history.count(); }  // position of the token to be chosen
};

/// A stage of the sampler, which removes candidates or changes their logits. It must leave at least
/// one candidate with a finite logit. Each stage is documented at its definition, in
/// sampler_history.cpp or sampler_stages.cpp.
struct SamplerStage {
  uint8_t name;        // LLMC_SAMPLER_…
  bool first;          // must precede other stages: requires and preserves Candidates::by_id
  bool keeps_best;     // the most likely candidate does not change
  bool with_mirostat;  // also runs with mirostat
  /// Returns whether the stage has an effect; apply() is called only then.
  bool (*on)(const llmc_sampling& sampling);
  void (*apply)(Candidates& candidates, const SamplerContext& context);
};
/// Returns the stage with the name LLMC_SAMPLER_…; NULL if there is none.
const SamplerStage* find_stage(uint8_t name);

/// Returns whether mirostat is on; greedy sampling does not use it.
inline bool mirostat_on(const llmc_sampling& sampling) {
  return sampling.mirostat != 0 && sampling.temperature > 0.0f;
}

// Functions of the stages.
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

/// Restricts which tokens may be chosen, for a reason outside the model, such as a grammar.
struct TokenFilter {
  /// Writes all words of `mask`, u32[vocab / 32, rounded up]: bit i % 32 of word i / 32 is set if
  /// token i may come next. Bits past the vocabulary are ignored. NULL: all tokens may come next.
  /// Called whenever a token is chosen or the candidates of the sampler are read, possibly several
  /// times at one position.
  void (*allow)(void* state, uint32_t* mask) = nullptr;
  void* state = nullptr;
};

// Mirostat: functions that remove candidates, and the state after a token was drawn with the given
// probability.
void cut_mirostat_1(Candidates& candidates, float mu, uint32_t vocab);
void cut_mirostat_2(Candidates& candidates, float mu);
float next_mu(const llmc_sampling& sampling, float mu, double probability);

/// Returns whether the parameters choose the most likely token, whatever the other logits are.
bool is_argmax(const llmc_sampling& sampling);

/// The input for choosing a token.
struct SamplerInput {
  const float* logits;  // [vocab]
  uint32_t vocab;
  uint32_t best;  // index of the first maximum of `logits` (llmc_model.head)
  const TokenHistory& history;
  const llmc_sampling& sampling;
  const llmc_logit_bias* biases = nullptr;  // [bias_count], with valid token ids
  size_t bias_count = 0;
  llmc_dry_breakers breakers = {};
  TokenFilter filter = {};
  /// Logits of the guide (llmc_set_guidance), the index of their first maximum, and the scale.
  /// guide is NULL without guidance.
  const float* guide = nullptr;
  uint32_t guide_best = 0;
  float guidance = 1.0f;
  /// Mirostat's state; +0 is the initial state. After a token that mirostat chose, the state is
  /// never +0, but may be -0.
  float mu = 0.0f;
};

struct Choice {
  int32_t token;
  float mu;  // mirostat's state after the token is appended
};

/// Returns LLMC_ERROR_SAMPLING if a parameter is not finite or out of range or the order of the
/// stages is invalid, LLMC_ERROR_VERSION if a reserved word is not zero, else LLMC_OK.
llmc_status check_sampling(const llmc_sampling& sampling);

/// Chooses the next token. `room` is memory for `vocab` candidates. Fails with
/// LLMC_ERROR_NOT_FINITE if the maximum logit of the model or of the guide is infinite, or if all
/// logits are NaN. Otherwise tokens with a NaN logit are never chosen. Fails with
/// LLMC_ERROR_NO_CANDIDATE if biases and filter leave no token.
llmc_status sample_token(const SamplerInput& input, Candidate* room, Choice* choice);

/// Value of `which` for likeliest_tokens(): the logarithms of the model's probabilities plus the
/// biases, not normalized.
inline constexpr int kBiasedCandidates = -1;
/// Writes the `n` most likely next tokens to `candidates` and their number to *count
/// (llmc_candidates). `which`: LLMC_CANDIDATES_… or kBiasedCandidates. Returns the errors of
/// sample_token().
llmc_status likeliest_tokens(const SamplerInput& input, int which, Candidate* room,
                             llmc_candidate* candidates, size_t n, size_t* count);

/// Computes the natural logarithm of the softmax of logits[vocab] at `token`. `best` as in
/// SamplerInput. Fails with LLMC_ERROR_NOT_FINITE like sample_token().
llmc_status log_probability(const float* logits, uint32_t vocab, uint32_t best, uint32_t token,
                            float* logprob);

}  // namespace llmc::core
