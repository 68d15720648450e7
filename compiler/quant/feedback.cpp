#include "compiler/quant/feedback.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/quant/block_fit.h"
#include "compiler/quant/feedback_block.h"
#include "compiler/quant/products.h"
#include "compiler/quant/q4.h"
#include "compiler/quant/symmetric.h"
#include "compiler/support/check.h"
#include "llmc/half.h"

namespace llmc::quant {
namespace {

/// Returns the fraction of the shift toward the exact inputs that is applied. With few inputs, the
/// whole shift overfits. docs/decisions/0017-calibration.md has the measurements.
double applied_shift(const Moments& moments) {
  constexpr double kLeast = 0.5, kAll = 32;  // kAll: rows per column from which all is applied
  const double rows = static_cast<double>(moments.rows()) / static_cast<double>(moments.columns());
  return std::clamp(rows / kAll, kLeast, 1.0);
}
/// Number of columns that are factored, or rows that are updated, at a time.
constexpr std::size_t kPart = 128;
/// Returns the number of rows of moments that are summed at a time. Each part packs all inputs, so
/// parts are large if there are still several for each thread.
std::size_t rows_at_once(std::size_t columns, const WorkerPool& pool) {
  constexpr std::size_t kLarge = 256, kPartsPerThread = 4;
  return columns >= kLarge * kPartsPerThread * pool.threads() ? kLarge : kPart;
}

/// Factors the lower triangle of the symmetric matrix `g` in place: g = L L^T. Returns false if it
/// is not positive definite.
bool factor_lower(std::vector<double>& g, std::size_t n, WorkerPool& pool) {
  const MatrixView<double> all{g.data(), n, n, n};
  std::vector<double> turned, negated;
  for (std::size_t k = 0; k < n; k += kPart) {
    const std::size_t width = std::min(kPart, n - k), below = n - k - width;
    const MatrixView<double> own = all.part(k, width, k, width);
    for (std::size_t j = 0; j < width; ++j) {
      double* const row = own.row(j);
      double pivot = row[j];
      for (std::size_t i = 0; i < j; ++i) pivot -= row[i] * row[i];
      if (!(pivot > 0) || !(pivot < std::numeric_limits<double>::infinity())) return false;
      row[j] = std::sqrt(pivot);
      for (std::size_t r = j + 1; r < width; ++r) {
        double* const lower = own.row(r);
        double sum = lower[j];
        for (std::size_t i = 0; i < j; ++i) sum -= lower[i] * row[i];
        lower[j] = sum / row[j];
      }
    }
    if (below == 0) break;
    turned.resize(width * below);
    negated.resize(width * below);
    const std::size_t parts = (below + kPart - 1) / kPart;
    LLMC_CHECK(pool.run(parts,
                        [&](std::size_t part) -> Status {
                          const std::size_t end = std::min((part + 1) * kPart, below);
                          for (std::size_t r = part * kPart; r < end; ++r) {
                            double* const row = all.row(k + width + r) + k;
                            for (std::size_t j = 0; j < width; ++j) {
                              const double* const upper = own.row(j);
                              double sum = row[j];
                              for (std::size_t i = 0; i < j; ++i) sum -= row[i] * upper[i];
                              row[j] = sum / upper[j];
                              turned[j * below + r] = row[j];
                              negated[j * below + r] = -row[j];
                            }
                          }
                          return ok_status();
                        })
                   .ok());
    const MatrixView<const double> a{negated.data(), width, below, below};
    const MatrixView<const double> b{turned.data(), width, below, below};
    LLMC_CHECK(pool.run(parts,
                        [&](std::size_t part) -> Status {
                          const std::size_t first = part * kPart;
                          const std::size_t end = std::min(first + kPart, below);
                          add_products(a.part(0, width, first, end - first),
                                       b.part(0, width, 0, end),
                                       all.part(k + width + first, end - first, k + width, end));
                          return ok_status();
                        })
                   .ok());
  }
  return true;
}

}  // namespace

void Moments::add(std::span<const float> x, WorkerPool& pool) {
  LLMC_CHECK(columns_ > 0 && x.size() % columns_ == 0);
  const std::size_t rows = x.size() / columns_;
  rows_ += rows;
  const MatrixView<const float> inputs{x.data(), rows, columns_, columns_};
  const MatrixView<float> sums{sums_.data(), columns_, columns_, columns_};
  const std::size_t part_rows = rows_at_once(columns_, pool);
  const std::size_t parts = (columns_ + part_rows - 1) / part_rows;
  LLMC_CHECK(pool.run(parts,
                      [&](std::size_t part) -> Status {
                        const std::size_t first = part * part_rows, rest = columns_ - first;
                        const std::size_t count = std::min(part_rows, rest);
                        add_products(inputs.part(0, rows, first, count),
                                     inputs.part(0, rows, first, rest),
                                     sums.part(first, count, first, rest));
                        return ok_status();
                      })
                 .ok());
}

void Moments::add(std::span<const float> x, std::span<const float> exact, WorkerPool& pool) {
  LLMC_CHECK(x.size() == exact.size());
  add(x, pool);
  changes_.resize(columns_ * columns_);
  const std::size_t rows = x.size() / columns_;
  std::vector<float> differences(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) differences[i] = exact[i] - x[i];
  const MatrixView<const float> changes{differences.data(), rows, columns_, columns_};
  const MatrixView<const float> inputs{x.data(), rows, columns_, columns_};
  const MatrixView<float> sums{changes_.data(), columns_, columns_, columns_};
  const std::size_t part_rows = rows_at_once(columns_, pool);
  const std::size_t parts = (columns_ + part_rows - 1) / part_rows;
  LLMC_CHECK(pool.run(parts,
                      [&](std::size_t part) -> Status {
                        const std::size_t first = part * part_rows;
                        const std::size_t count = std::min(part_rows, columns_ - first);
                        add_products(changes.part(0, rows, first, count), inputs,
                                     sums.part(first, count, 0, columns_));
                        return ok_status();
                      })
                 .ok());
}

void Moments::add_scaled(const Moments& other, double factor) {
  LLMC_CHECK(columns_ == other.columns_);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    sums_[i] += static_cast<float>(factor * static_cast<double>(other.sums_[i]));
}

bool Moments::finite() const {
  for (std::size_t i = 0; i < columns_; ++i)
    for (std::size_t j = i; j < columns_; ++j)
      if (!std::isfinite(sums_[i * columns_ + j])) return false;
  return std::ranges::all_of(changes_, [](float sum) { return std::isfinite(sum); });
}

Feedback::Feedback(Moments moments, double damping, WorkerPool& pool) {
  LLMC_CHECK(moments.finite());
  const std::size_t n = moments.columns();
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += static_cast<double>(moments.at(i, i));
  mean /= static_cast<double>(n);

  std::vector<std::size_t> blocks((n + kFitWidth - 1) / kFitWidth);
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  const auto end_of = [&](std::size_t block) { return std::min((block + 1) * kFitWidth, n); };
  std::vector<double> size(blocks.size(), 0);
  for (const std::size_t b : blocks) {
    for (std::size_t i = b * kFitWidth; i < end_of(b); ++i)
      size[b] += static_cast<double>(moments.at(i, i));
    size[b] /= static_cast<double>(end_of(b) - b * kFitWidth);
  }
  std::ranges::sort(blocks, [&](std::size_t a, std::size_t b) {
    return size[a] != size[b] ? size[a] > size[b] : a < b;
  });
  for (const std::size_t b : blocks) {
    starts_.push_back(order_.size());
    for (std::size_t i = b * kFitWidth; i < end_of(b); ++i)
      order_.push_back(static_cast<std::uint32_t>(i));
    std::sort(order_.begin() + static_cast<std::ptrdiff_t>(starts_.back()), order_.end(),
              [&](std::uint32_t i, std::uint32_t j) {
                const float a = moments.at(i, i), c = moments.at(j, j);
                return a != c ? a > c : i < j;
              });
  }
  starts_.push_back(n);

  // U is the Cholesky factor of the matrix with reversed rows and columns, reversed again and
  // normalized. The sums are scaled so that the mean of the diagonal is 1 and D fits a float.
  std::vector<double> g(n * n);
  for (double added = damping;; added = added > 0 ? added * 10 : 1e-3) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const double sum = static_cast<double>(moments.at(order_[n - 1 - i], order_[n - 1 - j]));
        g[i * n + j] = mean > 0 ? sum / mean : 0;
      }
      g[i * n + i] += mean > 0 ? added : 1;
    }
    if (factor_lower(g, n, pool)) break;
    LLMC_CHECK(added < 1e6);
  }
  moments.release_sums();
  weights_.resize(n);
  importance_.resize(n);
  for (std::size_t j = 0; j < n; ++j) {
    const double pivot = g[(n - 1 - j) * n + (n - 1 - j)];
    weights_[j] = static_cast<float>(pivot * pivot);
    importance_[order_[j]] = weights_[j];
  }
  std::size_t offset = 0;
  for (std::size_t b = 0; b + 1 < starts_.size(); ++b) {
    panels_.push_back(offset);
    offset += starts_[b + 1] * kFitWidth;
  }
  unit_.assign(offset, 0.0f);
  for (std::size_t b = 0; b + 1 < starts_.size(); ++b) {
    for (std::size_t i = 0; i < starts_[b + 1]; ++i) {
      for (std::size_t j = std::max(i, starts_[b]); j < starts_[b + 1]; ++j) {
        const std::size_t r = n - 1 - i, s = n - 1 - j;
        unit_[panels_[b] + i * kFitWidth + (j - starts_[b])] =
            static_cast<float>(g[r * n + s] / g[s * n + s]);
      }
    }
  }
  if (moments.has_changes() && mean > 0) find_shift(moments, mean, g, pool);
}

