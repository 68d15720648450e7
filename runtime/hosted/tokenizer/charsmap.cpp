#include <algorithm>
#include <cstring>

#include "runtime/hosted/tokenizer/normalizers.h"

namespace llmc::hosted {
namespace {

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

// A unit is an element of a darts-clone double array.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFFu;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FFu;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200u) >> 6);
}

}  // namespace

bool Charsmap::is_whole(std::string_view bytes) {
  if (bytes.size() < 4) return false;
  const std::uint32_t trie = word_at(bytes, 0);
  if (trie % 4 != 0 || trie < 4 || trie >= bytes.size() - 4 || bytes.back() != '\0') return false;
  // Real replacements have a few characters. Longer ones could make a text enormously long.
  std::size_t run = 0, longest = 0;
  for (const char c : bytes.substr(4 + trie)) {
    run = c == '\0' ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  return longest <= 256;
}

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) return;
  trie_ = bytes.substr(4, word_at(bytes, 0));
  replacements_ = bytes.substr(4 + trie_.size());
}

std::uint32_t Charsmap::unit(std::size_t index) const {
  return word_at(trie_, index * 4);
}

Charsmap::Match Charsmap::find(std::string_view input, bool longest) const {
  Match found;
  const std::size_t units = trie_.size() / 4;
  if (units == 0) return found;
  std::size_t node = offset_of(unit(0));
  for (std::size_t i = 0; i < input.size(); ++i) {
    const auto byte = static_cast<unsigned char>(input[i]);
    node ^= byte;
    if (node >= units) break;
    const std::uint32_t here = unit(node);
    if (label_of(here) != byte) break;
    node ^= offset_of(here);
    if (!has_leaf(here)) continue;
    if (node >= units) break;
    const std::size_t start = value_of(unit(node));
    if (start >= replacements_.size()) break;
    found = {std::string_view(replacements_.data() + start), i + 1};
    if (!longest) break;
  }
  return found;
}

}  // namespace llmc::hosted
