#pragma once

#include <stddef.h>
#include <stdint.h>

#include "llmc/grammar.h"
#include "llmc/llmc.h"

namespace llmc::core {

/// Maximum number of simultaneous paths through a grammar. Upper bounds count up to one path more
/// (kMaxCountedPaths), because the frames of a path are pushed before it is rejected as a duplicate
/// or beyond the limit.
inline constexpr uint32_t kMaxGrammarPaths = 64, kMaxCountedPaths = kMaxGrammarPaths + 1;
static_assert(kMaxGrammarPaths < LLMC_GRAMMAR_ROOM_UNKNOWN);

/// Pointers to the parts of a grammar's tables (llmc/grammar.h), which are not copied.
struct GrammarTables {
  llmc_grammar_header header;
  const llmc_grammar_state* states;
  const llmc_grammar_edge* edges;
  const uint32_t* frames;
  const llmc_grammar_context* contexts;
  const llmc_grammar_mask* masks;
  const uint32_t* bitmaps;
  const uint32_t* flips;
  const uint32_t* dependents;
  const uint32_t* stops;
  const uint32_t* offsets;
  const uint8_t* text;

  /// Upper bounds for one path that reads one token: the number of frames that all resulting paths
  /// push, and the number of these paths, at most kMaxCountedPaths.
  uint32_t max_pushed, max_paths;
  /// The same bounds for one byte: frames that one edge pushes, and paths that one path becomes.
  /// Then the sets of bytes that may push frames (pushing) or split a path (parting): bit byte % 32
  /// of word byte / 32.
  uint32_t max_pushed_by_byte, max_ways_by_byte;
  uint32_t pushing[8], parting[8];

  uint32_t words() const { return header.vocab / 32 + (header.vocab % 32 != 0); }
  uint32_t mask_of(uint32_t state) const { return states[state].mask_accept / 2; }
  bool pushes(uint8_t byte) const { return (pushing[byte / 32] >> byte % 32 & 1) != 0; }
  bool parts(uint8_t byte) const { return (parting[byte / 32] >> byte % 32 & 1) != 0; }
  bool accepts(uint32_t state) const { return states[state].mask_accept % 2 != 0; }
};

/// Sets *tables to the parts of `data`, which must stay valid. Checks every index and size in them,
/// so that later accesses stay in bounds. Fails with LLMC_ERROR_GRAMMAR_TABLES if the version, the
/// hash, an index or a size is wrong, or if the data is not aligned to 8 bytes.
llmc_status read_grammar(const void* data, size_t bytes, GrammarTables* tables);

}  // namespace llmc::core
