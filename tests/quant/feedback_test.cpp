#include "compiler/quant/feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "compiler/quant/block_fit.h"
#include "compiler/quant/encoded_matrix.h"
#include "compiler/quant/pack.h"
#include "compiler/quant/product_kernels.h"
#include "compiler/quant/products.h"
#include "tests/quant/rows.h"

namespace llmc::quant {
namespace {

/// Rows of inputs whose columns depend on each other, some of them much larger than others.
std::vector<float> correlated(std::size_t rows, std::size_t columns, std::uint32_t seed) {
  std::vector<float> x = gaussian(rows * columns, seed);
  for (std::size_t r = 0; r < rows; ++r) {
    float* const row = x.data() + r * columns;
    for (std::size_t k = 1; k < columns; ++k) row[k] = 0.3f * row[k] + 0.9f * row[k - 1];
    for (std::size_t k = 0; k < columns; k += 7) row[k] *= 5;
  }
  return x;
}

Moments moments_of(const std::vector<float>& x, std::size_t columns, std::size_t threads = 1) {
  WorkerPool pool(threads);
  Moments moments(columns);
  moments.add(x, pool);
  return moments;
}

constexpr WeightKind kEncodedKinds[] = {WeightKind::kQ4, coded_weight(kSixBits), WeightKind::kQ8};
std::string name_of(WeightKind kind) {
  return kind == WeightKind::kQ4 ? "q4" : kind == WeightKind::kQ8 ? "q8" : "q6";
}

std::vector<std::byte> rounded_alone(WeightKind kind, const std::vector<float>& weights,
                                     std::size_t columns) {
  std::vector<std::byte> panels(weight_bytes(kind, weights.size() / columns, columns));
  EXPECT_TRUE(pack_panels(kind, weights, columns, 0, panels).ok());
  return panels;
}
std::vector<std::byte> rounded(const Feedback& feedback, WeightKind kind,
                               const std::vector<float>& weights) {
  const std::size_t columns = feedback.columns();
  std::vector<std::byte> panels(weight_bytes(kind, weights.size() / columns, columns));
  feedback.encode(kind, weights, panels);
  return panels;
}
std::vector<float> decoded(WeightKind kind, const std::vector<std::byte>& panels, std::size_t rows,
                           std::size_t columns) {
  std::vector<float> values(rows * columns);
  unpack_panels(kind, panels, columns, values);
  return values;
}

/// Returns the sum of squares of X' W^T - X Q^T for rows X' and X of inputs.
double product_error(const std::vector<float>& exact, const std::vector<float>& x,
                     const std::vector<float>& weights, const std::vector<float>& rounded,
                     std::size_t columns) {
  double sum = 0;
  for (std::size_t r = 0; r < weights.size(); r += columns) {
    for (std::size_t t = 0; t < x.size(); t += columns) {
      double y = 0;
      for (std::size_t k = 0; k < columns; ++k)
        y += static_cast<double>(exact[t + k]) * static_cast<double>(weights[r + k]) -
             static_cast<double>(x[t + k]) * static_cast<double>(rounded[r + k]);
      sum += y * y;
    }
  }
  return sum;
}

/// The values that a weight can have: step * code + low.
struct Grid {
  double step = 0, low = 0;
  double lowest = 0, highest = 0;
};
Grid grid_of(WeightKind kind, const std::vector<std::byte>& panels, std::size_t columns,
             std::size_t row, std::size_t k) {
  const auto* panel = reinterpret_cast<const std::uint8_t*>(panels.data()) +
                      row / kPanelRows * weight_panel_bytes(kind, columns);
  const std::size_t lane = row % kPanelRows, block = k / kFitWidth;
  if (kind == WeightKind::kQ4)
    return {static_cast<double>(q4_row_scale(panel, lane)) * q4_scale(panel, columns, lane, block),
            static_cast<double>(q4_row_min(panel, lane)) * q4_min(panel, columns, lane, block), 0,
            15};
  const double step =
      static_cast<double>(coded_scale(coded_format(kind), panel, columns, lane, block));
  return kind == WeightKind::kQ8 ? Grid{step, 0, -127, 127} : Grid{step, 0, -32, 31};
}

/// Adds a^T · b to `c`, each sum in order: of floats with one rounding, of doubles with two.
template <class T>
void add_in_order(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.columns; ++j)
      for (std::size_t k = 0; k < a.rows; ++k) {
        const T x = a.row(k)[i], y = b.row(k)[j], sum = c.row(i)[j];
        if constexpr (std::is_same_v<T, float>) {
          c.row(i)[j] = std::fma(x, y, sum);
        } else {
          const T product = x * y;
          c.row(i)[j] = sum + product;
        }
      }
}

/// Returns thirds of Gaussian numbers, so that doubles are no floats.
template <class T>
std::vector<T> numbers(std::size_t count, std::uint32_t seed) {
  const std::vector<float> made = gaussian(count, seed);
  std::vector<T> values(made.begin(), made.end());
  for (T& value : values) value /= T{3};
  return values;
}

/// Each operand has more columns in memory than the product reads, and what follows a row of the
/// result stays as it is.
template <class T>
void expect_sums_in_order(std::size_t depth, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kMore = 3;
  const std::size_t a_stride = rows + kMore, b_stride = columns + kMore, c_stride = columns + kMore;
  const std::vector<T> a = numbers<T>(depth * a_stride, 1), b = numbers<T>(depth * b_stride, 2);
  std::vector<T> c = numbers<T>(rows * c_stride, 3), expected = c;
  const MatrixView<const T> left{a.data(), depth, rows, a_stride};
  const MatrixView<const T> right{b.data(), depth, columns, b_stride};
  add_in_order(left, right, MatrixView<T>{expected.data(), rows, columns, c_stride});
  add_products(left, right, MatrixView<T>{c.data(), rows, columns, c_stride});
  EXPECT_EQ(c, expected) << depth << " " << rows << " " << columns;
}

TEST(Products, AreSumsInOrderWhateverTheSizes) {
  for (const auto& [depth, rows, columns] : {std::tuple{1u, 1u, 1u},
                                             {3u, 5u, 7u},
                                             {300u, 70u, 140u},
                                             {0u, 5u, 7u},
                                             {300u, 100u, 530u},
                                             {260u, 13u, 2070u},
                                             {257u, 64u, 128u}})
    expect_sums_in_order<float>(depth, rows, columns);
  expect_sums_in_order<double>(130, 9, 20);
  expect_sums_in_order<double>(300, 100, 1030);
}

/// Checks a function like add_lanes().
template <class Lanes>
void expect_lanes_in_order(const Lanes& lanes, std::size_t depth, std::size_t width) {
  const std::vector<float> a = gaussian(depth * width, 1), b = gaussian(depth * kLanes, 2);
  std::vector<float> c = gaussian(width * kLanes, 3), expected = c;
  add_in_order(MatrixView<const float>{a.data(), depth, width, width},
               MatrixView<const float>{b.data(), depth, kLanes, kLanes},
               MatrixView<float>{expected.data(), width, kLanes, kLanes});
  lanes(a.data(), width, b.data(), c.data(), depth);
  EXPECT_EQ(c, expected) << depth;
}

TEST(Products, OfLanesAreSumsInOrder) {
  for (const std::size_t depth : {1, 128, 300}) expect_lanes_in_order(add_lanes, depth, 24);
}

TEST(Products, HaveTheSameBitsWithEveryInstructionSet) {
  const auto expect_sums = [](const auto& kernel, auto zero, std::size_t rows,
                              std::size_t columns) {
    using T = decltype(zero);
    constexpr std::size_t kDepth = 300;
    const std::vector<T> a = numbers<T>(kDepth * round_up(rows, kPanelHeight), 1),
                         b = numbers<T>(kDepth * kPanelWidth<T>, 2);
    std::vector<T> c = numbers<T>(rows * columns, 3), expected = c;
    for (std::size_t row = 0; row < rows; row += kPanelHeight) {
      const std::size_t count = std::min(kPanelHeight, rows - row);
      add_in_order(MatrixView<const T>{a.data() + row * kDepth, kDepth, count, kPanelHeight},
                   MatrixView<const T>{b.data(), kDepth, columns, kPanelWidth<T>},
                   MatrixView<T>{expected.data() + row * columns, count, columns, columns});
    }
    kernel(a.data(), b.data(), MatrixView<T>{c.data(), rows, columns, columns}, kDepth);
    EXPECT_EQ(c, expected) << rows << " " << columns;
  };
  for (const ProductKernels& kernels : product_kernels()) {
    SCOPED_TRACE(kernels.name);
    for (const std::size_t rows : {7, 12, 25}) {
      for (const std::size_t columns : {13, 16})
        expect_sums(kernels.floats, float{}, rows, columns);
      for (const std::size_t columns : {5, 8})
        expect_sums(kernels.doubles, double{}, rows, columns);
    }
    expect_lanes_in_order(kernels.lanes, 300, 8);
  }
}

TEST(Products, TransposeMovesEveryElement) {
  std::vector<float> from(17 * 35), to(from.size());
  std::iota(from.begin(), from.end(), 0.0f);
  transpose({from.data(), 17, 35, 35}, {to.data(), 35, 17, 17});
  for (std::size_t i = 0; i < 17; ++i)
    for (std::size_t j = 0; j < 35; ++j) ASSERT_EQ(to[j * 17 + i], from[i * 35 + j]);
}

TEST(Moments, GiveTheirMemoryBack) {
  WorkerPool pool(1);
  Moments moments(32);
  const std::vector<float> x = gaussian(4 * 32, 1), exact = gaussian(4 * 32, 2);
  moments.add(x, exact, pool);
  EXPECT_GE(moments.memory(), 2 * 32 * 32 * sizeof(float));
  moments.release_sums();
  EXPECT_EQ(moments.memory(), 32 * 32 * sizeof(float));
  moments.release_changes();
  EXPECT_EQ(moments.memory(), 0u);
}

TEST(Feedback, FactorsTheMomentsWithDamping) {
  const std::size_t n = 200;  // more than a part of the factorization
  const double damping = 0.05;
  const Moments moments = moments_of(correlated(400, n, 4), n);
  WorkerPool pool(2);
  const Feedback feedback(moments, damping, pool);
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += static_cast<double>(moments.at(i, i)) / n;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      double sum = 0;
      for (std::size_t p = j; p < n; ++p)
        sum += static_cast<double>(feedback.unit(i, p)) * static_cast<double>(feedback.weight(p)) *
               static_cast<double>(feedback.unit(j, p));
      const double own = static_cast<double>(moments.at(feedback.order()[i], feedback.order()[j]));
      EXPECT_NEAR(sum, own / mean + (i == j ? damping : 0), 1e-4) << i << " " << j;
    }
  }
}

