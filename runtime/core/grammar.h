#pragma once

#include "grammar_tables.h"

namespace llmc::core {

/// A state of the automaton and the index of the frame it returns to, or kNoFrame.
struct GrammarFrame {
  uint32_t state;
  uint32_t below;
};
inline constexpr uint32_t kNoFrame = UINT32_MAX;

/// Maximum number of frames in the stacks of all paths together. Stacks share their common frames,
/// so in practice there are few.
inline constexpr uint32_t kMaxGrammarFrames = 1024;

/// Consumes a text token by token and computes which tokens can follow. Keeps a set of stacks, one
/// for each way to parse the text so far (a path).
class GrammarMatcher {
 public:
  /// Starts a text. The tables must stay valid.
  void begin(const GrammarTables& tables);
  const GrammarTables& tables() const { return *tables_; }

  /// Consumes a token. Nothing changes on LLMC_ERROR_GRAMMAR (the token is not allowed here) and
  /// LLMC_ERROR_GRAMMAR_DEPTH (more paths or frames than there is room for).
  llmc_status accept(uint32_t token);
  /// Sets the bits of the tokens that can come next in mask[words], words >= tables().words().
  void allow(uint32_t* mask, uint32_t words);
  /// Returns LLMC_GRAMMAR_INCOMPLETE, _MAY_END or _COMPLETE.
  int text_state() const;

 private:
  /// Paths being tried; frames from frame_count_ on belong to them.
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
  GrammarFrame frames_[kMaxGrammarFrames];  // a frame comes after the one below it
  uint16_t place_[kMaxGrammarFrames];       // new indices while frames are compacted
};

}  // namespace llmc::core

/// Lives in memory of the application. Its state belongs to one session, or to the caller of
/// llmc_grammar_accept.
struct llmc_grammar {
  llmc::core::GrammarTables tables;
  uint32_t words;  // size of the masks of the session that used it last
  uint32_t from;   // in a session: position of the text's first token
  uint32_t count;  // tokens consumed so far
  uint64_t hash;   // of these tokens
  llmc::core::GrammarMatcher matcher;
};
static_assert(sizeof(llmc_grammar) <= LLMC_GRAMMAR_BYTES);
