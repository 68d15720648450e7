#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmc {

/// "line 3, column 7" of byte number `byte` of `text`; all are counted from 1, columns in bytes. 0
/// is the first byte, too; a byte past the end is the end.
std::string line_and_column(std::string_view text, std::size_t byte);

}  // namespace llmc
