#pragma once

#include <string_view>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted::grammar {

/// The JSON documents that a schema allows, as a grammar. Every text of the grammar is valid for
/// the schema; of its documents the grammar has one spelling: properties in the schema's order, a
/// blank at most behind ':' and ',', constants as they are usually written. docs/grammar.md lists
/// the keywords; any other that restricts a document is unsupported and named with its place.
/// Failure too when the text is no JSON or a keyword's value is not what it should be.
Outcome<Grammar> parse_json_schema(std::string_view text);

}  // namespace llmc::hosted::grammar
