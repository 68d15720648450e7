#pragma once

#include <cstdint>
#include <string>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/grammar/vocabulary.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted::grammar {

/// What tables are made of, for people.
struct TableFacts {
  std::uint64_t bytes = 0;
  std::uint32_t states = 0, edges = 0, masks = 0, bitmaps = 0, flips = 0;
  std::uint32_t max_dependents = 0;  // of a state: tokens that are checked at each of its steps
  bool has_stack = false;            // some edge pushes
};

struct Tables {
  std::string bytes;  // as llmc/grammar.h says
  TableFacts facts;
};

struct TableLimits {
  std::uint64_t bytes = std::uint64_t{256} << 20;
  std::uint64_t steps = 20'000'000'000;  // of the walks through the vocabulary; minutes
};

/// The tables of a grammar for a vocabulary. Failures: those of build_pushdown; tables that
/// exceed a limit (unsupported); a grammar of which no text can begin with any token.
Outcome<Tables> build_tables(const Grammar& grammar, const Vocabulary& vocabulary,
                             const TableLimits& limits = {});

}  // namespace llmc::hosted::grammar