void Feedback::find_shift(Moments& moments, double mean, const std::vector<double>& lower,
                          WorkerPool& pool) {
  // With the changes C = (X' - X)^T X, the best weights without rounding are W + W C H^-1. A column
  // is rounded from the sum of its weight, the errors of the columns before it, and
  // (W C H^-1 U)[j] = (W C L^-T)[j] / L[j][j], with L as in the constructor.
  const std::size_t n = columns();
  std::vector<double> y(n * n);  // L^-1 C^T
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t i = 0; i < n; ++i)
      y[r * n + i] = static_cast<double>(moments.change(order_[i], order_[n - 1 - r])) / mean;
  moments.release_changes();
  const MatrixView<double> all{y.data(), n, n, n};
  const MatrixView<const double> solved{y.data(), n, n, n};
  std::vector<double> negated;
  const std::size_t parts = (n + kPart - 1) / kPart;
  for (std::size_t k = 0; k < n; k += kPart) {
    const std::size_t width = std::min(kPart, n - k);
    negated.resize(k * width);
    for (std::size_t r = 0; r < width; ++r)
      for (std::size_t i = 0; i < k; ++i) negated[i * width + r] = -lower[(k + r) * n + i];
    LLMC_CHECK(pool.run(parts,
                        [&](std::size_t part) -> Status {
                          const std::size_t first = part * kPart;
                          const std::size_t count = std::min(kPart, n - first);
                          add_products({negated.data(), k, width, width},
                                       solved.part(0, k, first, count),
                                       all.part(k, width, first, count));
                          for (std::size_t r = k; r < k + width; ++r) {
                            double* const row = all.row(r);
                            for (std::size_t s = k; s < r; ++s) {
                              const double factor = lower[r * n + s];
                              const double* const before = all.row(s);
                              for (std::size_t i = first; i < first + count; ++i)
                                row[i] -= factor * before[i];
                            }
                            const double pivot = lower[r * n + r];
                            for (std::size_t i = first; i < first + count; ++i) row[i] /= pivot;
                          }
                          return ok_status();
                        })
                   .ok());
  }
  const double part = applied_shift(moments);
  shift_.assign((starts_.size() - 1) * n * kFitWidth, 0.0f);
  for (std::size_t b = 0; b + 1 < starts_.size(); ++b)
    for (std::size_t j = starts_[b]; j < starts_[b + 1]; ++j)
      for (std::size_t i = 0; i < n; ++i)
        shift_[(b * n + i) * kFitWidth + (j - starts_[b])] = static_cast<float>(
            part * y[(n - 1 - j) * n + i] / lower[(n - 1 - j) * n + (n - 1 - j)]);
}

