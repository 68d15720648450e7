#include "sampler.h"

#include "exact_log.h"
#include "philox.h"

namespace llmc::core {
namespace {

constexpr float kInfinity = __builtin_inff();

// All stages in the default order. Without some of the stages it equals llama.cpp's order of 2024
// (penalties, top_k, tfs_z, typical_p, top_p, min_p, temperature) or its present order (penalties,
// dry, top_k, typical_p, top_p, min_p, xtc, temperature).
constexpr SamplerStage kChain[] = {
    // name, first, keeps_best, with_mirostat
    {LLMC_SAMPLER_PENALTIES, true, false, true, penalties_on, apply_penalties},
    {LLMC_SAMPLER_DRY, true, false, true, dry_on, apply_dry},
    {LLMC_SAMPLER_TOP_K, false, true, false, top_k_on, apply_top_k},
    {LLMC_SAMPLER_TFS_Z, false, true, false, tfs_z_on, apply_tfs_z},
    {LLMC_SAMPLER_TYPICAL_P, false, false, false, typical_p_on, apply_typical_p},
    {LLMC_SAMPLER_TOP_P, false, true, false, top_p_on, apply_top_p},
    {LLMC_SAMPLER_MIN_P, false, true, false, min_p_on, apply_min_p},
    {LLMC_SAMPLER_XTC, false, false, false, xtc_on, apply_xtc},
    {LLMC_SAMPLER_TEMPERATURE, false, true, true, temperature_on, apply_temperature},
};

using Order = uint8_t[sizeof(llmc_sampling::samplers)];
constexpr Order kOrders[] = {
    {},
    {LLMC_SAMPLER_PENALTIES, LLMC_SAMPLER_TOP_K, LLMC_SAMPLER_TFS_Z, LLMC_SAMPLER_TYPICAL_P,
     LLMC_SAMPLER_TOP_P, LLMC_SAMPLER_MIN_P, LLMC_SAMPLER_TEMPERATURE},
    {LLMC_SAMPLER_PENALTIES, LLMC_SAMPLER_DRY, LLMC_SAMPLER_TOP_K, LLMC_SAMPLER_TYPICAL_P,
     LLMC_SAMPLER_TOP_P, LLMC_SAMPLER_MIN_P, LLMC_SAMPLER_XTC, LLMC_SAMPLER_TEMPERATURE},
};

bool finite(float value) {
  return value > -kInfinity && value < kInfinity;
}

bool has_largest(const SamplerInput& at) {
  return finite(at.logits[at.best]) && (at.guide == nullptr || finite(at.guide[at.guide_best]));
}

/// Calls take(stage) for each enabled stage, in the order of the parameters.
template <class Take>
void each_stage(const llmc_sampling& sampling, Take take) {
  const bool mirostat = mirostat_on(sampling);
  const auto one = [&](const SamplerStage& stage) {
    if (stage.on(sampling) && (stage.with_mirostat || !mirostat)) take(stage);
  };
  if (sampling.samplers[0] == 0) {
    for (const SamplerStage& stage : kChain) one(stage);
  }
  for (const uint8_t name : sampling.samplers) {
    if (name == 0) return;
    one(*find_stage(name));
  }
}

/// Returns the filter's word for tokens 32·index to 32·index + 31. `mask` may overlap the memory to
/// which candidates are written.
uint32_t mask_word(const unsigned char* mask, uint32_t index) {
  uint32_t word;
  __builtin_memcpy(&word, mask + size_t{index} * sizeof word, sizeof word);
  return word;
}

/// Runs the filter, if any, and returns its mask. The mask is at the end of `room`, which
/// candidates fill from the front. Word i / 32 and all later words stay valid until candidate i is
/// written.
const unsigned char* run_filter(const SamplerInput& at, Candidate* room) {
  const uint32_t words = at.vocab / 32 + (at.vocab % 32 != 0);
  unsigned char* const mask =
      reinterpret_cast<unsigned char*>(room + at.vocab) - size_t{words} * sizeof(uint32_t);
  at.filter.allow(at.filter.state, reinterpret_cast<uint32_t*>(mask));
  return mask;
}

/// Returns the maximum of 32 logits, ignoring NaN; -infinity if all are NaN. Processes eight logits
/// at a time, for SIMD.
float largest_of_word(const float* logits) {
  constexpr uint32_t kLanes = 8;
  float lanes[kLanes];
  for (float& lane : lanes) lane = -kInfinity;
  for (uint32_t i = 0; i < 32; i += kLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[i + lane];
      lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];
    }
  }
  float largest = lanes[0];
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

/// Calls take(logit, id), in order of ids, for the tokens that the mask allows (NULL: all tokens).
/// Skips groups of 32 tokens in which no logit is greater than least().
template <class Least, class Take>
void each_above(const SamplerInput& at, const unsigned char* mask, Least least, Take take) {
  for (uint32_t first = 0; first < at.vocab; first += 32) {
    uint32_t bits = mask != nullptr ? mask_word(mask, first / 32) : UINT32_MAX;
    const uint32_t left = at.vocab - first;
    if (left < 32) bits &= (1u << left) - 1;
    if (bits == 0) continue;
    if (left >= 32 && !(largest_of_word(at.logits + first) > least())) continue;
    for (; bits != 0; bits &= bits - 1) {
      const uint32_t id = first + static_cast<uint32_t>(__builtin_ctz(bits));
      if (at.logits[id] > least()) take(at.logits[id], id);
    }
  }
}

/// Finds the first maximum of the logits of the tokens that the filter allows.
llmc_status best_allowed(const SamplerInput& at, Candidate* room, int32_t* token) {
  const unsigned char* const mask = run_filter(at, room);
  *token = static_cast<int32_t>(at.best);
  if ((mask_word(mask, at.best / 32) >> at.best % 32 & 1) != 0) return LLMC_OK;
  float largest = -kInfinity;
  each_above(
      at, mask, [&] { return largest; },
      [&](float logit, uint32_t id) {
        largest = logit;
        *token = static_cast<int32_t>(id);
      });
  return largest == -kInfinity ? LLMC_ERROR_NO_CANDIDATE : LLMC_OK;
}

/// Returns ln of the sum of e^logit over all tokens.
double log_sum(const float* logits, uint32_t vocab, uint32_t best) {
  const double largest = double{logits[best]};
  double total = 0.0;
  each_exp(
      vocab, [&](uint32_t i) { return double{logits[i]} - largest; },
      [&](uint32_t, double power) { total += power; });
  return largest + exact_log(total);
}

/// The logits of the model; NaN becomes -infinity.
struct PlainLogits {
  const float* logits;
  float operator()(uint32_t i) const { return logits[i] >= -kInfinity ? logits[i] : -kInfinity; }
};

/// Guided logits: q + guidance · (p - q), where p and q are the logarithms of both softmaxes
/// (arXiv:2306.17806, equation 7; llama.cpp's --cfg-scale). If the guide's logit is -infinity or
/// NaN, the result is p.
class GuidedLogits {
 public:
  explicit GuidedLogits(const SamplerInput& at)
      : at_(at),
        own_(log_sum(at.logits, at.vocab, at.best)),
        guide_(log_sum(at.guide, at.vocab, at.guide_best)) {}

