#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmc::emit {

/// Maximum columns of a line of emitted source.
inline constexpr std::size_t kMaxColumns = 100;

/// Breaks the lines of C++ source that have more than kMaxColumns columns, in the style of
/// clang-format: after commas, aligned with the open bracket or, if that takes more lines, indented
/// by four; then at operators. Line comments are broken at spaces; in a line that is too long, a
/// comment after code is moved before the code. Preprocessor lines, string literals and single
/// words stay whole. Nothing but white space and comment marks is added.
std::string wrapped(std::string_view source);

}  // namespace llmc::emit