float Feedback::unit(std::size_t i, std::size_t j) const {
  if (i > j) return 0;
  const auto after = std::ranges::upper_bound(starts_, j);
  const auto b = static_cast<std::size_t>(after - starts_.begin()) - 1;
  return unit_[panels_[b] + i * kFitWidth + (j - starts_[b])];
}

namespace {

/// Returns the panel that contains a row.
std::uint8_t* panel_of(std::span<std::byte> panels, std::size_t panel_bytes, std::size_t row) {
  return reinterpret_cast<std::uint8_t*>(panels.data()) + row / kPanelRows * panel_bytes;
}

/// Writes rows in q4. Their S and M come from the search without feedback, weighted by D.
class Q4Codec {
 public:
  Q4Codec(std::span<const float> importance, std::span<std::byte> panels)
      : importance_(importance), panels_(panels) {}

  /// Begins the group of up to 16 rows from `row` on.
  void begin(std::size_t row) { first_ = row; }
  /// Prepares a row. Returns the power of two by which the row is divided for the search.
  float begin_row(BlockSearch& search, std::size_t lane, std::span<const float> row) {
    encode_q4_row(row, importance_, row_);
    q4_set_row(panel(lane), lane % kPanelRows, row_.scale, row_.min);
    float largest = 0;
    for (const float w : row) largest = std::max(largest, w < 0 ? -w : w);
    const float unit = power_of_two_below(largest);
    search.scale[lane] = bf16_to_f32(row_.scale) / unit;
    search.min[lane] = bf16_to_f32(row_.min) / unit;
    return unit;
  }
  void run(BlockSearch& search) const { search.run_q4(); }
  void set_block(const BlockSearch& search, std::size_t lane, std::size_t block) {
    const std::size_t k = importance_.size();
    q4_set_scale(panel(lane), k, lane % kPanelRows, block,
                 static_cast<std::uint8_t>(search.s[lane]));
    q4_set_min(panel(lane), k, lane % kPanelRows, block, static_cast<std::uint8_t>(search.m[lane]));
  }
  void set_code(const BlockSearch& search, std::size_t lane, std::size_t step, std::size_t k) {
    q4_set_code(panel(lane), lane % kPanelRows, k,
                static_cast<std::uint8_t>(search.code[step * kLanes + lane]));
  }

