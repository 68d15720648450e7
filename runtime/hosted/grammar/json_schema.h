#pragma once

#include <string_view>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted::grammar {

/// Converts a JSON schema to a grammar. Every text of the grammar is valid for the schema, but not
/// every form of a valid document is a text: properties are in the order of the schema, there is at
/// most one space after ':' and ',' and no other white space, and constants have only their usual
/// form. docs/grammar.md lists the supported keywords; all other keywords that restrict documents
/// are unsupported. Also fails if the text is not JSON or a keyword has an invalid value. Failures
/// state the place in the schema.
Outcome<Grammar> parse_json_schema(std::string_view text);

}  // namespace llmc::hosted::grammar
