#include "grammar.h"

#include "grammar_hook.h"

namespace llmc::core {

void GrammarMatcher::begin(const GrammarTables& tables) {
  tables_ = &tables;
  path_count_ = 1;
  frame_count_ = 0;
  ended_ = false;
  paths_[0] = {tables.header.start, kNoFrame};
}

bool GrammarMatcher::same_stack(uint32_t a, uint32_t b) const {
  while (a != b) {
    if (a == kNoFrame || b == kNoFrame || frames_[a].state != frames_[b].state) return false;
    a = frames_[a].below;
    b = frames_[b].below;
  }
  return true;
}

/// Adds the path to which an edge leads, unless it is already in `to`. Sets to.overflow if there is
/// no room for it.
void GrammarMatcher::add(const llmc_grammar_edge& edge, uint32_t below, Trial& to) {
  if (edge.frame_count > kMaxGrammarFrames - to.frame_count) {
    to.overflow = true;
    return;
  }
  const uint32_t before = to.frame_count;
  for (uint32_t i = 0; i < edge.frame_count; ++i) {
    frames_[to.frame_count] = {tables_->frames[edge.first_frame + i], below};
    below = to.frame_count++;
  }
  for (uint32_t i = 0; i < to.count; ++i) {
    if (to.paths[i].state != edge.target || !same_stack(to.paths[i].below, below)) continue;
    to.frame_count = before;
    return;
  }
  if (to.count == kMaxGrammarPaths) {
    to.overflow = true;
    return;
  }
  to.paths[to.count++] = {edge.target, below};
}

void GrammarMatcher::read_byte(const GrammarFrame* from, uint32_t count, uint8_t byte, Trial& to) {
  for (uint32_t i = 0; i < count; ++i) {
    GrammarFrame top = from[i];
    for (;;) {
      const llmc_grammar_state* const state = tables_->states + top.state;
      for (uint32_t e = state[0].first_edge; e < state[1].first_edge; ++e) {
        const llmc_grammar_edge& edge = tables_->edges[e];
        if (edge.low <= byte && byte <= edge.high) add(edge, top.below, to);
      }
      // If the rule may end here, the state that called the rule can also read the byte.
      if (!tables_->accepts(top.state) || top.below == kNoFrame) break;
      top = frames_[top.below];
    }
  }
}

/// Returns the paths after a token; none if the token is not allowed. A token without bytes is
/// never allowed.
GrammarMatcher::Trial GrammarMatcher::read_token(const GrammarFrame* from, uint32_t count,
                                                 uint32_t token) {
  Trial trial{work_[0], 0, frame_count_, false};
  const uint32_t end = tables_->offsets[token + 1];
  uint32_t turn = 0;
  for (uint32_t at = tables_->offsets[token]; at < end; ++at) {
    trial.paths = work_[turn];
    trial.count = 0;
    read_byte(from, count, tables_->text[at], trial);
    if (trial.count == 0) break;
    from = trial.paths;
    count = trial.count;
    turn = 1 - turn;
  }
  return trial;
}

/// Makes the paths of a trial the current paths, and removes unused frames.
void GrammarMatcher::keep(const Trial& trial) {
  constexpr uint16_t kUnused = UINT16_MAX;
  for (uint32_t i = 0; i < trial.frame_count; ++i) place_[i] = kUnused;
  for (uint32_t i = 0; i < trial.count; ++i) {
    for (uint32_t f = trial.paths[i].below; f != kNoFrame && place_[f] == kUnused;
         f = frames_[f].below)
      place_[f] = 0;
  }
  uint32_t count = 0;
  for (uint32_t f = 0; f < trial.frame_count; ++f) {
    if (place_[f] == kUnused) continue;
    const GrammarFrame frame = frames_[f];
    place_[f] = static_cast<uint16_t>(count);
    frames_[count++] = {frame.state, frame.below == kNoFrame ? kNoFrame : place_[frame.below]};
  }
  for (uint32_t i = 0; i < trial.count; ++i) {
    const GrammarFrame path = trial.paths[i];
    paths_[i] = {path.state, path.below == kNoFrame ? kNoFrame : place_[path.below]};
  }
  path_count_ = trial.count;
  frame_count_ = count;
}

bool GrammarMatcher::is_stop(uint32_t token) const {
  for (uint32_t i = 0; i < tables_->header.stops; ++i)
    if (tables_->stops[i] == token) return true;
  return false;
}

llmc_status GrammarMatcher::accept(uint32_t token) {
  if (ended_ || token >= tables_->header.vocab) return LLMC_ERROR_GRAMMAR;
  if (is_stop(token)) {
    if (text_state() == LLMC_GRAMMAR_INCOMPLETE) return LLMC_ERROR_GRAMMAR;
    ended_ = true;
    return LLMC_OK;
  }
  const Trial trial = read_token(paths_, path_count_, token);
  // A path that was dropped because there was no room may be the right one.
  if (trial.overflow) return LLMC_ERROR_GRAMMAR_DEPTH;
  if (trial.count == 0) return LLMC_ERROR_GRAMMAR;
  keep(trial);
  return LLMC_OK;
}

int GrammarMatcher::text_state() const {
  if (ended_) return LLMC_GRAMMAR_COMPLETE;
  bool may_end = false, may_go_on = false;
  for (uint32_t i = 0; i < path_count_; ++i) {
    GrammarFrame top = paths_[i];
    for (;;) {
      const llmc_grammar_state* const state = tables_->states + top.state;
      may_go_on = may_go_on || state[0].first_edge != state[1].first_edge;
      if (!tables_->accepts(top.state)) break;
      if (top.below == kNoFrame) {
        may_end = true;
        break;
      }
      top = frames_[top.below];
    }
  }
  if (!may_end) return LLMC_GRAMMAR_INCOMPLETE;
  return may_go_on ? LLMC_GRAMMAR_MAY_END : LLMC_GRAMMAR_COMPLETE;
}

/// Returns the mask of a path: the mask of its state, or a more specific one for the top of its
/// stack. Sets `whole` if the mask takes the complete stack into account, so that no dependent need
/// be tried.
uint32_t GrammarMatcher::mask_of(const GrammarFrame& path, bool& whole) const {
  const llmc_grammar_state* const state = tables_->states + path.state;
  uint32_t mask = tables_->mask_of(path.state);
  uint32_t at = state[0].first_context, end = state[1].first_context;
  uint32_t below = path.below;
  for (; at < end && below != kNoFrame; below = frames_[below].below) {
    const uint32_t frame = frames_[below].state;
    while (at < end && tables_->contexts[at].frame != frame) ++at;
    if (at == end) break;
    mask = tables_->contexts[at].mask;
    end = tables_->contexts[at + 1].first_context;
    at = tables_->contexts[at].first_context;
  }
  whole = below == kNoFrame;
  return mask;
}

/// Adds the tokens of mask `index` to mask[tables().words()].
void GrammarMatcher::merge(uint32_t index, uint32_t* mask) const {
  const llmc_grammar_mask& from = tables_->masks[index];
  const uint32_t* const flips = tables_->flips;
  uint32_t flip = from.first_flip;
  const uint32_t end = tables_->masks[index + 1].first_flip;
  if (from.base == 0) {
    for (; flip < end; ++flip) mask[flips[flip] / 32] |= 1u << flips[flip] % 32;
    return;
  }
  const uint32_t words = tables_->words();
  const uint32_t* const base = tables_->bitmaps + uint64_t{from.base - 1} * words;
  for (uint32_t w = 0; w < words; ++w) {
    uint32_t word = base[w];
    for (; flip < end && flips[flip] / 32 == w; ++flip) word ^= 1u << flips[flip] % 32;
    mask[w] |= word;
  }
}

/// Returns whether the token may need more frames or paths than there is room for. Returns false
/// only if the token's bytes alone prove that it does not.
bool GrammarMatcher::may_overflow(uint32_t token) const {
  uint64_t frames = 0;
  uint32_t ways = path_count_;
  for (uint32_t at = tables_->offsets[token]; at < tables_->offsets[token + 1]; ++at) {
    const uint8_t byte = tables_->text[at];
    if (tables_->parts(byte)) {
      ways *= tables_->max_ways_by_byte;
      if (ways > kMaxCountedPaths) ways = kMaxCountedPaths;
    }
    if (tables_->pushes(byte)) frames += uint64_t{ways} * tables_->max_pushed_by_byte;
  }
  return ways > kMaxGrammarPaths || frames > kMaxGrammarFrames - frame_count_;
}

/// Removes tokens that would exceed the limits of frames or paths, so that generated texts stay
/// within the limits. Tries upper bounds first: those of the current states, which usually suffice,
/// those of all tokens, and those of each token's bytes. Reads a token only if no bound proves that
/// it fits.
void GrammarMatcher::mask_over_depth_limit(uint32_t* mask) {
  uint64_t ways = 0, frames = 0;
  for (uint32_t i = 0; i < path_count_; ++i) {
    const uint32_t of_token = tables_->states[paths_[i].state].room;
    ways += of_token % 256;
    frames += of_token / 256;
  }
  const uint32_t room = kMaxGrammarFrames - frame_count_;
  if (ways <= kMaxGrammarPaths && frames <= room) return;
  const uint32_t of_bytes = path_count_ * tables_->max_paths;
  const bool few = of_bytes <= kMaxGrammarPaths;
  if (few && uint64_t{path_count_} * tables_->max_pushed <= room) return;
  const uint32_t* const offsets = tables_->offsets;
  const uint64_t of_byte = uint64_t{of_bytes} * tables_->max_pushed_by_byte;
  for (uint32_t first = 0; first < tables_->header.vocab; first += 32) {
    for (uint32_t bits = mask[first / 32]; bits != 0; bits &= bits - 1) {
      const uint32_t token = first + static_cast<uint32_t>(__builtin_ctz(bits));
      if (few && of_byte * (offsets[token + 1] - offsets[token]) <= room) continue;
      if (may_overflow(token) && read_token(paths_, path_count_, token).overflow)
        mask[first / 32] &= ~(bits & -bits);
    }
  }
}

void GrammarMatcher::allow(uint32_t* mask, uint32_t words) {
  __builtin_memset(mask, 0, size_t{words} * sizeof *mask);
  if (ended_) return;
  uint32_t masks[kMaxGrammarPaths];
  bool whole[kMaxGrammarPaths];
  for (uint32_t i = 0; i < path_count_; ++i) {
    masks[i] = mask_of(paths_[i], whole[i]);
    bool merged = false;  // paths may differ only in the deeper parts of their stacks
    for (uint32_t k = 0; k < i; ++k) merged = merged || masks[k] == masks[i];
    if (!merged) merge(masks[i], mask);
  }
  for (uint32_t i = 0; i < path_count_; ++i) {
    if (whole[i]) continue;
    const uint32_t end = tables_->masks[masks[i] + 1].first_dependent;
    for (uint32_t d = tables_->masks[masks[i]].first_dependent; d < end; ++d) {
      const uint32_t token = tables_->dependents[d];
      uint32_t& word = mask[token / 32];
      if ((word >> token % 32 & 1) != 0) continue;
      if (read_token(paths_ + i, 1, token).count > 0) word |= 1u << token % 32;
    }
  }
  mask_over_depth_limit(mask);
  if (text_state() != LLMC_GRAMMAR_INCOMPLETE) {
    for (uint32_t i = 0; i < tables_->header.stops; ++i)
      mask[tables_->stops[i] / 32] |= 1u << tables_->stops[i] % 32;
  }
}

namespace {

uint64_t hash_token(uint64_t hash, int32_t token) {
  const uint32_t word = static_cast<uint32_t>(token);
  return llmc_grammar_hash(hash, &word, 1);
}

void restart(llmc_grammar& grammar, uint32_t from) {
  grammar.from = from;
  grammar.count = 0;
  grammar.hash = LLMC_GRAMMAR_HASH_START;
  grammar.matcher.begin(grammar.tables);
}

llmc_status take(llmc_grammar& grammar, int32_t token) {
  if (token < 0) return LLMC_ERROR_GRAMMAR;
  if (const llmc_status bad = grammar.matcher.accept(static_cast<uint32_t>(token))) return bad;
  grammar.hash = hash_token(grammar.hash, token);
  ++grammar.count;
  return LLMC_OK;
}

/// Consumes the tokens up to the end of the history. The state depends only on the text's tokens:
/// if the tokens that were consumed differ from the history (after a rewind, or for another
/// sequence), reads the text again from its start.
llmc_status follow(const GrammarHook& hook, const TokenHistory& history) {
  llmc_grammar& grammar = *hook.grammar;
  grammar.words = hook.words;
  const uint32_t from = hook.from;
  if (history.count() < from) return LLMC_ERROR_POSITION;
  bool same = grammar.from == from && grammar.count <= history.count() - from;
  if (same) {
    uint64_t hash = LLMC_GRAMMAR_HASH_START;
    for (uint32_t i = 0; i < grammar.count; ++i) hash = hash_token(hash, history[from + i]);
    same = hash == grammar.hash;
  }
  if (!same) restart(grammar, from);
  for (uint32_t i = from + grammar.count; i < history.count(); ++i)
    if (const llmc_status bad = take(grammar, history[i])) return bad;
  return LLMC_OK;
}

void allow(void* state, uint32_t* mask) {
  llmc_grammar& grammar = *static_cast<llmc_grammar*>(state);
  grammar.matcher.allow(mask, grammar.words);
}

int text_state(const llmc_grammar* grammar) {
  return grammar->matcher.text_state();
}

}  // namespace

llmc_status make_grammar_hook(llmc_grammar* grammar, const llmc_model& model, uint32_t from,
                              GrammarHook* hook) {
  const llmc_grammar_header& header = grammar->tables.header;
  const uint32_t vocab = model.vocab;
  const bool other_tokens =
      model.vocabulary_hash != 0 && model.vocabulary_hash != header.vocabulary_hash;
  if (header.vocab > vocab || other_tokens) return LLMC_ERROR_GRAMMAR_TABLES;
  restart(*grammar, from);
  *hook = {grammar, from, vocab / 32 + (vocab % 32 != 0), follow, allow, text_state};
  return LLMC_OK;
}

}  // namespace llmc::core