 private:
  std::uint8_t* panel(std::size_t lane) {
    return panel_of(panels_, q4_panel_bytes(importance_.size()), first_ + lane);
  }

  std::span<const float> importance_;
  std::span<std::byte> panels_;
  std::size_t first_ = 0;
  Q4Row row_;
};

/// Writes rows of symmetric codes.
class SymmetricCodec {
 public:
  SymmetricCodec(WeightKind kind, std::size_t columns, std::span<std::byte> panels)
      : format_(coded_format(kind)),
        columns_(columns),
        panels_(panels),
        lowest_(kind == WeightKind::kQ8 ? -127 : coded_lowest(format_)),
        highest_(kind == WeightKind::kQ8 ? 127 : -lowest_ - 1) {}

  void begin(std::size_t row) { first_ = row; }
  float begin_row(BlockSearch&, std::size_t, std::span<const float>) { return 1; }
  void run(BlockSearch& search) const {
    search.run_symmetric(static_cast<float>(lowest_), static_cast<float>(highest_));
  }
  void set_block(const BlockSearch& search, std::size_t lane, std::size_t block) {
    coded_set_group(format_, panel(lane), columns_, lane % kPanelRows, block, search.s[lane], 0);
  }
  void set_code(const BlockSearch& search, std::size_t lane, std::size_t step, std::size_t k) {
    const int code =
        search.s[lane] == 0 ? 0 : static_cast<int>(search.code[step * kLanes + lane]) + lowest_;
    coded_set_code(format_, panel(lane), columns_, lane % kPanelRows, k, code);
  }

