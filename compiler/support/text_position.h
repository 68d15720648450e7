#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmc {

/// Returns "line 3, column 7" for byte number `byte` of `text`; all are counted from 1, columns in
/// bytes. 0 counts as the first byte; a byte past the end counts as the end.
std::string line_and_column(std::string_view text, std::size_t byte);

}  // namespace llmc