TEST(Feedback, RoundsEachColumnWithTheErrorsOfThoseBefore) {
  for (const WeightKind kind : kEncodedKinds) {
    for (const std::size_t n : {std::size_t{32}, std::size_t{100}}) {
      const Moments moments = moments_of(correlated(3 * n, n, 5), n);
      WorkerPool pool(1);
      const Feedback feedback(moments, 0.01, pool);
      const std::size_t rows = 19;
      const std::vector<float> weights = gaussian(rows * n, 6);
      const std::vector<std::byte> panels = rounded(feedback, kind, weights);
      const std::vector<float> values = decoded(kind, panels, rows, n);
      for (std::size_t r = 0; r < rows; ++r) {
        std::vector<double> errors(n);  // in the order of rounding
        for (std::size_t j = 0; j < n; ++j) {
          const std::size_t k = r * n + feedback.order()[j];
          double wanted = static_cast<double>(weights[k]);
          for (std::size_t i = 0; i < j; ++i)
            wanted += errors[i] * static_cast<double>(feedback.unit(i, j));
          errors[j] = static_cast<double>(weights[k] - values[k]);
          const Grid grid = grid_of(kind, panels, n, r, feedback.order()[j]);
          const double nearest =
              std::clamp((wanted - grid.low) / grid.step, grid.lowest, grid.highest);
          EXPECT_NEAR((static_cast<double>(values[k]) - grid.low) / grid.step, nearest, 0.5 + 1e-3)
              << name_of(kind) << ' ' << r << ' ' << j;
        }
      }
    }
  }
}

