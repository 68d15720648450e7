#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/dim.h"

/// Diagonal bands of a score matrix.
namespace llmc::passes {

/// The keys j that query i of a score matrix reads: lower <= j - i <= upper. An absent bound does
/// not limit.
struct Band {
  std::optional<ir::Dim> lower, upper;
  friend bool operator==(const Band&, const Band&) = default;
};

/// Keys in both bands, or in either; nullopt if the result is not a band or depends on symbols.
std::optional<Band> intersection(const Band& a, const Band& b);
std::optional<Band> union_of(const Band& a, const Band& b);
/// Adds `by` to both bounds; an absent band or bound stays absent.
std::optional<Band> shifted(std::optional<Band> band, const ir::Dim& by);
/// Whether every row i >= 0 has at least one key; the last is j = i + upper.
bool has_key_in_every_row(const Band& band);
/// The band of a stored matrix [rows, columns]; nullopt if it is empty or not a band.
std::optional<Band> band_of(const std::vector<bool>& seen, std::int64_t rows, std::int64_t columns);

}  // namespace llmc::passes
