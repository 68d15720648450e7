#pragma once

#include "grammar_tables.h"

namespace llmc::core {

/// A state of the automaton, and what it returns to: an index of the frame below, or kNoFrame.
struct GrammarFrame {
  uint32_t state;
  uint32_t below;
};
inline constexpr uint32_t kNoFrame = UINT32_MAX;

/// Frames that all stacks of the kMaxGrammarPaths ways have together. Stacks share what they have
/// in common, so both are rarely more than a few.
inline constexpr uint32_t kMaxGrammarFrames = 1024;

/// Reads a text token by token and says which tokens can follow. A set of stacks: the ways the text
/// so far can be read.
class GrammarMatcher {
 public:
  /// At the start of a text. The tables must stay.
  void begin(const GrammarTables& tables);
  const GrammarTables& tables() const { return *tables_; }

  /// Reads a token. Nothing changes on LLMC_ERROR_GRAMMAR (it cannot come here) and
  /// LLMC_ERROR_GRAMMAR_DEPTH (more ways or frames than there is room for).
  llmc_status accept(uint32_t token);
  /// Sets the bits of the tokens that can come next in mask[words], words >= tables().words().
  void allow(uint32_t* mask, uint32_t words);
  /// LLMC_GRAMMAR_…
  int text_state() const;

 private:
  /// Paths that are being followed; frames beyond frame_count_ are theirs.
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
  void leave_out_too_deep(uint32_t* mask);
  bool is_stop(uint32_t token) const;

  const GrammarTables* tables_;
  uint32_t path_count_;
  uint32_t frame_count_;
  bool ended_;  // by a token that ends texts
  GrammarFrame paths_[kMaxGrammarPaths];
  GrammarFrame work_[2][kMaxGrammarPaths];
  GrammarFrame frames_[kMaxGrammarFrames];  // a frame stands behind the one below it
  uint16_t place_[kMaxGrammarFrames];       // while frames are moved: where they went
};

}  // namespace llmc::core

/// Lives in memory of the application. What is read token by token belongs to a session, or to who
/// calls llmc_grammar_accept.
struct llmc_grammar {
  llmc::core::GrammarTables tables;
  uint32_t words;  // of the masks that the session asks for which asked last
  uint32_t from;   // in a session, the position of the text's first token
  uint32_t count;  // tokens read so far
  uint64_t hash;   // of them
  llmc::core::GrammarMatcher matcher;
};
static_assert(sizeof(llmc_grammar) <= LLMC_GRAMMAR_BYTES);
