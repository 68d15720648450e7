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

/// A slot for one encoded source of an encoder-decoder.
struct Source {
  uint64_t hash;   // of the ids or features; 0: none is encoded
  uint32_t rows;   // number of encoded rows; 0: none is encoded
  uint32_t users;  // number of sequences that attend to it; 0: the slot is free
};
static_assert(sizeof(Source) == LLMC_SOURCE_NOTE_BYTES);

/// The slot number of a sequence without a source.
inline constexpr uint32_t kNoSource = UINT32_MAX;

/// A slot of the logits buffer, and the generation of its content. Each generation number is used
/// once: if the slot still has this generation, it still contains the same logits.
struct LogitsSlot {
  uint32_t slot;
  uint64_t generation;  // 0: never valid
};

/// A token that was chosen. If it is appended at `position`, it updates mirostat's state.
struct DrawnToken {
  Choice choice;
  uint32_t position;
  bool valid;
};

/// The guide of a sequence (llmc_set_guidance).
struct Guidance {
  bool on;
  uint32_t sequence;
  float scale;
};

/// Restrictions of a sequence's choices, in addition to its sampling parameters. The application
/// owns the arrays.
struct SamplingConstraints {
  const llmc_logit_bias* biases;
  size_t bias_count;
  llmc_dry_breakers breakers;
  GrammarHook grammar;
  Guidance guidance;
};

/// State that adapts the length and frequency of llmc_step_lookup's drafts to the text.
struct LookupState {
  uint32_t limit;    // maximum number of tokens of the next draft
  uint32_t backoff;  // steps without a draft after the last draft, of which no token was accepted;
                     // 0: some were accepted, or no draft was rejected yet
  uint32_t wait;     // how many of these steps are left
};

struct Sequence {
  CachedTokens cached;
  unsigned char* state;   // [model->state_bytes] recurrent states after `state_tokens` tokens;
                          // NULL: the model has none
  uint32_t state_tokens;  // at most cached.position; later tokens are run again before the states
                          // are needed
  uint32_t source;        // slot of its source, or kNoSource
  float* last_row;        // f32[hidden]: the last layer's row of the last token, if has_row is set
  LogitsSlot logits;      // slot of its logits, which other logits may have overwritten
  llmc_sampling sampling;
  SamplingConstraints constraints;
  DrawnToken drawn;
  /// Value for `drawn` during a step, so that a step that fails leaves `drawn` unchanged.
  DrawnToken stepped;
  LookupState lookup;
  int32_t best;  // the next token, if choose_best() chose it, it paid off, and no logits were read
                 // since; else kNoToken
  bool alive;
  bool has_row;   // whether the logits after the last token can be computed
  bool in_batch;  // whether it takes part in the current call
};
static_assert(sizeof(Sequence) <= LLMC_SEQUENCE_BYTES);

}  // namespace llmc::core

/// The fields of a session, stored at the start of the arena.
struct llmc_session {
  const llmc_model* model;
  llmc_config config;  // callbacks, and the sampling parameters of new sequences
  llmc_run run;        // arguments of the last forward pass; fields that never change are set once
  llmc_segment* segments;
  llmc::core::KvCache cache;
  llmc::core::Candidate* candidates;
  unsigned char* sequences;      // [model->sequences][LLMC_SEQUENCE_BYTES]
  llmc::core::Source* sources;   // [model->sources]
  unsigned char* source_states;  // [model->sources][model->source_bytes], llmc_segment::source
  float* logits;                 // [model->batch][vocab]
  uint64_t* generations;         // [model->batch] generations of the slots; 0: empty
  uint32_t* best;                // [model->batch] indices of the first maximum of each slot
  int32_t* tokens;               // [ctx + model->batch], used during a call
  uint32_t* stepped;             // [model->batch] sequences of the current step
  uint64_t generations_used;     // number of generation numbers used so far
  /// Slot of row `row` of the last chunk (llmc_logits_at); the slots of the `row_count` - 1 rows
  /// after it follow, with consecutive generations.
  llmc::core::LogitsSlot row_slot;
  /// Exponential backoff of llmc_model.choose, which leaves most logits out. whole_choices: number
  /// of choices that must still compute all logits. choice_backoff: its value after the last use of
  /// `choose` that did not pay off, because too many logits were computed or the caller read them;
  /// 0 after a use that paid off.
  uint32_t whole_choices, choice_backoff;
  uint32_t logits_computed;  // number that the last choice of a token computed
  uint32_t row, row_count;
  uint32_t current;  // number of the selected sequence
  uint32_t chunk;    // maximum number of tokens per forward pass
  /// Number of rows of the selected sequence's last forward pass that are still in scratch; 0:
  /// none.
  uint32_t last_chunk;
  unsigned char* scratch;  // [model->in_flight][model->scratch_bytes]
  uint64_t device_jobs;    // number of jobs that config.device has accepted
  bool device_failed;      // config.device has failed: the CPU computes its regions from now on
  bool busy;               // a call is in progress: callbacks must not change the session

  llmc::core::Sequence& sequence(uint32_t i) {
    return *reinterpret_cast<llmc::core::Sequence*>(sequences + uint64_t{i} * LLMC_SEQUENCE_BYTES);
  }
  /// Returns keys and values of the source in a slot (llmc_segment::source).
  unsigned char* source_state(uint32_t slot) const {
    return source_states + slot * model->source_bytes;
  }
  llmc::core::Sequence& selected() { return sequence(current); }
  const llmc::core::Sequence& selected() const {
    return const_cast<llmc_session*>(this)->selected();
  }
};
static_assert(sizeof(llmc_session) <= LLMC_SESSION_BYTES);

namespace llmc::core {

/// Returns the number of tokens of the compiled-in prompt with which the session's sequences begin.
inline uint32_t prompt_tokens(const llmc_session& session) {
  return session.config.begin == LLMC_BEGIN_EMPTY ? 0 : session.model->prefix_tokens;
}

/// Drops the tokens from `position` on. Clears recurrent states that contain dropped tokens.
void truncate(llmc_session& session, Sequence& sequence, uint32_t position);
/// Sets the recurrent states to those before the first token.
void clear_state(const llmc_session& session, Sequence& sequence);

/// Sets a sequence without blocks to the tokens of the compiled-in prompt, if any. Resets its
/// recurrent states, logits and drawn tokens.
void begin(llmc_session& session, Sequence& sequence);
/// Initializes a new sequence: calls begin() and sets the sampling parameters of the configuration.
/// It has no source, unless all sequences share one.
void open_sequence(llmc_session& session, Sequence& sequence);

/// Returns the sequence's source; nullptr if none is encoded.
const Source* source_of(const llmc_session& session, const Sequence& sequence);
/// Makes a sequence without a source attend to the source in `slot` (kNoSource: none).
void attend_to(llmc_session& session, Sequence& sequence, uint32_t slot);
/// Ends the sequence's use of its source.
void leave_source(llmc_session& session, Sequence& sequence);

bool exists(llmc_session& session, uint32_t sequence);
/// Returns whether this sequence guides any sequence other than `but`.
bool guides_another(llmc_session& session, uint32_t sequence, uint32_t but);

/// Marks the session as busy until this object is destroyed.
class ReentrancyGuard {
 public:
  explicit ReentrancyGuard(llmc_session& session) : session_(session) { session_.busy = true; }
  ~ReentrancyGuard() { session_.busy = false; }
  ReentrancyGuard(const ReentrancyGuard&) = delete;
  ReentrancyGuard& operator=(const ReentrancyGuard&) = delete;

 private:
  llmc_session& session_;
};

}  // namespace llmc::core
