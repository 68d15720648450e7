#pragma once

#include <string>
#include <string_view>

#include "runtime/hosted/grammar/grammar.h"

/// Returns expressions for parts of JSON text.
namespace llmc::hosted::grammar {

/// Returns the characters of `set` inside a string, unescaped if JSON allows this, and in every
/// escaped form. A surrogate pair is one character; a lone surrogate is not a character.
Expr json_characters(const CodePointSet& set);
/// Returns a string of `min_count` to `max_count` characters, with its quotes.
Expr json_string(std::uint32_t min_count, std::uint32_t max_count);
/// Returns the strings, with quotes, that match a regular expression of JSON schema's `pattern`, a
/// subset of ECMA 262. Unless it is anchored, it may match anywhere in the string. Throws if it is
/// not supported.
Expr json_pattern(std::string_view pattern);

/// Returns an integer of up to 16 digits.
Expr json_integer();
/// Returns a number of up to 16 digits before and after the point and up to 2 in the exponent, so
/// that its value is a finite double.
Expr json_number();

Expr json_boolean();

/// Returns the optional space after ':' and ','.
Expr json_optional_space();
/// Returns a comma, an optional space, and an item.
Expr json_next_item(Expr item);
/// Returns `min_count` to `max_count` items, separated by commas. Requires min_count >= 1.
Expr json_list(Expr item, std::uint32_t min_count, std::uint32_t max_count);
Expr json_pair(Expr key, Expr value);
Expr json_enclosed(std::string open, Expr inner, std::string close);

}  // namespace llmc::hosted::grammar
