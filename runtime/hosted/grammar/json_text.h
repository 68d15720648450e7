#pragma once

#include <string>
#include <string_view>

#include "runtime/hosted/grammar/grammar.h"

/// Expressions for parts of JSON text.
namespace llmc::hosted::grammar {

/// The characters of `set` in a string, plain where JSON allows it and in every escaped form. A
/// surrogate pair is one character; a lone surrogate is not one.
Expr json_characters(const CodePointSet& set);
/// A string of `min_count` to `max_count` characters with its quotes.
Expr json_string(std::uint32_t min_count, std::uint32_t max_count);
/// The strings that match a regular expression of JSON schema's `pattern`, with quotes. A subset of
/// ECMA 262; matches anywhere in the string unless anchored. Throws if unsupported.
Expr json_pattern(std::string_view pattern);

/// An integer of up to 16 digits.
Expr json_integer();
/// A number of up to 16 digits before and after the point and up to 2 in the exponent, so that it
/// is a finite double.
Expr json_number();

Expr json_boolean();

/// At most one space, after ':' and ','.
Expr json_optional_space();
/// A comma, an optional space, and an item.
Expr json_next_item(Expr item);
/// `min_count` to `max_count` items, separated by commas. Requires min_count >= 1.
Expr json_list(Expr item, std::uint32_t min_count, std::uint32_t max_count);
Expr json_pair(Expr key, Expr value);
Expr json_enclosed(std::string open, Expr inner, std::string close);

}  // namespace llmc::hosted::grammar