TEST(Feedback, ErrorsOfProductsAreMuchLessThanWithoutIt) {
  const std::size_t n = 288, rows = 48;
  const std::vector<float> x = correlated(600, n, 7), weights = gaussian(rows * n, 8);
  WorkerPool pool(1);
  const Feedback feedback(moments_of(x, n), 0.01, pool);
  for (const WeightKind kind : kEncodedKinds) {
    const auto error = [&](const std::vector<std::byte>& panels) {
      return product_error(x, x, weights, decoded(kind, panels, rows, n), n);
    };
    EXPECT_LT(error(rounded(feedback, kind, weights)), 0.5 * error(rounded_alone(kind, weights, n)))
        << name_of(kind);
  }
}

/// Inputs that differ from those of the model, as after the rounding of other matrices: the
/// products are nearer to the model's if that is known.
TEST(Feedback, CorrectsChangesOfTheInputs) {
  const std::size_t n = 96, rows = 32;
  const std::vector<float> exact = correlated(800, n, 15), weights = gaussian(rows * n, 16);
  std::vector<float> x = exact;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % n % 2 == 0 ? 0.9f : 1.05f;
  WorkerPool pool(2);
  Moments alone(n), with_changes(n), with_more(n);
  alone.add(x, pool);
  with_changes.add(x, exact, pool);
  for (int i = 0; i < 20; ++i) with_more.add(x, exact, pool);
  for (const WeightKind kind : kEncodedKinds) {
    const auto error = [&](const Moments& moments) {
      const auto panels = rounded(Feedback(moments, 0.01, pool), kind, weights);
      return product_error(exact, x, weights, decoded(kind, panels, rows, n), n);
    };
    EXPECT_LT(error(with_changes), 0.6 * error(alone)) << name_of(kind);
    // A long text with the same moments allows all of the correction.
    EXPECT_LT(error(with_more), 0.5 * error(with_changes)) << name_of(kind);
  }
}

