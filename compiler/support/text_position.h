#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmc {

/// Returns "line 3, column 7" for byte `byte` of `text`. Bytes, lines and columns are counted from
/// 1, columns in bytes. 0 means the first byte; a number after the end means the end.
std::string line_and_column(std::string_view text, std::size_t byte);

}  // namespace llmc
