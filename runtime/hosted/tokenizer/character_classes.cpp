#include "runtime/hosted/tokenizer/character_classes.h"

#include <algorithm>
#include <map>

#include "runtime/hosted/tokenizer/split_patterns.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {

bool CharacterClasses::build(const std::vector<CharacterSet>& sets) {
  // The boundaries of the sets. All characters between two successive boundaries have the same
  // class.
  std::vector<std::pair<std::uint32_t, std::size_t>> edges;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (const CodePointRange& range : sets[i].ranges()) {
      edges.emplace_back(range.first, i);
      edges.emplace_back(range.last + 1, i);
    }
  }
  std::sort(edges.begin(), edges.end());
  std::map<std::vector<bool>, Class> known;  // classes by the sets that contain them
  std::vector<bool> inside(sets.size(), false);
  // Pages whose characters all have the same class, by class.
  std::map<Class, std::uint16_t> uniform;
  pages_.clear();
  page_of_.assign((kLastCodePoint + 1) / 256, 0);
  Page page{};
  std::size_t edge = 0;
  for (std::uint32_t c = 0; c <= kLastCodePoint;) {
    for (; edge < edges.size() && edges[edge].first == c; ++edge)
      inside[edges[edge].second] = !inside[edges[edge].second];
    const auto [it, added] = known.try_emplace(inside, static_cast<Class>(known.size() + 1));
    if (added && known.size() >= kMaxClasses) return false;
    const std::uint32_t end = edge < edges.size() ? edges[edge].first : kLastCodePoint + 1;
    while (c < end) {
      const std::uint32_t page_end = (c | 0xFF) + 1;
      if ((c & 0xFF) == 0 && end >= page_end) {
        const auto [same, fresh] =
            uniform.try_emplace(it->second, static_cast<std::uint16_t>(pages_.size()));
        if (fresh) {
          page.fill(it->second);
          pages_.push_back(page);
        }
        page_of_[c >> 8] = same->second;
        c = page_end;
        continue;
      }
      const std::uint32_t until = std::min(end, page_end);
      std::fill(page.begin() + (c & 0xFF), page.begin() + (c & 0xFF) + (until - c), it->second);
      if (until == page_end) {
        page_of_[c >> 8] = static_cast<std::uint16_t>(pages_.size());
        pages_.push_back(page);
      }
      c = until;
    }
  }
  first_ = pages_[page_of_[0]];
  for (unsigned byte = 0; byte < 256; ++byte)
    of_bytes_[byte] = of(spelling_of(static_cast<unsigned char>(byte)));
  members_.assign(sets.size() * kMaxClasses, 0);
  for (const auto& [signature, kind] : known)
    for (std::size_t i = 0; i < sets.size(); ++i)
      members_[i * kMaxClasses + kind] = signature[i] ? 1 : 0;
  return true;
}

CharacterClasses::At CharacterClasses::decoded(std::string_view text) const {
  const Utf8Char c = decode_utf8(text);
  if (c.bytes == 0) return {of(kLastCodePoint), 1};
  return {of(c.code_point), static_cast<std::uint32_t>(c.bytes)};
}

}  // namespace llmc::hosted
