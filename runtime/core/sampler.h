#pragma once

#include <stdint.h>

#include "llmc/arena.h"
#include "llmc/llmc.h"

/// Choosing the next token. docs/adding-a-sampler.md says what a new stage needs.
namespace llmc::core {

struct Candidate {
  float logit;
  int32_t id;
};
static_assert(sizeof(Candidate) == LLMC_CANDIDATE_BYTES);

/// The tokens still in the draw, in memory of the arena.
struct Candidates {
  Candidate* entries;
  uint32_t count;
  float best;   // largest logit among them
  bool sorted;  // entries are in order of `better`
};

/// The one order of candidates: higher logit first, lower id among equals.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// A step of the chain: narrows or reshapes the candidates; never leaves none.
struct SamplerStage {
  const char* name;
  void (*apply)(Candidates& candidates, const llmc_sampling& sampling);
};

/// Brings the `n` best to the front, in order. In place; O(count · log n).
void select_best(Candidate* entries, uint32_t count, uint32_t n);

// The stages, in the chain's order; each leaves things alone when its parameter switches it off.
void apply_top_k(Candidates& candidates, const llmc_sampling& sampling);
void apply_top_p(Candidates& candidates, const llmc_sampling& sampling);
void apply_min_p(Candidates& candidates, const llmc_sampling& sampling);
void apply_temperature(Candidates& candidates, const llmc_sampling& sampling);

/// Picks one candidate with probability proportional to e^logit; overwrites the logits.
/// `uniform` is in [0, 1).
int32_t draw(Candidates& candidates, double uniform);

/// LLMC_OK, LLMC_ERROR_SAMPLING (NaN or infinite), or LLMC_ERROR_VERSION (reserved words set).
llmc_status check_sampling(const llmc_sampling& sampling);

/// The token for `position` from logits[vocab], of which `best` is the first of the largest
/// (llmc_model.head); `candidates` has room for vocab entries. LLMC_ERROR_NOT_FINITE when the
/// largest logit is infinite or all are NaN; single NaN logits count as impossible.
llmc_status sample_token(const float* logits, uint32_t vocab, uint32_t best,
                         const llmc_sampling& sampling, uint64_t position, Candidate* candidates,
                         int32_t* token);

}  // namespace llmc::core
