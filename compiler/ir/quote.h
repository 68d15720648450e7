#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Untrusted names in text form: bare when they look like a name, quoted and escaped otherwise, and
/// back again byte for byte.
namespace llmc::ir {

/// [A-Za-z_/][A-Za-z0-9_./]*, without "//", which begins a comment.
bool is_bare_name(std::string_view name);
/// The text between double quotes, with \" \\ \n \t and \xNN for what a terminal must not see.
std::string quoted(std::string_view text);
/// The name as it stands, or quoted when it is not a bare name.
std::string name_text(std::string_view name);

/// Takes a quoted string from the front of `rest`; nullopt when it is malformed or unterminated.
std::optional<std::string> take_quoted(std::string_view& rest);
/// Takes a bare or quoted name from the front of `rest`; nullopt when neither stands there.
std::optional<std::string> take_name(std::string_view& rest);

}  // namespace llmc::ir
