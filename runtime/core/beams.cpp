#include "llmc/beams.h"

#include "exact_log.h"
#include "forward.h"

namespace llmc::core {
namespace {

constexpr uint32_t kMaxStops = 1000;
constexpr float kMaxPenalty = 16.0f;

/// A text that is being extended.
struct Beam {
  double score;       // sum of the logarithms of its tokens' probabilities
  uint32_t sequence;  // contains its tokens, except `token`
  int32_t token;      // its last token
};

/// A text that has ended. Its tokens are in row `row` of the stored tokens.
struct EndedText {
  double score;  // divided by length^length_penalty
  uint32_t row, count;
};

/// A possible next token of a beam.
struct Extension {
  double score;
  uint32_t beam;
  int32_t token;
};

bool valid(const llmc_beam_options& o) {
  const bool finite = o.length_penalty >= -kMaxPenalty && o.length_penalty <= kMaxPenalty;
  return o.size == sizeof o && o.beams >= 1 && o.beams <= UINT16_MAX && o.max_tokens >= 1 &&
         o.max_tokens <= INT32_MAX && o.stopping >= LLMC_BEAMS_LIKELY &&
         o.stopping <= LLMC_BEAMS_NEVER && finite && o.stop_count <= kMaxStops &&
         (o.stop_count == 0 || o.stop_ids != nullptr);
}

/// Returns the number of extensions to compare. It is large enough that at least `beams` remain
/// without those that end with a stop token.
uint64_t extension_count(const llmc_beam_options& o) {
  const uint64_t per_beam = o.stop_count < 1 ? 2 : uint64_t{o.stop_count} + 1;
  return per_beam * o.beams;
}

/// Returns score / length^penalty.
double normalized(double score, uint32_t length, float penalty) {
  const double exponent = double{penalty} * exact_log(static_cast<double>(length));
  return exponent >= 0.0 ? score * exact_exp(-exponent) : score / exact_exp(exponent);
}

}  // namespace
}  // namespace llmc::core

/// A search. Its arrays follow it in memory.
struct llmc_beams {
  llmc_session* session;
  llmc_beam_options options;
  uint32_t prompt;   // number of tokens before the texts
  uint32_t length;   // number of tokens of each beam
  uint32_t running;  // number of beams
  uint32_t ended_count;
  uint32_t extended;  // number of extensions
  bool pending;       // the last tokens of the beams must still be appended
  bool done;
  llmc::core::Extension* extensions;  // [extension_count()], in descending order
  llmc_candidate* candidates;         // [extension_count()]
  llmc::core::EndedText* ended;       // [beams], in descending order
  llmc::core::Beam* beams;            // [beams]
  llmc::core::Beam* next;             // [beams]
  int32_t* texts;                     // [beams][max_tokens]
  uint32_t* sequences;                // [beams]
  int32_t* tokens;                    // [beams]
};

namespace llmc::core {
namespace {

/// Assigns memory to arrays, one after another.
class Carver {
 public:
  explicit Carver(unsigned char* memory) : memory_(memory) {}
  template <class T>
  void take(T*& array, uint64_t count) {
    if (memory_ != nullptr) array = reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * sizeof(T) + 7) / 8 * 8;
  }
  uint64_t used() const { return used_; }

 private:
  unsigned char* memory_;
  uint64_t used_ = 0;
};

/// Sets the arrays of a search in `memory`, unless it is NULL, and returns the total size. The
/// options are small enough that it does not overflow.
uint64_t lay_out(const llmc_beam_options& o, unsigned char* memory, llmc_beams& search) {
  Carver carver(memory);
  llmc_beams* self = nullptr;
  carver.take(self, 1);
  carver.take(search.extensions, extension_count(o));
  carver.take(search.candidates, extension_count(o));
  carver.take(search.ended, o.beams);
  carver.take(search.beams, o.beams);
  carver.take(search.next, o.beams);
  carver.take(search.texts, uint64_t{o.beams} * o.max_tokens);
  carver.take(search.sequences, o.beams);
  carver.take(search.tokens, o.beams);
  return carver.used();
}

uint32_t free_sequences(llmc_session& session) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < session.model->sequences; ++i) count += !session.sequence(i).alive;
  return count;
}

/// Inserts an extension in its place. With equal scores, the one that was inserted first precedes.
void insert(llmc_beams& search, const Extension& extension) {
  const uint64_t most = extension_count(search.options);
  uint32_t at = search.extended;
  if (at == most && !(extension.score > search.extensions[at - 1].score)) return;
  if (at < most) ++search.extended;
  if (at == most) --at;
  for (; at > 0 && extension.score > search.extensions[at - 1].score; --at)
    search.extensions[at] = search.extensions[at - 1];
  search.extensions[at] = extension;
}

