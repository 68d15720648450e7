#pragma once

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "llmc/llmc.h"
#include "runtime/hosted/grammar/gbnf.h"
#include "runtime/hosted/grammar/json_schema.h"
#include "runtime/hosted/grammar/table_builder.h"

/// Helpers of the tests of grammars.
namespace llmc::hosted::grammar::testing {

/// Whether `text` is a text of the grammar, by exhaustive search in the parsed grammar, without
/// automata.
bool belongs(const Grammar& grammar, std::string_view text);

Grammar parsed(std::string_view gbnf);
Grammar parsed_schema(std::string_view schema);

/// All single bytes, then `more`, then a token without text and a stop token (the last id).
Vocabulary vocabulary_with(std::vector<std::string> more);

/// Tables of a grammar and the runtime's state.
class Machine {
 public:
  Machine(const Grammar& grammar, Vocabulary vocabulary);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const TableFacts& facts() const { return tables_.facts; }
  const std::string& bytes() const { return tables_.bytes; }
  std::uint32_t end_token() const { return vocabulary_.stops.front(); }
  void restart();
  llmc_status accept(std::uint32_t token);
  /// Reads the bytes of a text one by one from the start; false if one is refused.
  bool read(std::string_view text);
  bool may_end() const { return state() != LLMC_GRAMMAR_INCOMPLETE; }
  int state() const { return llmc_grammar_text_state(grammar_); }
  std::vector<bool> allowed();
  /// Reads bytes from the start. Returns whether they are a text of the grammar.
  bool matches(std::string_view text) { return read(text) && may_end(); }
  /// Chooses allowed tokens until the end or `most` tokens. Returns their text.
  std::string generate(std::mt19937& random, std::size_t most);

 private:
  Vocabulary vocabulary_;
  Tables tables_;
  alignas(64) unsigned char memory_[LLMC_GRAMMAR_BYTES];
  llmc_grammar* grammar_ = nullptr;
};

/// Whether `text` is a text of the schema's grammar, by its tables; checked with belongs().
bool schema_matches(std::string_view schema, std::string_view text);
/// Returns those of `texts` that are; builds the tables once.
std::vector<std::string> schema_texts(std::string_view schema,
                                      const std::vector<std::string>& texts);
/// Why the schema is refused; expects that it is unsupported, or malformed.
std::string schema_error(std::string_view schema, bool unsupported = true);

}  // namespace llmc::hosted::grammar::testing
