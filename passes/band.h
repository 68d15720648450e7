#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/dim.h"

/// Diagonal bands of a score matrix.
namespace llmc::passes {

/// The keys j that query i of a score matrix sees: lower <= j - i <= upper, where set. All keys
/// when neither is.
struct Band {
  std::optional<ir::Dim> lower, upper;
  friend bool operator==(const Band&, const Band&) = default;
};

/// Keys that both bands hold, or either; nullopt when that is no band, or symbols leave it open.
std::optional<Band> intersection(const Band& a, const Band& b);
std::optional<Band> union_of(const Band& a, const Band& b);
/// Both bounds moved; nullopt stays.
std::optional<Band> shifted(std::optional<Band> band, const ir::Dim& by);
/// Whether every row i >= 0 holds a key of its own, j = i + upper at the latest.
bool has_key_in_every_row(const Band& band);
/// The band of a stored matrix [rows, columns]; nullopt when it is none, or empty.
std::optional<Band> band_of(const std::vector<bool>& seen, std::int64_t rows, std::int64_t columns);

}  // namespace llmc::passes
