#include "runtime/hosted/tokenizer/character_set.h"

#include <algorithm>

namespace llmc::hosted {

CharacterSet CharacterSet::of_categories(CategorySet categories) {
  CharacterSet set;
  set.ranges_ = category_ranges(categories);
  return set;
}

CharacterSet CharacterSet::white_space() {
  CharacterSet set = of_categories(kSeparators);
  set.add({0x9, 0xD});
  set.add({0x85, 0x85});
  return set;
}

CharacterSet CharacterSet::word() {
  CharacterSet set = of_categories(kWordCategories);
  for (const CodePointRange& range : kAlphabeticSymbols) set.add({range.first, range.last});
  return set;
}

CharacterSet CharacterSet::bare_word() {
  CharacterSet set = word();
  set.add({0xB2, 0xB3});  // superscripts
  set.add({0xB9, 0xB9});
  set.add({0xBC, 0xBE});  // fractions
  return set;
}

void CharacterSet::add(const CharacterSet& other) {
  std::vector<CodePointRange> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  std::sort(all.begin(), all.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  ranges_.clear();
  for (const CodePointRange& range : all) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1)
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    else
      ranges_.push_back(range);
  }
}

CharacterSet CharacterSet::complement() const {
  CharacterSet set;
  std::uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) set.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) set.ranges_.push_back({next, kLastCodePoint});
  return set;
}

CharacterSet CharacterSet::intersection(const CharacterSet& other) const {
  CharacterSet excluded = complement();
  excluded.add(other.complement());
  return excluded.complement();
}

bool CharacterSet::contains(std::uint32_t code_point) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), code_point,
      [](std::uint32_t c, const CodePointRange& range) { return c < range.first; });
  return after != ranges_.begin() && code_point <= std::prev(after)->last;
}

}  // namespace llmc::hosted
