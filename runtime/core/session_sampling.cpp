#include "config.h"
#include "forward.h"
#include "logits.h"
#include "message.h"

// Implements the functions of llmc.h that choose tokens.
namespace llmc::core {
namespace {

/// Checks that there are logits and that the thread has the default floating-point mode.
llmc_status check_logits(const Sequence& sequence) {
  if (!sequence.has_row) return LLMC_ERROR_NO_LOGITS;
  return float_mode_is_default() ? LLMC_OK : LLMC_ERROR_FLOAT_MODE;
}

/// Calls look(input), where `input` contains only the model's logits for the sequence's next token.
template <class Look>
llmc_status look_at_model(llmc_session& session, Sequence& sequence, Look look) {
  if (const llmc_status bad = check_logits(sequence)) return bad;
  const float* const logits = last_logits(session, sequence);
  const TokenHistory history = session.cache.history(sequence.cached);
  return look(SamplerInput{.logits = logits,
                           .vocab = session.model->vocab,
                           .best = session.best[sequence.logits.slot],
                           .history = history,
                           .sampling = sequence.sampling});
}

/// Calls look(input), where `input` contains all inputs of the sequence's next choice.
template <class Look>
llmc_status look_at(llmc_session& session, Sequence& sequence, Look look) {
  if (const llmc_status bad = check_logits(sequence)) return bad;
  const Guidance& guidance = sequence.constraints.guidance;
  Sequence* const guide = guidance.on ? &session.sequence(guidance.sequence) : nullptr;
  if (guide != nullptr) {
    if (!guide->has_row) return LLMC_ERROR_NO_LOGITS;
    compute_both_logits(session, sequence, *guide);
  }
  const float* const logits = last_logits(session, sequence);
  const TokenHistory history = session.cache.history(sequence.cached);
  const GrammarHook& grammar = sequence.constraints.grammar;
  if (grammar.grammar != nullptr) {
    const llmc_status bad = grammar.follow(grammar, history);
    if (bad == LLMC_ERROR_POSITION) {
      Message()
          .text("the grammar's text begins at position ")
          .number(grammar.from)
          .text(", and only ")
          .number(history.count())
          .text(" tokens are there: append its prompt, or call llmc_set_grammar")
          .send(session.config, LLMC_LOG_ERROR);
    }
    if (bad != LLMC_OK) return bad;
  }
  const SamplerInput input{.logits = logits,
                           .vocab = session.model->vocab,
                           .best = session.best[sequence.logits.slot],
                           .history = history,
                           .sampling = sequence.sampling,
                           .biases = sequence.constraints.biases,
                           .bias_count = sequence.constraints.bias_count,
                           .breakers = sequence.constraints.breakers,
                           .filter = {grammar.allow, grammar.grammar},
                           .guide = guide != nullptr ? last_logits(session, *guide) : nullptr,
                           .guide_best = guide != nullptr ? session.best[guide->logits.slot] : 0,
                           .guidance = guidance.scale,
                           .mu = session.cache.mu(sequence.cached)};
  return look(input);
}

llmc_status outside(const llmc_session& session, int32_t token) {
  return refuse_token(session.config, token, session.model->vocab);
}

bool known(const llmc_session& session, int32_t token) {
  return is_token(token, session.model->vocab);
}

llmc_status check_biases(const llmc_session& session, const llmc_logit_bias* biases, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (!known(session, biases[i].token)) return outside(session, biases[i].token);
    if (!(biases[i].bias < __builtin_inff())) return LLMC_ERROR_SAMPLING;
  }
  return LLMC_OK;
}

llmc_status check_breakers(const llmc_session& session, const llmc_dry_breakers& breakers) {
  if (breakers.count == 0) return LLMC_OK;
  if (breakers.heads == nullptr || breakers.tail_begins == nullptr) return LLMC_ERROR_ARGUMENT;
  for (uint32_t i = 0; i < breakers.count; ++i) {
    if (!known(session, breakers.heads[i])) return outside(session, breakers.heads[i]);
    const bool in_order = (i == 0 || breakers.heads[i - 1] <= breakers.heads[i]) &&
                          breakers.tail_begins[i] <= breakers.tail_begins[i + 1];
    if (!in_order) return LLMC_ERROR_SAMPLING;
  }
  const uint32_t first = breakers.tail_begins[0], end = breakers.tail_begins[breakers.count];
  if (first < end && breakers.tails == nullptr) return LLMC_ERROR_ARGUMENT;
  for (uint32_t i = first; i < end; ++i)
    if (!known(session, breakers.tails[i])) return outside(session, breakers.tails[i]);
  return LLMC_OK;
}

}  // namespace

llmc_status biased_candidates(llmc_session& session, Sequence& sequence, llmc_candidate* candidates,
                              size_t n, size_t* count) {
  return look_at(session, sequence, [&](const SamplerInput& input) {
    return likeliest_tokens(input, kBiasedCandidates, session.candidates, candidates, n, count);
  });
}

