#pragma once

#include <string_view>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted::grammar {

/// Converts a JSON schema to a grammar. Every text of the grammar is valid for the schema. Each
/// document has one form: properties in the schema's order, at most one space after ':' and ',',
/// constants in their usual form. docs/grammar.md lists the keywords; any other that restricts
/// documents is unsupported. A failure names the place in the schema; it is also given for text
/// that is not JSON and for invalid values of keywords.
Outcome<Grammar> parse_json_schema(std::string_view text);

}  // namespace llmc::hosted::grammar
