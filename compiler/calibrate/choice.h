#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/op.h"

/// Chooses formats of matrices from their sizes and losses.
namespace llmc::calibrate {

/// The formats among which is chosen, coarsest first.
inline constexpr auto kChoices = [] {
  std::array<ir::WeightFormat, std::ranges::count_if(ir::kFormatsByError, ir::is_quantized)> found;
  std::ranges::copy_if(ir::kFormatsByError, found.begin(), ir::is_quantized);
  return found;
}();
using Losses = std::array<double, kChoices.size()>;  // in nats, by format

/// Matrices that get the same format: one, or the same one of successive layers.
struct ChoiceUnit {
  std::array<std::uint64_t, kChoices.size()> bytes{};  // do not decrease
  Losses losses{};                                     // finite, not negative
};

/// Indices into kChoices, one for each unit.
using Formats = std::vector<std::size_t>;

std::uint64_t bytes_of(std::span<const ChoiceUnit> units, const Formats& formats);
double loss_of(std::span<const ChoiceUnit> units, const Formats& formats);

/// Returns the formats with the least sum of losses whose bytes are at most `budget`, which must be
/// at least the bytes of the coarsest formats (LLMC_CHECK). The search is exact for sizes that are
/// rounded up to 1 / 32768 of the difference between all fine and all coarse; so with a larger
/// budget the loss is never larger.
Formats least_loss(std::span<const ChoiceUnit> units, std::uint64_t budget);
/// Returns the formats with the least bytes whose losses are at most `budget`, searched in the same
/// way; the ones with the least loss if there are none.
Formats least_bytes(std::span<const ChoiceUnit> units, double budget);

/// Divides layers into at most `max_ranges` ranges of successive layers with similar losses, for
/// which one format is chosen. `losses` are [layer][matrix]; each layer has the same number of
/// matrices. Minimizes the squared differences of their logarithms from their means in a range.
/// Returns the numbers of layers.
std::vector<std::int64_t> similar_ranges(const std::vector<std::vector<double>>& losses,
                                         std::size_t max_ranges);

}  // namespace llmc::calibrate