 private:
  std::uint8_t* panel(std::size_t lane) {
    return panel_of(panels_, coded_panel_bytes(format_, columns_), first_ + lane);
  }

  CodedFormat format_;
  std::size_t columns_;
  std::span<std::byte> panels_;
  std::size_t first_ = 0;
  int lowest_, highest_;
};

}  // namespace

template <class Codec>
void Feedback::encode_rows(Codec codec, std::span<const float> weights) const {
  const std::size_t n = columns(), all = weights.size() / n;
  std::vector<float> given(n * kLanes, 0.0f), errors(n * kLanes);
  BlockSearch search;
  for (std::size_t first = 0; first < all; first += kLanes) {
    const std::size_t rows = std::min(kLanes, all - first);
    codec.begin(first);
    if (rows < kLanes) std::ranges::fill(given, 0.0f);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = weights.subspan((first + r) * n, n);
      const float unit = codec.begin_row(search, r, row);
      for (std::size_t i = 0; i < n; ++i) given[i * kLanes + r] = row[order_[i]] / unit;
    }
    for (std::size_t b = 0; b + 1 < starts_.size(); ++b) {
      const std::size_t begin = starts_[b], count = starts_[b + 1] - begin;
      const float* const panel = unit_.data() + panels_[b];
      search.given.fill(0);
      std::copy_n(given.data() + begin * kLanes, count * kLanes, search.given.data());
      search.wanted = search.given;
      if (!shift_.empty())
        add_lanes(shift_.data() + b * n * kFitWidth, kFitWidth, given.data(), search.wanted.data(),
                  n);
      add_lanes(panel, kFitWidth, errors.data(), search.wanted.data(), begin);
      search.unit.fill(0);
      std::copy_n(panel + begin * kFitWidth, count * kFitWidth, search.unit.data());
      search.weight.fill(0);
      std::copy_n(weights_.data() + begin, count, search.weight.data());
      codec.run(search);
      std::copy_n(search.error.data(), count * kLanes, errors.data() + begin * kLanes);
      const std::size_t block = order_[begin] / kFitWidth;
      for (std::size_t r = 0; r < rows; ++r) {
        codec.set_block(search, r, block);
        for (std::size_t i = 0; i < count; ++i) codec.set_code(search, r, i, order_[begin + i]);
      }
    }
  }
}

bool Feedback::can_encode(WeightKind kind) {
  if (kind == WeightKind::kQ4 || kind == WeightKind::kQ8) return true;
  return is_coded(kind) && is_symmetric(coded_format(kind)) &&
         coded_format(kind).block == kFitWidth;
}

void Feedback::encode(WeightKind kind, std::span<const float> weights,
                      std::span<std::byte> panels) const {
  const std::size_t n = columns();
  LLMC_CHECK(can_encode(kind) && weights.size() % n == 0);
  LLMC_CHECK(panels.size() == weight_bytes(kind, weights.size() / n, n));
  std::ranges::fill(panels, std::byte{0});
  if (kind == WeightKind::kQ4)
    encode_rows(Q4Codec(importance_, panels), weights);
  else
    encode_rows(SymmetricCodec(kind, n, panels), weights);
}

}  // namespace llmc::quant
