#include "compiler/support/nearest.h"

#include <algorithm>
#include <vector>

namespace llmc {
namespace {

/// Returns the minimum number of edits that turn one word into the other (optimal string
/// alignment): letters inserted, deleted or changed, or adjacent letters swapped.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t k = 0; k <= b.size(); ++k) {
      if (i == 0 || k == 0) {
        d[i][k] = i + k;
        continue;
      }
      const bool same = a[i - 1] == b[k - 1];
      d[i][k] = std::min({d[i - 1][k] + 1, d[i][k - 1] + 1, d[i - 1][k - 1] + (same ? 0 : 1)});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        d[i][k] = std::min(d[i][k], d[i - 2][k - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  if (word.size() > 80) return best;
  std::size_t least = 3;  // smallest distance so far; words with 3 or more edits do not match
  for (const std::string_view name : known) {
    const std::size_t distance = edit_distance(word, name);
    if (distance < least) least = distance, best = name;
  }
  return best;
}

}  // namespace llmc
