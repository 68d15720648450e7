#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/plan/weights.h"

namespace llmc::emit {

/// Encodes `rows` rows of a matrix (whole panels) or table in the weight's format; `values` holds
/// rows * columns finite floats.
void pack_rows(const plan::PackedWeight& weight, std::span<const float> values, std::size_t rows,
               std::vector<std::byte>& out);

/// Largest magnitude the weight's format can hold; infinity when any float fits.
float largest_value(const plan::PackedWeight& weight);

}  // namespace llmc::emit
