#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/dim.h"

/// Diagonal bands of a score matrix.
namespace llmc::passes {

/// The keys j visible to query i in a score matrix: lower <= j - i <= upper. An absent bound means
/// no limit.
struct Band {
  std::optional<ir::Dim> lower, upper;
  friend bool operator==(const Band&, const Band&) = default;
};

/// Return the intersection or union of two bands; nullopt if the result is not a band or depends on
/// symbols.
std::optional<Band> intersection(const Band& a, const Band& b);
std::optional<Band> union_of(const Band& a, const Band& b);
/// Returns the band with `by` added to both bounds. An absent band or bound stays absent.
std::optional<Band> shifted(std::optional<Band> band, const ir::Dim& by);
/// Returns whether every row i >= 0 is known to have at least one visible key j >= 0: the last one,
/// j = i + upper, must be >= 0 and inside the band.
bool has_key_in_every_row(const Band& band);
/// Returns the band of the true elements of a row-major matrix [rows, columns]; nullopt if there
/// are none or they are not a band.
std::optional<Band> band_of(const std::vector<bool>& seen, std::int64_t rows, std::int64_t columns);

}  // namespace llmc::passes
