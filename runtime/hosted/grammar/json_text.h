#pragma once

#include <string>
#include <string_view>

#include "runtime/hosted/grammar/grammar.h"

/// How JSON writes things, as expressions.
namespace llmc::hosted::grammar {

/// Characters of `set` inside a string: themselves where that is allowed, and every escape.
/// Surrogate pairs are one character; halves of them none.
Expr json_characters(const CodePointSet& set);
/// A whole string of least .. most characters, with its quotes.
Expr json_string(std::uint32_t min_count, std::uint32_t max_count);
/// A string whose characters a regular expression describes, as JSON schema's `pattern`: a subset
/// of ECMA 262's, anywhere in the string unless anchored. Throws what is not in the subset.
Expr json_pattern(std::string_view pattern);

/// Whole numbers of up to 16 digits.
Expr json_integer();
/// Numbers of up to 16 digits before and behind the point, exponents of up to two: more would not
/// fit a double.
Expr json_number();

Expr json_boolean();

/// What may follow ':' and ',': nothing or one blank.
Expr json_optional_space();
/// A comma and an item.
Expr json_next_item(Expr item);
/// Items with commas between them, `least` (at least 1) to `most`.
Expr json_list(Expr item, std::uint32_t min_count, std::uint32_t max_count);
Expr json_pair(Expr key, Expr value);
Expr json_enclosed(std::string open, Expr inner, std::string close);

}  // namespace llmc::hosted::grammar
