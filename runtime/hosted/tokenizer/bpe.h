#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

namespace llmc::hosted {

/// A stretch of the text being merged. Neighbours are found by index: -1 is none.
struct BpeSymbol {
  std::string_view text;
  std::ptrdiff_t previous = -1;
  std::ptrdiff_t next = -1;
  bool frozen = false;  // takes no part in merging
};

/// The text of two neighbours: they lie side by side.
inline std::string_view union_of(std::string_view left, std::string_view right) {
  return {left.data(), left.size() + right.size()};
}

/// Byte-pair encoding: joins the two neighbours with the highest priority, the leftmost among
/// equals, until no two have one. O(n log n).
/// `symbols` lie side by side in one text, in order; what is merged away is left with an empty
/// text. `priority(left, right)` is a std::optional<float or integer>; `found(left, right)` sees
/// each pair that has one, whether or not it is joined in the end.
template <class Priority, class Found>
void merge_pairs(std::vector<BpeSymbol>& symbols, Priority&& priority, Found&& found) {
  using Value = typename decltype(priority(std::string_view{}, std::string_view{}))::value_type;
  struct Pair {
    Value priority;
    std::ptrdiff_t left, right;
    std::size_t bytes;
    bool operator<(const Pair& other) const {
      return priority < other.priority || (priority == other.priority && left > other.left);
    }
  };
  std::priority_queue<Pair> agenda;
  const auto consider = [&](std::ptrdiff_t left, std::ptrdiff_t right) {
    if (left < 0 || right < 0) return;
    const BpeSymbol& a = symbols[static_cast<std::size_t>(left)];
    const BpeSymbol& b = symbols[static_cast<std::size_t>(right)];
    if (a.frozen || b.frozen) return;
    if (const auto value = priority(a.text, b.text)) {
      agenda.push({*value, left, right, a.text.size() + b.text.size()});
      found(a.text, b.text);
    }
  };
  for (std::size_t i = 1; i < symbols.size(); ++i)
    consider(static_cast<std::ptrdiff_t>(i) - 1, static_cast<std::ptrdiff_t>(i));
  while (!agenda.empty()) {
    const Pair top = agenda.top();
    agenda.pop();
    BpeSymbol& left = symbols[static_cast<std::size_t>(top.left)];
    BpeSymbol& right = symbols[static_cast<std::size_t>(top.right)];
    // One of the two was merged with another neighbour meanwhile.
    if (left.text.empty() || right.text.empty() ||
        left.text.size() + right.text.size() != top.bytes) {
      continue;
    }
    left.text = std::string_view(left.text.data(), top.bytes);
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<std::size_t>(right.next)].previous = top.left;
    right.text = {};
    consider(left.previous, top.left);
    consider(top.left, left.next);
  }
}

/// Links `symbols` in their order.
inline void link_symbols(std::vector<BpeSymbol>& symbols) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<std::ptrdiff_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<std::ptrdiff_t>(i) + 1 : -1;
  }
}

}  // namespace llmc::hosted
