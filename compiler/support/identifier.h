#pragma once

#include <string>
#include <string_view>

namespace llmc {

/// Returns a C identifier that resembles the first 48 bytes of `text`: lower-case letters and
/// digits, a letter first, single underscores between them. Empty if there is no letter.
std::string resembling_identifier(std::string_view text);

}  // namespace llmc