llmc_status draw_next(llmc_session& session, Sequence& sequence, DrawnToken& drawn) {
  Choice choice{};
  if (can_skip_logits(session, sequence)) {
    if (const llmc_status bad = check_logits(sequence)) return bad;
    if (const llmc_status bad = choose_best(session, sequence, &choice.token)) return bad;
    choice.mu = session.cache.mu(sequence.cached);
    drawn = {choice, sequence.cached.position, true};
    return LLMC_OK;
  }
  const llmc_status status = look_at(session, sequence, [&](const SamplerInput& input) {
    return sample_token(input, session.candidates, &choice);
  });
  if (status != LLMC_OK) return status;
  if (session.whole_choices > 0) --session.whole_choices;
  session.logits_computed = session.model->vocab;
  drawn = {choice, sequence.cached.position, true};
  return LLMC_OK;
}

}  // namespace llmc::core

using llmc::core::ReentrancyGuard;
using llmc::core::Sequence;

extern "C" {

llmc_status llmc_sample(llmc_session* session, int32_t* token) {
  if (session == nullptr || token == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const ReentrancyGuard guard(*session);
  Sequence& sequence = session->selected();
  if (const llmc_status bad = llmc::core::draw_next(*session, sequence, sequence.drawn)) return bad;
  *token = sequence.drawn.choice.token;
  return LLMC_OK;
}

llmc_status llmc_set_sampling(llmc_session* session, const llmc_sampling* sampling) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const llmc_sampling wanted = sampling != nullptr ? *sampling : llmc_sampling{};
  if (const llmc_status bad = llmc::core::check_sampling(wanted)) return bad;
  session->selected().sampling = wanted;
  return LLMC_OK;
}

llmc_status llmc_set_logit_bias(llmc_session* session, const llmc_logit_bias* biases, size_t n) {
  if (session == nullptr || (biases == nullptr && n > 0)) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (const llmc_status bad = llmc::core::check_biases(*session, biases, n)) return bad;
  session->selected().constraints.biases = biases;
  session->selected().constraints.bias_count = n;
  return LLMC_OK;
}

llmc_status llmc_set_guidance(llmc_session* session, uint32_t guide, float scale) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const bool finite = scale > -__builtin_inff() && scale < __builtin_inff();
  if (!finite) return LLMC_ERROR_SAMPLING;
  llmc::core::Guidance& guidance = session->selected().constraints.guidance;
  if (scale == 1.0f) {
    guidance = {};
    return LLMC_OK;
  }
  if (!llmc::core::exists(*session, guide)) return LLMC_ERROR_SEQUENCE;
  // A step appends one token to each sequence, so a guide must guide only one sequence and must not
  // be guided itself.
  const uint32_t current = session->current;
  if (guide == current || session->model->batch < 2 ||
      llmc::core::guides_another(*session, guide, current) ||
      llmc::core::guides_another(*session, current, current) ||
      session->sequence(guide).constraints.guidance.on) {
    return LLMC_ERROR_ARGUMENT;
  }
  guidance = {true, guide, scale};
  return LLMC_OK;
}

llmc_status llmc_set_dry_breakers(llmc_session* session, const llmc_dry_breakers* breakers) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const llmc_dry_breakers wanted = breakers != nullptr ? *breakers : llmc_dry_breakers{};
  if (const llmc_status bad = llmc::core::check_breakers(*session, wanted)) return bad;
  session->selected().constraints.breakers = wanted;
  return LLMC_OK;
}

llmc_status llmc_candidates(llmc_session* session, int which, llmc_candidate* candidates, size_t n,
                            size_t* count) {
  using namespace llmc::core;
  if (session == nullptr || count == nullptr || (candidates == nullptr && n > 0) ||
      (which != LLMC_CANDIDATES_MODEL && which != LLMC_CANDIDATES_SAMPLER)) {
    return LLMC_ERROR_ARGUMENT;
  }
  if (session->busy) return LLMC_ERROR_BUSY;
  const ReentrancyGuard guard(*session);
  const auto look = [&](const SamplerInput& input) {
    return likeliest_tokens(input, which, session->candidates, candidates, n, count);
  };
  return which == LLMC_CANDIDATES_MODEL ? look_at_model(*session, session->selected(), look)
                                        : look_at(*session, session->selected(), look);
}

llmc_status llmc_logprob(llmc_session* session, int32_t token, float* logprob) {
  using namespace llmc::core;
  if (session == nullptr || logprob == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (!known(*session, token)) return outside(*session, token);
  const ReentrancyGuard guard(*session);
  return look_at_model(*session, session->selected(), [&](const SamplerInput& input) {
    return log_probability(input.logits, input.vocab, input.best, static_cast<uint32_t>(token),
                           logprob);
  });
}

}  // extern "C"
