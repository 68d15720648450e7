#pragma once

#include "grammar_hook.h"
#include "kv_cache.h"
#include "llmc/arena.h"
#include "llmc/llmc.h"
#include "llmc/model.h"
#include "sampler.h"

namespace llmc::core {

static_assert(sizeof(llmc_segment) <= LLMC_SEGMENT_BYTES);
static_assert(sizeof(uint64_t) + sizeof(uint32_t) == LLMC_LOGITS_NOTE_BYTES);

/// A row of the logits buffer and what it showed: a stamp is given out once, so whoever remembers
/// it knows whether the row still shows what it did then.
struct Shown {
  uint32_t slot;
  uint64_t stamp;  // 0: never
};

/// A token that counts as drawn when it is the next one, and the state of mirostat it leads to.
struct DrawnToken {
  Choice choice;
  uint32_t position;
  bool valid;
};

/// The sequence that a sequence's choices move away from (llmc_set_guidance).
struct Guidance {
  bool on;
  uint32_t sequence;
  float scale;
};

/// What a sequence's choices depend on beside its parameters; the arrays are the application's.
struct Wishes {
  const llmc_logit_bias* biases;
  size_t bias_count;
  llmc_dry_breakers breakers;
  GrammarHook grammar;
  Guidance guidance;
};

struct Sequence {
  CachedTokens cached;
  float* last_row;  // f32[hidden]: the last layer's row of its last token, when has_row
  Shown shown;      // its logits, unless others have taken their place
  llmc_sampling sampling;
  Wishes wishes;
  DrawnToken drawn;
  DrawnToken stepped;  // the same of the step that runs: one that fails has drawn nothing
  bool alive;
  bool has_row;  // the logits after the last token can be computed
  bool marked;   // named in the call that runs
};
static_assert(sizeof(Sequence) <= LLMC_SEQUENCE_BYTES);

}  // namespace llmc::core

/// The session's fields, at the start of the arena.
struct llmc_session {
  const llmc_model* model;
  llmc_config config;  // callbacks, and the sampling that new sequences begin with
  llmc_run run;        // of the last forward; what does not change between calls is set once
  llmc_segment* segments;
  llmc::core::KvCache cache;
  llmc::core::Candidate* candidates;
  unsigned char* sequences;     // [model->sequences][LLMC_SEQUENCE_BYTES]
  float* logits;                // [model->batch][vocab]
  uint64_t* shown;              // [model->batch] stamps; 0: nothing
  uint32_t* best;               // [model->batch] the first of the largest logits
  int32_t* tokens;              // [ctx + model->batch], of the call that runs
  uint32_t* stepped;            // [model->batch] sequences, of the call that runs
  uint64_t stamps;              // given out
  llmc::core::Shown row_shown;  // the row of the last chunk that was asked for last
  uint32_t row;
  uint32_t current;  // sequence
  uint32_t chunk;
  uint32_t last_chunk;  // rows of the current sequence's last forward still in scratch; 0: none
  bool busy;            // inside a call: callbacks must not come back

  llmc::core::Sequence& sequence(uint32_t i) {
    return *reinterpret_cast<llmc::core::Sequence*>(sequences + uint64_t{i} * LLMC_SEQUENCE_BYTES);
  }
  llmc::core::Sequence& selected() { return sequence(current); }
  const llmc::core::Sequence& selected() const {
    return const_cast<llmc_session*>(this)->selected();
  }
};
static_assert(sizeof(llmc_session) <= LLMC_SESSION_BYTES);

namespace llmc::core {

/// Tokens that were compiled into the model and the session's sequences begin with.
inline uint32_t prompt_tokens(const llmc_session& session) {
  return session.config.begin == LLMC_BEGIN_EMPTY ? 0 : session.model->prefix_tokens;
}

/// A sequence without blocks becomes one of these tokens, as if nothing had ever been drawn.
void begin(llmc_session& session, Sequence& sequence);
/// The same for a number that is given out: it samples as the configuration says.
void open_sequence(llmc_session& session, Sequence& sequence);

bool exists(llmc_session& session, uint32_t sequence);
/// Whether another sequence than `but` is guided by this one.
bool guides_another(llmc_session& session, uint32_t sequence, uint32_t but);

/// Marks the session as inside a call for as long as it lives.
class Busy {
 public:
  explicit Busy(llmc_session& session) : session_(session) { session_.busy = true; }
  ~Busy() { session_.busy = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  llmc_session& session_;
};

}  // namespace llmc::core
