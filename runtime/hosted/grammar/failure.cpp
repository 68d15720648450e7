#include "runtime/hosted/grammar/failure.h"

#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::grammar {

std::string printable(std::string_view text, std::size_t max_bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const Utf8Char character = decode_utf8(text);
    const std::uint32_t code = character.code_point;
    const bool shown = character.bytes > 0 && code >= 0x20 && (code < 0x7F || code > 0x9F);
    if (out.size() + (shown ? character.bytes : 4) > max_bytes) return out + "…";
    const auto byte = static_cast<unsigned char>(text.front());
    if (shown) {
      out += text.substr(0, character.bytes);
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
    text.remove_prefix(shown ? character.bytes : 1);
  }
  return out;
}

}  // namespace llmc::hosted::grammar
