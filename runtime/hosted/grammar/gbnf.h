#pragma once

#include <string_view>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted::grammar {

/// A grammar as llama.cpp's .gbnf files write it: rules `name ::= …`, alternatives `|`, literals
/// and classes with escapes, groups, `.`, `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}`, comments `#`. The
/// text is what rule `root` matches. Failures have line and column; what stands for token ids
/// (`<…>`) is unsupported.
Outcome<Grammar> parse_gbnf(std::string_view text, std::string_view root = "root");

}  // namespace llmc::hosted::grammar
