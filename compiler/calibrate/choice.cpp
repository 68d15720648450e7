#include "compiler/calibrate/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

/// Number of sizes that are distinguished.
constexpr std::uint64_t kSizes = 32768;

/// Least total loss for each total size. Sizes are in steps above the size of the coarsest formats.
class Table {
 public:
  explicit Table(std::span<const ChoiceUnit> units) : units_(units) {
    for (const ChoiceUnit& unit : units) range_ += unit.bytes.back() - unit.bytes.front();
    step_ = std::max<std::uint64_t>(1, (range_ + kSizes - 1) / kSizes);
    // The size of each unit is rounded up, so the total may exceed kSizes by one step per unit.
    std::vector<double> loss(kSizes + units.size() + 1, 0);
    chosen_.assign(units.size(), std::vector<std::uint8_t>(loss.size(), 0));
    for (std::size_t u = 0; u < units.size(); ++u) {
      std::vector<double> next(loss.size(), std::numeric_limits<double>::infinity());
      for (std::size_t f = 0; f < kChoices.size(); ++f) {
        const std::uint64_t steps = steps_of(units[u], f);
        for (std::size_t size = steps; size < loss.size(); ++size) {
          const double sum = loss[size - steps] + units[u].losses[f];
          if (!(sum < next[size])) continue;
          next[size] = sum;
          chosen_[u][size] = static_cast<std::uint8_t>(f);
        }
      }
      loss = std::move(next);
    }
    loss_ = std::move(loss);
  }

  std::size_t size_of(std::uint64_t bytes) const {
    return bytes >= range_ ? loss_.size() - 1 : static_cast<std::size_t>(bytes / step_);
  }
  /// Returns the least size whose loss is at most `budget`, or, if there is none, the least size
  /// with the least loss.
  std::size_t size_of(double budget) const {
    const double wanted = std::max(budget, loss_.back());
    return static_cast<std::size_t>(
        std::ranges::find_if(loss_, [&](double loss) { return loss <= wanted; }) - loss_.begin());
  }
  Formats formats(std::size_t size) const {
    Formats formats(units_.size());
    for (std::size_t u = units_.size(); u-- > 0;) {
      formats[u] = chosen_[u][size];
      size -= static_cast<std::size_t>(steps_of(units_[u], formats[u]));
    }
    return formats;
  }

 private:
  std::uint64_t steps_of(const ChoiceUnit& unit, std::size_t format) const {
    return (unit.bytes[format] - unit.bytes.front() + step_ - 1) / step_;
  }

  std::span<const ChoiceUnit> units_;
  std::uint64_t range_ = 0, step_ = 1;
  std::vector<double> loss_;                       // by size; does not increase
  std::vector<std::vector<std::uint8_t>> chosen_;  // [unit][size]
};

/// Returns an approximation of log2(x) + 2 that is the same on every host: linear between powers of
/// 2. Only differences of the results are used.
double rough_log2(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(std::max(x, 0x1p-100), &exponent);
  return exponent + 2 * mantissa;
}

}  // namespace

std::uint64_t bytes_of(std::span<const ChoiceUnit> units, const Formats& formats) {
  std::uint64_t sum = 0;
  for (std::size_t u = 0; u < units.size(); ++u) sum += units[u].bytes[formats[u]];
  return sum;
}

double loss_of(std::span<const ChoiceUnit> units, const Formats& formats) {
  double sum = 0;
  for (std::size_t u = 0; u < units.size(); ++u) sum += units[u].losses[formats[u]];
  return sum;
}

Formats least_loss(std::span<const ChoiceUnit> units, std::uint64_t budget) {
  const std::uint64_t least = bytes_of(units, Formats(units.size(), 0));
  LLMC_CHECK(budget >= least);
  const Table table(units);
  return table.formats(table.size_of(budget - least));
}

Formats least_bytes(std::span<const ChoiceUnit> units, double budget) {
  const Table table(units);
  return table.formats(table.size_of(budget));
}

std::vector<std::int64_t> similar_ranges(const std::vector<std::vector<double>>& losses,
                                         std::size_t max_ranges) {
  const std::size_t layers = losses.size();
  LLMC_CHECK(layers > 0 && max_ranges > 0);
  if (layers <= max_ranges) return std::vector<std::int64_t>(layers, 1);
  const double infinity = std::numeric_limits<double>::infinity();
  // cost[first][end]: cost of layers first .. end - 1 as one range.
  std::vector<std::vector<double>> cost(layers, std::vector<double>(layers + 1, 0));
  for (std::size_t first = 0; first < layers; ++first) {
    std::vector<double> sums(losses.front().size(), 0), squares(sums);
    for (std::size_t end = first + 1; end <= layers; ++end) {
      for (std::size_t m = 0; m < sums.size(); ++m) {
        const double value = rough_log2(losses[end - 1][m]);
        sums[m] += value;
        squares[m] += value * value;
        cost[first][end] += squares[m] - sums[m] * sums[m] / static_cast<double>(end - first);
      }
    }
  }
  // best[n][end]: least cost of layers 0 .. end - 1 in n + 1 ranges.
  // start[n][end]: first layer of the last of these ranges.
  std::vector<std::vector<double>> best(max_ranges, std::vector<double>(layers + 1, infinity));
  std::vector<std::vector<std::size_t>> start(max_ranges, std::vector<std::size_t>(layers + 1, 0));
  for (std::size_t end = 1; end <= layers; ++end) best[0][end] = cost[0][end];
  for (std::size_t n = 1; n < max_ranges; ++n) {
    for (std::size_t end = n + 1; end <= layers; ++end) {
      for (std::size_t first = n; first < end; ++first) {
        const double sum = best[n - 1][first] + cost[first][end];
        if (!(sum < best[n][end])) continue;
        best[n][end] = sum;
        start[n][end] = first;
      }
    }
  }
  std::vector<std::int64_t> counts;
  for (std::size_t n = max_ranges, end = layers; n-- > 0; end = start[n][end])
    counts.insert(counts.begin(), static_cast<std::int64_t>(end - start[n][end]));
  return counts;
}

}  // namespace llmc::calibrate