/// Finds the most likely extensions of all beams.
llmc_status extend(llmc_beams& search) {
  llmc_session& session = *search.session;
  const ReentrancyGuard guard(session);
  const SamplingConstraints& constraints = session.selected().constraints;
  search.extended = 0;
  for (uint32_t b = 0; b < search.running; ++b) {
    Sequence& sequence = session.sequence(search.beams[b].sequence);
    sequence.constraints = constraints;  // the biases may have been replaced
    size_t count = 0;
    if (const llmc_status bad = biased_candidates(session, sequence, search.candidates,
                                                  extension_count(search.options), &count))
      return bad;
    for (size_t i = 0; i < count; ++i)
      insert(search, {search.beams[b].score + double{search.candidates[i].logprob}, b,
                      search.candidates[i].token});
  }
  return search.extended == 0 ? LLMC_ERROR_NO_CANDIDATE : LLMC_OK;
}

bool is_stop(const llmc_beam_options& options, int32_t token) {
  for (uint32_t i = 0; i < options.stop_count; ++i)
    if (options.stop_ids[i] == token) return true;
  return false;
}

/// Stores a text that has ended, if it is among the best.
void end_text(llmc_beams& search, const Extension& extension) {
  const llmc_beam_options& options = search.options;
  const double score = normalized(extension.score, search.length + 1, options.length_penalty);
  uint32_t at = search.ended_count, row = at;
  if (at == options.beams) {
    if (!(score > search.ended[--at].score)) return;
    row = search.ended[at].row;  // replace the worst
  } else {
    ++search.ended_count;
  }
  for (; at > 0 && score > search.ended[at - 1].score; --at)
    search.ended[at] = search.ended[at - 1];
  search.ended[at] = {score, row, search.length + 1};
  int32_t* const text = search.texts + uint64_t{row} * options.max_tokens;
  llmc_session& session = *search.session;
  const Sequence& sequence = session.sequence(search.beams[extension.beam].sequence);
  const TokenHistory history = session.cache.history(sequence.cached);
  for (uint32_t i = 0; i < search.length; ++i) text[i] = history[search.prompt + i];
  text[search.length] = extension.token;
}

/// Returns whether an unfinished text could get a better score than the worst ended one.
bool can_improve(const llmc_beams& search) {
  const llmc_beam_options& options = search.options;
  if (search.ended_count < options.beams) return true;
  if (options.stopping == LLMC_BEAMS_FIRST) return false;
  const bool longest = options.stopping == LLMC_BEAMS_NEVER && options.length_penalty > 0.0f;
  const uint32_t length = longest ? options.max_tokens : search.length;
  return normalized(search.beams[0].score, length, options.length_penalty) >
         search.ended[search.ended_count - 1].score;
}

/// Assigns sequences to search.next, whose elements first contain the index of the beam that they
/// extend. The first extension of a beam keeps the beam's sequence, further extensions get forks.
/// Sequences of beams without an extension are released first, so that the number of sequences
/// suffices. The selected sequence is kept.
llmc_status share_sequences(llmc_beams& search, uint32_t count) {
  llmc_session& session = *search.session;
  constexpr uint32_t kReleased = UINT32_MAX;
  for (uint32_t b = 0; b < search.running; ++b) {
    bool extended = false;
    for (uint32_t i = 0; i < count; ++i) extended |= search.next[i].sequence == b;
    uint32_t& sequence = search.beams[b].sequence;
    if (extended) continue;
    if (sequence == session.current) {
      // Another beam moves to the selected sequence, and its own is released.
      Beam& moving = search.beams[search.next[0].sequence];
      const Sequence kept = session.sequence(moving.sequence);
      session.sequence(moving.sequence) = session.sequence(sequence);
      session.sequence(sequence) = kept;
      const uint32_t other = moving.sequence;
      moving.sequence = sequence;
      sequence = other;
    }
    if (const llmc_status bad = llmc_release(&session, sequence)) return bad;
    sequence = kReleased;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t beam = search.next[i].sequence;
    uint32_t* const kept = search.sequences + beam;  // sequence of the beam, set by its first
                                                     // extension
    bool first = true;
    for (uint32_t j = 0; j < i; ++j) first &= search.tokens[j] != static_cast<int32_t>(beam);
    search.tokens[i] = static_cast<int32_t>(beam);
    if (first) {
      *kept = search.beams[beam].sequence;
      search.next[i].sequence = *kept;
    } else if (const llmc_status bad = llmc_fork(&session, *kept, &search.next[i].sequence)) {
      return bad;
    }
  }
  return LLMC_OK;
}

/// Selects the beams of the next step from the extensions.
llmc_status select_beams(llmc_beams& search) {
  const llmc_beam_options& options = search.options;
  const bool last = search.length + 1 == options.max_tokens;
  uint32_t count = 0;
  for (uint32_t i = 0; i < search.extended; ++i) {
    const Extension& extension = search.extensions[i];
    if (last || is_stop(options, extension.token)) {
      if (i < options.beams) end_text(search, extension);
    } else if (count < options.beams) {
      search.next[count++] = {extension.score, extension.beam, extension.token};
    }
  }
  search.done = last || count == 0;
  if (search.done) return LLMC_OK;
  if (const llmc_status bad = share_sequences(search, count)) return bad;
  ++search.length;
  search.running = count;
  for (uint32_t i = 0; i < count; ++i) search.beams[i] = search.next[i];
  search.done = !can_improve(search);
  search.pending = !search.done;
  return LLMC_OK;
}

