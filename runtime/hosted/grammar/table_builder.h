#pragma once

#include <cstdint>
#include <string>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/grammar/vocabulary.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted::grammar {

/// Statistics of tables.
struct TableFacts {
  std::uint64_t bytes = 0;
  std::uint32_t states = 0, edges = 0, masks = 0, bitmaps = 0, flips = 0;
  std::uint32_t max_dependents = 0;  // maximum number of tokens that one state checks at each step
  bool has_stack = false;            // whether an edge pushes frames
};

struct Tables {
  std::string bytes;  // in the format of llmc/grammar.h
  TableFacts facts;
};

struct TableLimits {
  std::uint64_t bytes = std::uint64_t{256} << 20;
  std::uint64_t steps = 20'000'000'000;  // steps through the vocabulary; the maximum takes minutes
};

/// Builds the tables of a grammar for a vocabulary. Fails with LLMC_ERROR_FORMAT where
/// build_pushdown() or frames_below() throws, if the tables exceed a limit, if a token can be read
/// in too many ways, or if no token begins a text of the grammar.
Outcome<Tables> build_tables(const Grammar& grammar, const Vocabulary& vocabulary,
                             const TableLimits& limits = {});

}  // namespace llmc::hosted::grammar