using namespace llmc::core;

extern "C" {

llmc_status llmc_grammar_init(void* memory, size_t bytes, const void* tables, size_t tables_bytes,
                              llmc_grammar** grammar) {
  if (grammar == nullptr) return LLMC_ERROR_ARGUMENT;
  *grammar = nullptr;
  if (memory == nullptr || tables == nullptr) return LLMC_ERROR_ARGUMENT;
  if (reinterpret_cast<uintptr_t>(memory) % alignof(llmc_grammar) != 0) return LLMC_ERROR_ARGUMENT;
  if (bytes < LLMC_GRAMMAR_BYTES) return LLMC_ERROR_BUFFER;
  GrammarTables read;
  if (const llmc_status bad = read_grammar(tables, tables_bytes, &read)) return bad;
  llmc_grammar* const result = static_cast<llmc_grammar*>(memory);
  __builtin_memset(static_cast<void*>(result), 0, sizeof *result);
  result->tables = read;
  result->words = read.words();
  restart(*result, 0);
  *grammar = result;
  return LLMC_OK;
}

llmc_status llmc_grammar_restart(llmc_grammar* grammar) {
  if (grammar == nullptr) return LLMC_ERROR_ARGUMENT;
  restart(*grammar, 0);
  return LLMC_OK;
}

llmc_status llmc_grammar_accept(llmc_grammar* grammar, int32_t token) {
  return grammar == nullptr ? LLMC_ERROR_ARGUMENT : take(*grammar, token);
}

llmc_status llmc_grammar_allow(llmc_grammar* grammar, uint32_t* mask, size_t words) {
  if (grammar == nullptr || mask == nullptr || words < grammar->tables.words() ||
      words > UINT32_MAX)
    return LLMC_ERROR_ARGUMENT;
  grammar->matcher.allow(mask, static_cast<uint32_t>(words));
  return LLMC_OK;
}

int llmc_grammar_text_state(const llmc_grammar* grammar) {
  return grammar == nullptr ? LLMC_GRAMMAR_INCOMPLETE : text_state(grammar);
}

}  // extern "C"
