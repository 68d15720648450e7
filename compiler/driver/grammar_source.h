#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/support/result.h"
#include "runtime/hosted/chat/description.h"
#include "runtime/hosted/grammar/table_builder.h"
#include "runtime/hosted/tokenizer.h"

/// Compiles grammars that constrain generated text: from a grammar's source to its tables
/// (docs/grammar.md).
namespace llmc::driver {

struct GrammarSource {
  enum class Kind : std::uint8_t { kNone, kGbnf, kJsonSchema };
  Kind kind = Kind::kNone;
  std::string text;
  std::string file;  // name for messages: a path, or the option that contained the text

  bool given() const { return kind != Kind::kNone; }
};

/// Returns "gbnf" or "json-schema"; empty for kNone.
std::string_view kind_name(GrammarSource::Kind kind);

/// Parses the grammar of `source`, which must not be kNone. Errors state the file and the position
/// in it. Fails with kBadInput, or with kUnsupported for constructs that tables cannot represent.
Result<hosted::grammar::Grammar> parse_grammar(const GrammarSource& source);

/// Builds the tables of `source`, which must not be kNone, for a model. Fails with kBadInput if
/// `tokenizer` is nullptr, because a grammar needs one. Also fails like parse_grammar() and
/// build_tables().
Result<hosted::grammar::Tables> grammar_tables(const GrammarSource& source,
                                               const hosted::Tokenizer* tokenizer,
                                               std::uint64_t vocabulary,
                                               const hosted::ChatDescription& chat);

}  // namespace llmc::driver
