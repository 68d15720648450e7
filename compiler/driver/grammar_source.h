#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/support/result.h"
#include "runtime/hosted/chat/description.h"
#include "runtime/hosted/grammar/table_builder.h"
#include "runtime/hosted/tokenizer.h"

/// Grammars that a model's text is held to, from what a user wrote to tables (docs/grammar.md).
namespace llmc::driver {

struct GrammarSource {
  enum class Kind : std::uint8_t { kNone, kGbnf, kJsonSchema };
  Kind kind = Kind::kNone;
  std::string text;
  std::string file;  // for messages: a path, or the option it came with

  bool given() const { return kind != Kind::kNone; }
};

/// "gbnf", "json-schema"; nothing for none.
std::string_view kind_name(GrammarSource::Kind kind);

/// The grammar of a source that is given. Errors name the file and the place in it: kBadInput, or
/// kUnsupported for what tables cannot be made of.
Result<hosted::grammar::Grammar> parse_grammar(const GrammarSource& source);

/// Tables of a source that is given, for that model. `tokenizer` may be null: kBadInput, a grammar
/// needs one. Other errors: those of parse_grammar and build_tables.
Result<hosted::grammar::Tables> grammar_tables(const GrammarSource& source,
                                               const hosted::Tokenizer* tokenizer,
                                               std::uint64_t vocabulary,
                                               const hosted::ChatDescription& chat);

}  // namespace llmc::driver