  float operator()(uint32_t i) const {
    if (!(at_.logits[i] > -kInfinity)) return -kInfinity;
    const double own = double{at_.logits[i]} - own_;
    if (!(at_.guide[i] > -kInfinity)) return to_logit(own);
    const double guide = double{at_.guide[i]} - guide_;
    return to_logit(guide + double{at_.guidance} * (own - guide));
  }

 private:
  const SamplerInput& at_;
  const double own_, guide_;
};

/// Fills `room` with all tokens and their logits before the stages. Tokens that the filter forbids
/// get -infinity.
template <class LogitOf>
void fill(const SamplerInput& at, Candidate* room, const unsigned char* mask,
          const LogitOf& logit_of) {
  uint32_t bits = ~0u;
  for (uint32_t i = 0; i < at.vocab; ++i) {
    if (i % 32 == 0 && mask != nullptr) bits = mask_word(mask, i / 32);
    const bool possible = (bits >> i % 32 & 1) != 0;
    room[i] = {possible ? logit_of(i) : -kInfinity, static_cast<int32_t>(i)};
  }
}

/// Returns all tokens with the model's logits.
Candidates all_tokens(const SamplerInput& at, Candidate* room) {
  fill(at, room, nullptr, PlainLogits{at.logits});
  return {room, at.vocab, at.logits[at.best], false, true};
}

/// Returns all tokens after guidance, filter and biases.
llmc_status possible_tokens(const SamplerInput& at, Candidate* room, Candidates* candidates) {
  *candidates = {room, at.vocab, at.logits[at.best], false, true};
  const unsigned char* const mask = at.filter.allow != nullptr ? run_filter(at, room) : nullptr;
  if (at.guide != nullptr) {
    fill(at, room, mask, GuidedLogits(at));
  } else {
    fill(at, room, mask, PlainLogits{at.logits});
    if (mask == nullptr && at.bias_count == 0) return LLMC_OK;
  }
  for (size_t i = 0; i < at.bias_count; ++i) {
    Candidate& candidate = room[at.biases[i].token];
    candidate.logit = moved(candidate.logit, double{at.biases[i].bias});
  }
  candidates->best = largest_logit(*candidates);
  return candidates->best == -kInfinity ? LLMC_ERROR_NO_CANDIDATE : LLMC_OK;
}

/// Returns whether top_k is the first stage and likeliest_possible() can compute its result.
bool begins_with_top_k(const SamplerInput& at) {
  const SamplerStage* first = nullptr;
  each_stage(at.sampling, [&](const SamplerStage& stage) {
    if (first == nullptr) first = &stage;
  });
  // More candidates would overwrite the mask, which is in the same memory.
  return first != nullptr && first->name == LLMC_SAMPLER_TOP_K && at.bias_count == 0 &&
         at.guide == nullptr && static_cast<uint32_t>(at.sampling.top_k) <= at.vocab / 2;
}

/// Computes the result of possible_tokens() and top_k without creating all candidates: the same
/// candidates in the same order.
llmc_status likeliest_possible(const SamplerInput& at, Candidate* room, Candidates* candidates) {
  const uint32_t k = static_cast<uint32_t>(at.sampling.top_k);
  const unsigned char* const mask = at.filter.allow != nullptr ? run_filter(at, room) : nullptr;
  uint32_t count = 0;
  // A heap of the best k candidates so far, with the worst at the root. Equal logits are read in
  // order of ids, so the later ones are dropped.
  each_above(
      at, mask, [&] { return count < k ? -kInfinity : room[0].logit; },
      [&](float logit, uint32_t id) {
        const Candidate candidate{logit, static_cast<int32_t>(id)};
        if (count == k) {
          room[0] = candidate;
          sift_down(room, k, 0, Better{});
          return;
        }
        room[count++] = candidate;
        if (count < k) return;
        for (uint32_t i = k / 2; i-- > 0;) sift_down(room, k, i, Better{});
      });
  if (count == 0) return LLMC_ERROR_NO_CANDIDATE;
  const uint32_t possible = count;
  for (uint32_t id = 0; count < k; ++id) {  // add the first impossible tokens
    const bool allowed = mask == nullptr || (mask_word(mask, id / 32) >> id % 32 & 1) != 0;
    if (!allowed || !(at.logits[id] > -kInfinity))
      room[count++] = {-kInfinity, static_cast<int32_t>(id)};
  }
  select_best(room, possible, possible);
  *candidates = {room, k, room[0].logit, true, false};
  return LLMC_OK;
}

/// Returns the candidates for the first stage.
llmc_status first_candidates(const SamplerInput& at, Candidate* room, Candidates* candidates) {
  return begins_with_top_k(at) ? likeliest_possible(at, room, candidates)
                               : possible_tokens(at, room, candidates);
}

float mu_of(const SamplerInput& at) {
  if (__builtin_bit_cast(uint32_t, at.mu) != 0) return at.mu;
  return moved(0.0f, 2.0 * double{at.sampling.mirostat_ent});
}

void run_chain(const SamplerInput& at, Candidates& candidates) {
  const SamplerContext context{at.sampling, at.history, at.breakers};
  each_stage(at.sampling, [&](const SamplerStage& stage) { stage.apply(candidates, context); });
  // Greedy sampling must also work if the order has no temperature stage.
  if (at.sampling.temperature <= 0.0f && candidates.count > 1)
    apply_temperature(candidates, context);
  if (!mirostat_on(at.sampling)) return;
  if (at.sampling.mirostat == 1) {
    cut_mirostat_1(candidates, mu_of(at), at.vocab);
  } else {
    cut_mirostat_2(candidates, mu_of(at));
  }
}

}  // namespace

