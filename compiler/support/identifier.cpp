#include "compiler/support/identifier.h"

namespace llmc {

namespace {
constexpr std::size_t kMaxIdentifier = 48;
}

std::string resembling_identifier(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (letter || (digit && !name.empty())) {
      name += static_cast<char>(letter ? (c | 0x20) : c);
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  if (name.size() > kMaxIdentifier) {
    const std::size_t word = name.rfind('_', kMaxIdentifier);
    name.resize(word == std::string::npos ? kMaxIdentifier : word);
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

}  // namespace llmc
