#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/dim.h"

/// Diagonal bands of a score matrix, and its division into chunks.
namespace llmc::passes {

/// Tokens in consecutive groups of `size`: key j and query i are in the same group if
/// floor((j + first_key) / size) == floor((i + first_query) / size).
struct Chunks {
  std::int64_t size = 0;
  ir::Dim first_query, first_key;
  friend bool operator==(const Chunks&, const Chunks&) = default;
};

/// A band of a score matrix: query i sees key j if lower <= j - i <= upper and, with `chunks`, key
/// and query are in the same chunk. An absent bound means no limit.
struct Band {
  std::optional<ir::Dim> lower, upper;
  std::optional<Chunks> chunks = {};
  friend bool operator==(const Band&, const Band&) = default;
};

/// Return the intersection or union of two bands; nullopt if it is not known to be a band, for
/// example because symbols determine which bound is larger.
std::optional<Band> intersection(const Band& a, const Band& b);
std::optional<Band> union_of(const Band& a, const Band& b);
/// Returns the band of the submatrix that begins at row `row` and column `column`. An absent bound
/// stays absent. Returns nullopt if `band` is absent or a bound cannot be computed.
std::optional<Band> part_of(std::optional<Band> band, const ir::Dim& row, const ir::Dim& column);
/// Returns whether every row i >= 0 is known to have at least one visible key j >= 0.
bool has_key_in_every_row(const Band& band);
/// Returns the band of the true elements of `seen`, a row-major matrix [rows, columns]; nullopt if
/// there are none or they are not a band.
std::optional<Band> band_of(const std::vector<bool>& seen, std::int64_t rows, std::int64_t columns);

}  // namespace llmc::passes