const SamplerStage* find_stage(uint8_t name) {
  for (const SamplerStage& stage : kChain)
    if (stage.name == name) return &stage;
  return nullptr;
}

llmc_status check_sampling(const llmc_sampling& sampling) {
  for (const uint32_t word : sampling.reserved)
    if (word != 0) return LLMC_ERROR_VERSION;
  const float numbers[] = {sampling.temperature,
                           sampling.top_p,
                           sampling.min_p,
                           sampling.tfs_z,
                           sampling.typical_p,
                           sampling.xtc_probability,
                           sampling.xtc_threshold,
                           sampling.repeat_penalty,
                           sampling.frequency_penalty,
                           sampling.presence_penalty,
                           sampling.dry_multiplier,
                           sampling.dry_base,
                           sampling.mirostat_lr,
                           sampling.mirostat_ent};
  for (const float number : numbers)
    if (!finite(number)) return LLMC_ERROR_SAMPLING;
  const bool in_range = sampling.repeat_penalty >= 0.0f && sampling.repeat_last_n >= -1 &&
                        sampling.dry_penalty_last_n >= -1 && sampling.dry_allowed_length >= 0 &&
                        sampling.mirostat >= 0 && sampling.mirostat <= 2;
  if (!in_range) return LLMC_ERROR_SAMPLING;
  bool ended = false, first = true;
  for (const uint8_t name : sampling.samplers) {
    ended = ended || name == 0;
    if (name == 0) continue;
    const SamplerStage* const stage = find_stage(name);
    if (ended || stage == nullptr || (stage->first && !first)) return LLMC_ERROR_SAMPLING;
    first = stage->first;
  }
  return LLMC_OK;
}