TEST(Feedback, IsTheSameForAnyNumberOfThreads) {
  const std::size_t n = 160, rows = 33;
  const std::vector<float> x = correlated(300, n, 9), weights = gaussian(rows * n, 10);
  for (const WeightKind kind : kEncodedKinds) {
    std::vector<std::vector<std::byte>> results;
    for (const std::size_t threads : {1, 2, 3}) {
      WorkerPool pool(threads);
      const Feedback feedback(moments_of(x, n, threads), 0.01, pool);
      results.push_back(rounded(feedback, kind, weights));
    }
    EXPECT_EQ(results[0], results[1]) << name_of(kind);
    EXPECT_EQ(results[0], results[2]) << name_of(kind);
  }
}

TEST(Feedback, HasTheSameBitsOnEveryHost) {
  const std::size_t n = 100, rows = 19;
  const std::vector<float> exact = correlated(300, n, 18), weights = gaussian(rows * n, 19);
  std::vector<float> x = exact;
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] *= 0.9f;
  WorkerPool pool(2);
  Moments moments(n);
  moments.add(x, exact, pool);
  const Feedback feedback(moments, 0.1, pool);
  const auto hash_of = [&](WeightKind kind) {
    unsigned hash = 2166136261u;
    for (const std::byte byte : rounded(feedback, kind, weights))
      hash = (hash ^ static_cast<unsigned>(byte)) * 16777619u;
    return hash;
  };
  EXPECT_EQ(hash_of(WeightKind::kQ4), 3548053717u);
  EXPECT_EQ(hash_of(coded_weight(kSixBits)), 1977242512u);
  EXPECT_EQ(hash_of(WeightKind::kQ8), 3950406422u);
}

