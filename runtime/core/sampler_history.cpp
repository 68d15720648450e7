#include "exact_log.h"
#include "sampler.h"

// Stages that use the sequence's last tokens. While they run, every token of the vocabulary is a
// candidate at its own index (Candidates::by_id). They need no memory, because they store data
// about a token in the id field of its candidate and restore the id at the end. They visit each
// token of the history twice.
namespace llmc::core {
namespace {

constexpr float kInfinity = __builtin_inff();

/// Returns the size of the window for the parameter `last_n` (-1: all).
uint32_t window(const TokenHistory& history, int32_t last_n) {
  const uint32_t count = history.count();
  return last_n < 0 || static_cast<uint32_t>(last_n) > count ? count
                                                             : static_cast<uint32_t>(last_n);
}

/// Returns a token counted from the end of the history; 0 is the last token.
int32_t back(const TokenHistory& history, uint32_t i) {
  return history[history.count() - 1 - i];
}

void finish(Candidates& candidates) {
  candidates.best = largest_logit(candidates);
  candidates.sorted = false;
}

}  // namespace

// ---- penalties: applies to the last repeat_last_n tokens (-1: all), including the prompt. If a
// token occurs there, its logit is divided by repeat_penalty if it is positive, else multiplied by
// it (Keskar et al. 2019, "CTRL", corrected for negative logits). Then frequency_penalty is
// subtracted for each occurrence, and presence_penalty once (OpenAI's parameters).

bool penalties_on(const llmc_sampling& sampling) {
  const bool repeat = sampling.repeat_penalty != 0.0f && sampling.repeat_penalty != 1.0f;
  return sampling.repeat_last_n != 0 &&
         (repeat || sampling.frequency_penalty != 0.0f || sampling.presence_penalty != 0.0f);
}

void apply_penalties(Candidates& candidates, const SamplerContext& context) {
  const llmc_sampling& sampling = context.sampling;
  const double repeat = sampling.repeat_penalty != 0.0f ? double{sampling.repeat_penalty} : 1.0;
  const uint32_t last_n = window(context.history, sampling.repeat_last_n);
  for (uint32_t i = 0; i < last_n; ++i) {
    const int32_t token = back(context.history, i);
    if (token == kNoToken) continue;
    // The negative number of occurrences so far.
    int32_t& noted = candidates.entries[token].id;
    noted = noted < 0 ? noted - 1 : -1;
  }
  for (uint32_t i = 0; i < last_n; ++i) {
    const int32_t token = back(context.history, i);
    if (token == kNoToken) continue;
    Candidate& candidate = candidates.entries[token];
    if (candidate.id >= 0) continue;
    const double times = -static_cast<double>(candidate.id);
    candidate.id = token;
    if (candidate.logit == -kInfinity) continue;
    const double logit = double{candidate.logit};
    const double scaled = logit > 0.0 ? logit / repeat : logit * repeat;
    candidate.logit = moved(0.0f, scaled - (times * double{sampling.frequency_penalty} +
                                            double{sampling.presence_penalty}));
  }
  finish(candidates);
}

// ---- dry, "don't repeat yourself": subtracts dry_multiplier · dry_base^(length - allowed length)
// from the logit of a token that would extend a repetition of at least dry_allowed_length tokens.
// The length is that of the longest suffix of the sequence that also occurs directly before an
// earlier occurrence of the token, within the last dry_penalty_last_n tokens (-1: all) and without
// a sequence breaker; embeddings are breakers. p-e-w 2024, for text-generation-webui. The exponent
// is limited as in llama.cpp, so that the power is a finite float.

namespace {

/// Returns base^n, by multiplications in a fixed order.
double power(double base, uint32_t n) {
  double result = 1.0;
  for (double square = base; n != 0; n >>= 1, square *= square)
    if ((n & 1) != 0) result *= square;
  return result;
}

/// Index range of the breakers that begin with the same token; they are adjacent.
struct Breakers {
  uint32_t begin, end;
};
Breakers breakers_of(const llmc_dry_breakers& breakers, int32_t head) {
  uint32_t low = 0, high = breakers.count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (breakers.heads[middle] < head) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  uint32_t end = low;
  while (end < breakers.count && breakers.heads[end] == head) ++end;
  return {low, end};
}

/// Returns the number of tokens after the last breaker or embedding; `last_n` if there is none.
uint32_t since_breaker(const TokenHistory& history, const llmc_dry_breakers& breakers,
                       uint32_t last_n) {
  for (uint32_t i = 0; i < last_n; ++i) {
    if (back(history, i) == kNoToken) return i;
    const Breakers found = breakers_of(breakers, back(history, i));
    bool any = false;
    uint32_t longest = 0;
    for (uint32_t b = found.begin; b < found.end; ++b) {
      const int32_t* const tail = breakers.tails + breakers.tail_begins[b];
      const uint32_t length = breakers.tail_begins[b + 1] - breakers.tail_begins[b];
      uint32_t same = 0;
      if (length > i) continue;
      while (same < length && tail[same] == back(history, i - same - 1)) ++same;
      if (same < length) continue;
      any = true;
      if (length > longest) longest = length;
    }
    if (any) return i - longest;
  }
  return last_n;
}

bool breaks_alone(const llmc_dry_breakers& breakers, int32_t token) {
  const Breakers found = breakers_of(breakers, token);
  for (uint32_t b = found.begin; b < found.end; ++b)
    if (breakers.tail_begins[b] == breakers.tail_begins[b + 1]) return true;
  return false;
}

}  // namespace

bool dry_on(const llmc_sampling& sampling) {
  return sampling.dry_multiplier != 0.0f && sampling.dry_base >= 1.0f &&
         sampling.dry_penalty_last_n != 0;
}

void apply_dry(Candidates& candidates, const SamplerContext& context) {
  const llmc_sampling& sampling = context.sampling;
  const TokenHistory& history = context.history;
  const uint32_t last_n = window(history, sampling.dry_penalty_last_n);
  const uint32_t allowed = static_cast<uint32_t>(sampling.dry_allowed_length);
  if (last_n <= allowed) return;
  uint32_t longest = since_breaker(history, context.breakers, last_n);
  if (longest < allowed) return;
  // Maximum length that counts: the power would exceed a float's range for longer repetitions. Base
  // 1 needs no limit.
  constexpr double kLogOfLargestFloat = 88.7228391;
  if (sampling.dry_base > 1.000001f) {
    const double exponent = kLogOfLargestFloat / exact_log(double{sampling.dry_base});
    if (exponent + allowed < longest) longest = static_cast<uint32_t>(exponent) + allowed;
  }
  // Compare the suffix with the tokens that end k positions earlier.
  for (uint32_t k = 1; k < last_n; ++k) {
    uint32_t length = 0;
    while (length < longest && length + k < last_n &&
           back(history, length) == back(history, length + k))
      ++length;
    if (length < allowed || back(history, k - 1) == kNoToken) continue;
    int32_t& noted = candidates.entries[back(history, k - 1)].id;
    const int32_t note = -1 - static_cast<int32_t>(length);
    if (noted >= 0 || note < noted) noted = note;
  }
  for (uint32_t k = 1; k < last_n; ++k) {
    const int32_t token = back(history, k - 1);
    if (token == kNoToken) continue;
    Candidate& candidate = candidates.entries[token];
    if (candidate.id >= 0) continue;
    const uint32_t length = static_cast<uint32_t>(-1 - candidate.id);
    candidate.id = token;
    if (candidate.logit == -kInfinity || breaks_alone(context.breakers, token)) continue;
    const double penalty =
        double{sampling.dry_multiplier} * power(double{sampling.dry_base}, length - allowed);
    candidate.logit = moved(candidate.logit, -penalty);
  }
  finish(candidates);
}

}  // namespace llmc::core