llmc_status append_tokens(llmc_beams& search) {
  for (uint32_t i = 0; i < search.running; ++i) {
    search.sequences[i] = search.beams[i].sequence;
    search.tokens[i] = search.beams[i].token;
  }
  const llmc_status status =
      llmc_append_batch(search.session, search.sequences, search.running, search.tokens);
  if (status == LLMC_OK) search.pending = false;
  return status;
}

}  // namespace
}  // namespace llmc::core

extern "C" {

size_t llmc_beams_bytes(const llmc_beam_options* options) {
  if (options == nullptr || !llmc::core::valid(*options)) return 0;
  llmc_beams unused;
  return llmc::core::lay_out(*options, nullptr, unused);
}

llmc_status llmc_beams_init(void* memory, size_t bytes, llmc_session* session,
                            const llmc_beam_options* options, llmc_beams** beams) {
  using namespace llmc::core;
  if (beams == nullptr) return LLMC_ERROR_ARGUMENT;
  *beams = nullptr;
  if (memory == nullptr || session == nullptr || options == nullptr || !valid(*options) ||
      reinterpret_cast<uintptr_t>(memory) % 8 != 0)
    return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const Sequence& start = session->selected();
  const uint32_t current = session->current;
  if (options->beams > session->model->batch || start.constraints.grammar.grammar != nullptr ||
      start.constraints.guidance.on || guides_another(*session, current, current))
    return LLMC_ERROR_ARGUMENT;
  if (bytes < llmc_beams_bytes(options)) return LLMC_ERROR_BUFFER;
  if (options->beams - 1 > free_sequences(*session)) return LLMC_ERROR_SEQUENCE;
  // The last token of a text is not appended.
  if (options->max_tokens - 1 > session->cache.room(start.cached)) return LLMC_ERROR_CONTEXT_FULL;
  if (!start.has_row) return LLMC_ERROR_NO_LOGITS;
  llmc_beams& search = *static_cast<llmc_beams*>(memory);
  search = {};
  lay_out(*options, static_cast<unsigned char*>(memory), search);
  search.session = session;
  search.options = *options;
  search.prompt = start.cached.position;
  search.running = 1;
  search.beams[0] = {0.0, session->current, 0};
  *beams = &search;
  return LLMC_OK;
}

llmc_status llmc_beams_step(llmc_beams* beams, int* done) {
  using namespace llmc::core;
  if (beams == nullptr || done == nullptr) return LLMC_ERROR_ARGUMENT;
  if (beams->session->busy) return LLMC_ERROR_BUSY;
  *done = 0;
  if (beams->pending) {
    if (const llmc_status bad = append_tokens(*beams)) return bad;
    return LLMC_OK;
  }
  if (!beams->done) {
    if (const llmc_status bad = extend(*beams)) return bad;
    if (const llmc_status bad = select_beams(*beams)) return bad;
    if (beams->pending)
      if (const llmc_status bad = append_tokens(*beams)) return bad;
  }
  *done = beams->done;
  return LLMC_OK;
}

uint32_t llmc_beams_count(const llmc_beams* beams) {
  return beams == nullptr ? 0 : beams->ended_count;
}

llmc_status llmc_beams_result(const llmc_beams* beams, uint32_t rank, const int32_t** tokens,
                              size_t* n, float* score) {
  if (beams == nullptr) return LLMC_ERROR_ARGUMENT;
  if (rank >= beams->ended_count) return LLMC_ERROR_POSITION;
  const llmc::core::EndedText& text = beams->ended[rank];
  if (tokens != nullptr) *tokens = beams->texts + uint64_t{text.row} * beams->options.max_tokens;
  if (n != nullptr) *n = text.count;
  if (score != nullptr) *score = llmc::core::to_logit(text.score);
  return LLMC_OK;
}

llmc_status llmc_beams_end(llmc_beams* beams) {
  if (beams == nullptr) return LLMC_ERROR_ARGUMENT;
  llmc_session* const session = beams->session;
  if (session->busy) return LLMC_ERROR_BUSY;
  for (uint32_t b = 0; b < beams->running; ++b) {
    const uint32_t sequence = beams->beams[b].sequence;
    if (sequence == session->current || !llmc::core::exists(*session, sequence)) continue;
    if (const llmc_status bad = llmc_release(session, sequence)) return bad;
  }
  beams->running = 0;
  beams->pending = false;
  beams->done = true;
  return llmc_rewind(session, beams->prompt);
}

}  // extern "C"
