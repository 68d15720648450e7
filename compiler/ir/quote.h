#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Lossless conversion of untrusted names to text and back. Names are bare if possible, otherwise
/// quoted and escaped.
namespace llmc::ir {

/// Returns whether the name matches [A-Za-z_/][A-Za-z0-9_./]* without "//", which begins a comment.
bool is_bare_name(std::string_view name);
/// Returns the text in double quotes, with the escapes \" \\ \n \t, and \xNN for bytes that are
/// unsafe on a terminal.
std::string quoted(std::string_view text);
/// Returns the name, quoted unless it is a bare name.
std::string name_text(std::string_view name);

/// Consumes a quoted string from the front of `rest`; nullopt if it is malformed or unterminated.
std::optional<std::string> take_quoted(std::string_view& rest);
/// Consumes a bare or quoted name from the front of `rest`; nullopt if there is none.
std::optional<std::string> take_name(std::string_view& rest);

}  // namespace llmc::ir
