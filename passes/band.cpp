#include "passes/band.h"

#include <algorithm>

#include "compiler/ir/shape_value.h"

namespace llmc::passes {

using ir::Dim;
using FoundBand = std::optional<Band>;

namespace {

/// Returns the larger (or smaller) dim; nullopt if that depends on symbols.
std::optional<Dim> chosen(const Dim& a, const Dim& b, bool larger) {
  const auto d = ir::sub(a, b), minus = ir::sub(b, a);
  if (d && ir::is_non_negative(*d)) return larger ? a : b;
  if (minus && ir::is_non_negative(*minus)) return larger ? b : a;
  return std::nullopt;
}

}  // namespace

FoundBand intersection(const Band& a, const Band& b) {
  Band result = a;
  if (b.lower) result.lower = a.lower ? chosen(*a.lower, *b.lower, true) : b.lower;
  if (b.upper) result.upper = a.upper ? chosen(*a.upper, *b.upper, false) : b.upper;
  if (b.chunks) {
    if (a.chunks && a.chunks != b.chunks) return std::nullopt;
    result.chunks = b.chunks;
  }
  const bool open = (b.lower && !result.lower) || (b.upper && !result.upper);
  return open ? std::nullopt : FoundBand(result);
}

FoundBand union_of(const Band& a, const Band& b) {
  if (a == Band{} || b == Band{}) return Band{};
  if (a == b) return a;
  if (a.chunks || b.chunks) return std::nullopt;
  Band result;
  if (!a.lower && !b.lower) {
    result.upper = chosen(*a.upper, *b.upper, true);
    return result.upper ? FoundBand(result) : std::nullopt;
  }
  if (!a.upper && !b.upper) {
    result.lower = chosen(*a.lower, *b.lower, false);
    return result.lower ? FoundBand(result) : std::nullopt;
  }
  return std::nullopt;
}

FoundBand part_of(FoundBand band, const Dim& row, const Dim& column) {
  const auto by = ir::sub(row, column);
  if (!band || !by) return std::nullopt;
  const auto move = [](Dim& value, const Dim& more) {
    const auto sum = ir::add(value, more);
    if (sum) value = *sum;
    return sum.has_value();
  };
  bool known = true;
  if (band->lower) known = move(*band->lower, *by);
  if (band->upper) known = move(*band->upper, *by) && known;
  if (band->chunks)
    known = move(band->chunks->first_query, row) && move(band->chunks->first_key, column) && known;
  return known ? band : std::nullopt;
}

bool has_key_in_every_row(const Band& band) {
  const auto non_negative = [](const std::optional<Dim>& x) {
    return x && ir::is_non_negative(*x);
  };
  if (band.chunks) {
    const auto own = ir::sub(band.chunks->first_query, band.chunks->first_key);
    return non_negative(own) && (!band.upper || non_negative(ir::sub(*band.upper, *own))) &&
           (!band.lower || non_negative(ir::sub(*own, *band.lower)));
  }
  if (!band.upper) return !band.lower;
  if (!ir::is_non_negative(*band.upper)) return false;
  return !band.lower || non_negative(ir::sub(*band.upper, *band.lower));
}

FoundBand band_of(const std::vector<bool>& seen, std::int64_t rows, std::int64_t columns) {
  std::int64_t low = INT64_MIN, high = INT64_MAX;  // bounds of j - i
  bool below = false, above = false;
  std::int64_t first = INT64_MAX, last = INT64_MIN;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (seen[static_cast<std::size_t>(i * columns + j)]) {
        first = std::min(first, j - i);
        last = std::max(last, j - i);
      }
  if (first > last) return std::nullopt;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const bool in = j - i >= first && j - i <= last;
      if (in != seen[static_cast<std::size_t>(i * columns + j)]) return std::nullopt;
      below = below || j - i < first;
      above = above || j - i > last;
    }
  if (below) low = first;
  if (above) high = last;
  Band band;
  if (low != INT64_MIN) band.lower = Dim(low);
  if (high != INT64_MAX) band.upper = Dim(high);
  return band;
}

}  // namespace llmc::passes
