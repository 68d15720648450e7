#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/op.h"

/// Chooses the formats of matrices by size and loss.
namespace llmc::calibrate {

/// The formats to choose from, coarsest first.
inline constexpr auto kChoices = [] {
  std::array<ir::WeightFormat, std::ranges::count_if(ir::kFormatsByError, ir::is_quantized)> found;
  std::ranges::copy_if(ir::kFormatsByError, found.begin(), ir::is_quantized);
  return found;
}();
using Losses = std::array<double, kChoices.size()>;  // in nats, by format

/// Matrices that get the same format: one, or the same matrix of successive layers.
struct ChoiceUnit {
  std::array<std::uint64_t, kChoices.size()> bytes{};  // by format, not decreasing
  Losses losses{};                                     // finite, not negative
};

/// Indices into kChoices, one for each unit.
using Formats = std::vector<std::size_t>;

std::uint64_t bytes_of(std::span<const ChoiceUnit> units, const Formats& formats);
double loss_of(std::span<const ChoiceUnit> units, const Formats& formats);

/// Returns the formats with the least total loss whose total size is at most `budget` bytes. The
/// budget must be at least the size of the coarsest formats (LLMC_CHECK). The search is exact after
/// sizes are rounded up to steps: 1 / 32768 of the difference between the finest and the coarsest
/// formats of all units. Therefore a larger budget never results in a larger loss.
Formats least_loss(std::span<const ChoiceUnit> units, std::uint64_t budget);
/// Returns the formats with the least total size whose total loss is at most `budget`, with the
/// same rounding of sizes. If there are none, returns the formats with the least loss.
Formats least_bytes(std::span<const ChoiceUnit> units, double budget);

/// Divides layers into at most `max_ranges` ranges of successive layers with similar losses, so
/// that each range can have one format. `losses` is [layer][matrix]; each layer has the same number
/// of matrices. Minimizes the sum of the squared differences between the (approximate) logarithm of
/// each loss and the mean of these logarithms for the same matrix in the range. Returns the number
/// of layers of each range.
std::vector<std::int64_t> similar_ranges(const std::vector<std::vector<double>>& losses,
                                         std::size_t max_ranges);

}  // namespace llmc::calibrate