TEST(Feedback, AcceptsSingularAndEmptyMoments) {
  const std::size_t n = 70, rows = 3;
  const std::vector<float> weights = gaussian(rows * n, 11);
  const std::vector<float> one = gaussian(n, 12);  // a single row of inputs
  WorkerPool pool(1);
  for (const std::vector<float>& x : {one, std::vector<float>(n, 0.0f)}) {
    for (const double damping : {0.01, 0.0}) {
      const Feedback feedback(moments_of(x, n), damping, pool);
      for (const WeightKind kind : kEncodedKinds) {
        const auto error = [&](const std::vector<std::byte>& panels) {
          return product_error(x, x, weights, decoded(kind, panels, rows, n), n);
        };
        EXPECT_LE(error(rounded(feedback, kind, weights)),
                  error(rounded_alone(kind, weights, n)) * 1.001)
            << name_of(kind);
      }
    }
  }
}

TEST(Feedback, RowsOfZerosStayZeros) {
  const std::size_t n = 40;
  WorkerPool pool(1);
  const Feedback feedback(moments_of(correlated(100, n, 13), n), 0.01, pool);
  for (const WeightKind kind : kEncodedKinds)
    EXPECT_EQ(rounded(feedback, kind, std::vector<float>(n)),
              rounded_alone(kind, std::vector<float>(n), n))
        << name_of(kind);
}

/// Scales at the ends of the range of f16.
TEST(Feedback, SymmetricCodesReachTheEndsOfTheRange) {
  const std::size_t n = 64;
  WorkerPool pool(1);
  const Feedback feedback(moments_of(gaussian(200 * n, 17), n), 0.01, pool);
  for (const WeightKind kind : {kEncodedKinds[1], kEncodedKinds[2]}) {
    for (const float size : {largest_weight(kind), 1e-6f, 3e-7f, 1e-8f, 1e-38f}) {
      std::vector<float> weights(n, size);
      for (std::size_t k = 0; k < n; k += 3) weights[k] = -size / 2;
      const std::vector<float> values = decoded(kind, rounded(feedback, kind, weights), 1, n);
      for (std::size_t k = 0; k < n; ++k)
        EXPECT_NEAR(values[k], weights[k], size * 0.1 + 0x1p-23) << name_of(kind) << ' ' << size;
    }
  }
}

TEST(Moments, OthersAreAddedInPart) {
  const std::size_t n = 40;
  Moments own = moments_of(correlated(30, n, 1), n);
  const Moments alone = own, other = moments_of(correlated(50, n, 2), n);
  own.add_scaled(other, 0.25);
  EXPECT_EQ(own.rows(), 30u);
  EXPECT_FALSE(own.has_changes());
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      EXPECT_EQ(own.at(i, j), alone.at(i, j) + 0.25f * other.at(i, j));
}

TEST(Moments, AreNotFiniteWithOneValueThatIsNot) {
  std::vector<float> x(3 * 8, 1.0f);
  EXPECT_TRUE(moments_of(x, 8).finite());
  x[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(moments_of(x, 8).finite());
}

TEST(EncodedMatrix, IsPackedInAnotherOrderOfRows) {
  const std::size_t n = 77, rows = 19;
  const std::vector<float> weights = gaussian(rows * n, 14);
  const std::vector<std::int64_t> order{18, -1, 0, 7, 8, 3, 3, 12, 1, -1};
  std::vector<float> reordered;
  for (const std::int64_t row : order)
    for (std::size_t k = 0; k < n; ++k)
      reordered.push_back(row < 0 ? 0.0f : weights[static_cast<std::size_t>(row) * n + k]);
  for (const WeightKind kind : kEncodedKinds) {
    EncodedMatrix matrix(kind, rows, n);
    for (const std::size_t first : {16u, 0u, 8u}) {
      const std::size_t count = std::min<std::size_t>(8, rows - first);
      ASSERT_TRUE(pack_panels(kind, std::span(weights).subspan(first * n, count * n), n, first,
                              matrix.panels(first, count))
                      .ok());
    }
    const EncodedMatrix view(kind, rows, n, nullptr, matrix.bytes());
    std::vector<std::byte> packed(weight_bytes(kind, order.size(), n));
    pack_encoded_panels(view, order, packed);
    EXPECT_EQ(packed, rounded_alone(kind, reordered, n)) << name_of(kind);
  }
}

}  // namespace
}  // namespace llmc::quant
