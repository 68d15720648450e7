#pragma once

#include <string_view>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted::grammar {

/// Parses a grammar in the format of llama.cpp's .gbnf files: rules `name ::= …`, alternatives `|`,
/// literals and classes with escapes, groups, `.`, `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}`, comments
/// `#`. Rule `root` matches the whole text. Token ids (`<…>`) are not supported. Failures state the
/// line and the column.
Outcome<Grammar> parse_gbnf(std::string_view text, std::string_view root = "root");

}  // namespace llmc::hosted::grammar
