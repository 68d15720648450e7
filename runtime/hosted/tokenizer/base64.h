#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace llmc::hosted {

/// Decodes standard base64 with padding (RFC 4648, section 4). Returns nullopt for any other text.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace llmc::hosted
