#pragma once

#include "grammar_tables.h"

namespace llmc::core {

/// An entry of a stack: a state of the automaton, and the index of the frame below it (kNoFrame:
/// none).
struct GrammarFrame {
  uint32_t state;
  uint32_t below;
};
inline constexpr uint32_t kNoFrame = UINT32_MAX;

/// Maximum number of frames in the stacks of all paths together, including the frames that paths
/// push while a token is being read. Few are needed in practice, because stacks share their common
/// frames.
inline constexpr uint32_t kMaxGrammarFrames = 1024;

/// Reads a text token by token and computes which tokens can come next. Keeps a set of stacks, one
/// for each possible way to parse the text so far (a path).
class GrammarMatcher {
 public:
  /// Starts a text. `tables` must stay valid.
  void begin(const GrammarTables& tables);
  const GrammarTables& tables() const { return *tables_; }

  /// Consumes a token. On an error nothing has changed: LLMC_ERROR_GRAMMAR if the token is not
  /// allowed here, LLMC_ERROR_GRAMMAR_DEPTH if there are too many paths or frames.
  llmc_status accept(uint32_t token);
  /// Sets mask[words] to the tokens that can come next. Requires words >= tables().words().
  void allow(uint32_t* mask, uint32_t words);
  /// Returns LLMC_GRAMMAR_INCOMPLETE, _MAY_END or _COMPLETE.
  int text_state() const;

 private:
  /// Paths that are being tried. They own the frames from GrammarMatcher::frame_count_ to
  /// frame_count - 1.
  struct Trial {
    GrammarFrame* paths;
    uint32_t count;
    uint32_t frame_count;
    bool overflow;
  };

  void read_byte(const GrammarFrame* from, uint32_t count, uint8_t byte, Trial& to);
  void add(const llmc_grammar_edge& edge, uint32_t below, Trial& to);
  bool same_stack(uint32_t a, uint32_t b) const;
  Trial read_token(const GrammarFrame* from, uint32_t count, uint32_t token);
  void keep(const Trial& trial);
  uint32_t mask_of(const GrammarFrame& path, bool& whole) const;
  void merge(uint32_t mask_index, uint32_t* mask) const;
  bool may_overflow(uint32_t token) const;
  void mask_over_depth_limit(uint32_t* mask);
  bool is_stop(uint32_t token) const;

  const GrammarTables* tables_;
  uint32_t path_count_;
  uint32_t frame_count_;
  bool ended_;  // a token that ends a text was consumed
  GrammarFrame paths_[kMaxGrammarPaths];
  GrammarFrame work_[2][kMaxGrammarPaths];
  GrammarFrame frames_[kMaxGrammarFrames];  // a frame is stored after the frame below it
  uint16_t place_[kMaxGrammarFrames];       // new indices of frames while they are compacted
};

}  // namespace llmc::core

/// A grammar, stored in memory that the application provides. Its state is that of the text that it
/// read last: the text of a sequence, or of the caller of llmc_grammar_accept.
struct llmc_grammar {
  llmc::core::GrammarTables tables;
  uint32_t words;  // size of the masks in 32-bit words, for the session that last used it
  uint32_t from;   // in a session: position of the first token of the text
  uint32_t count;  // number of tokens consumed so far
  uint64_t hash;   // hash of these tokens
  llmc::core::GrammarMatcher matcher;
};
static_assert(sizeof(llmc_grammar) <= LLMC_GRAMMAR_BYTES);