bool is_argmax(const llmc_sampling& sampling) {
  bool best_stays = true;
  each_stage(sampling,
             [&](const SamplerStage& stage) { best_stays = best_stays && stage.keeps_best; });
  return sampling.temperature <= 0.0f && best_stays;
}

llmc_status sample_token(const SamplerInput& at, Candidate* room, Choice* choice) {
  if (!has_largest(at)) return LLMC_ERROR_NOT_FINITE;
  if (at.bias_count == 0 && at.guide == nullptr && is_argmax(at.sampling)) {
    int32_t token = static_cast<int32_t>(at.best);
    if (at.filter.allow != nullptr) {
      if (const llmc_status bad = best_allowed(at, room, &token)) return bad;
    }
    *choice = {token, at.mu};
    return LLMC_OK;
  }
  Candidates candidates;
  if (const llmc_status bad = first_candidates(at, room, &candidates)) return bad;
  run_chain(at, candidates);
  const Drawn drawn =
      draw(candidates, uniform_draw(at.sampling.seed, at.history.count(), kTokenDraw));
  choice->token = drawn.token;
  choice->mu = at.mu;
  if (mirostat_on(at.sampling)) {
    const float mu = next_mu(at.sampling, mu_of(at), drawn.probability);
    choice->mu = mu != 0.0f ? mu : -0.0f;  // +0 means the initial state
  }
  return LLMC_OK;
}

llmc_status likeliest_tokens(const SamplerInput& at, int which, Candidate* room,
                             llmc_candidate* likeliest, size_t n, size_t* count) {
  if (!has_largest(at)) return LLMC_ERROR_NOT_FINITE;
  Candidates candidates;
  double log_total = 0.0;  // logarithm of the sum of the weights, which are relative to
                           // candidates.best
  if (which == kBiasedCandidates) {
    if (const llmc_status bad = possible_tokens(at, room, &candidates)) return bad;
    log_total = log_sum(at.logits, at.vocab, at.best) - double{candidates.best};
  } else if (which == LLMC_CANDIDATES_MODEL) {
    candidates = all_tokens(at, room);
    log_total = exact_log(total_weight(candidates));
  } else {
    if (const llmc_status bad = first_candidates(at, room, &candidates)) return bad;
    run_chain(at, candidates);
    log_total = exact_log(total_weight(candidates));
  }
  if (n > candidates.count) n = candidates.count;
  select_best(candidates.entries, candidates.count, static_cast<uint32_t>(n));
  size_t found = 0;
  for (; found < n && candidates.entries[found].logit > -kInfinity; ++found) {
    const Candidate& candidate = candidates.entries[found];
    const double below = double{candidate.logit} - double{candidates.best};
    likeliest[found] = {candidate.id, to_logit(below - log_total)};
  }
  *count = found;
  return LLMC_OK;
}

llmc_status log_probability(const float* logits, uint32_t vocab, uint32_t best, uint32_t token,
                            float* logprob) {
  if (!finite(logits[best])) return LLMC_ERROR_NOT_FINITE;
  const double logit = logits[token] >= -kInfinity ? double{logits[token]} : -kInfinity;
  *logprob = to_logit(logit - log_sum(logits, vocab, best));
  return LLMC_OK;
}

}  // namespace llmc::core

extern "C" {

void llmc_sampling_defaults(llmc_sampling* sampling) {
  if (sampling == nullptr) return;
  *sampling = llmc_sampling{};
  sampling->temperature = 0.8f;
  sampling->top_k = 40;
  sampling->top_p = 0.95f;
  sampling->min_p = 0.05f;
  sampling->tfs_z = 1.0f;
  sampling->typical_p = 1.0f;
  sampling->xtc_threshold = 0.1f;
  sampling->repeat_last_n = 64;
  sampling->repeat_penalty = 1.0f;
  sampling->dry_base = 1.75f;
  sampling->dry_allowed_length = 2;
  sampling->dry_penalty_last_n = -1;
  sampling->mirostat_lr = 0.1f;
  sampling->mirostat_ent = 5.0f;
}

llmc_status llmc_sampling_order(llmc_sampling* sampling, int order) {
  if (sampling == nullptr || order < LLMC_SAMPLERS_DEFAULT || order > LLMC_SAMPLERS_TODAY)
    return LLMC_ERROR_ARGUMENT;
  __builtin_memcpy(sampling->samplers, llmc::core::kOrders[order], sizeof sampling->samplers);
  return LLMC_OK;
}

}  // extern "C"
