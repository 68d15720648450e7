#include "compiler/quant/feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "compiler/quant/block_fit.h"
#include "compiler/quant/products.h"
#include "compiler/quant/q4_matrix.h"
#include "llmc/half.h"
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

std::vector<Q4Row> rounded_alone(const std::vector<float>& weights, std::size_t columns) {
  std::vector<Q4Row> rows(weights.size() / columns);
  for (std::size_t r = 0; r < rows.size(); ++r)
    encode_q4_row(std::span(weights).subspan(r * columns, columns), {}, rows[r]);
  return rows;
}

/// Returns the sum of squares of X (w - q).
double product_error(const std::vector<float>& x, const std::vector<float>& weights,
                     const std::vector<Q4Row>& rows, std::size_t columns) {
  std::vector<float> decoded(columns);
  double sum = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    decode_q4_row(rows[r], decoded);
    for (std::size_t t = 0; t < x.size(); t += columns) {
      double y = 0;
      for (std::size_t k = 0; k < columns; ++k)
        y += static_cast<double>(x[t + k]) *
             static_cast<double>(weights[r * columns + k] - decoded[k]);
      sum += y * y;
    }
  }
  return sum;
}

TEST(Products, AreSumsInOrderWhateverTheSizes) {
  for (const auto& [depth, rows, columns] :
       {std::tuple{1, 1, 1}, {3, 5, 7}, {300, 70, 140}, {257, 64, 128}}) {
    const auto k = static_cast<std::size_t>(depth), m = static_cast<std::size_t>(rows);
    const auto n = static_cast<std::size_t>(columns);
    const std::vector<float> a = gaussian(k * m, 1), b = gaussian(k * n, 2);
    std::vector<float> c = gaussian(m * n, 3), expected = c;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t p = 0; p < k; ++p) {
          const float product = a[p * m + i] * b[p * n + j];
          expected[i * n + j] += product;
        }
    add_products({a.data(), k, m, m}, {b.data(), k, n, n}, {c.data(), m, n, n});
    EXPECT_EQ(c, expected) << depth << " " << rows << " " << columns;
  }
}

TEST(Products, OfDoublesAreSumsInOrder) {
  const std::size_t k = 130, m = 9, n = 20;
  std::vector<double> a(k * m), b(k * n), c(m * n, 0.5), expected = c;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 1.0 / static_cast<double>(i + 1);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::sqrt(static_cast<double>(i));
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t p = 0; p < k; ++p) {
        const double product = a[p * m + i] * b[p * n + j];
        expected[i * n + j] += product;
      }
  add_products({a.data(), k, m, m}, {b.data(), k, n, n}, {c.data(), m, n, n});
  EXPECT_EQ(c, expected);
}

TEST(Products, TransposeMovesEveryElement) {
  std::vector<float> from(17 * 35), to(from.size());
  std::iota(from.begin(), from.end(), 0.0f);
  transpose({from.data(), 17, 35, 35}, {to.data(), 35, 17, 17});
  for (std::size_t i = 0; i < 17; ++i)
    for (std::size_t j = 0; j < 35; ++j) ASSERT_EQ(to[j * 17 + i], from[i * 35 + j]);
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
  for (const std::size_t n : {std::size_t{32}, std::size_t{100}}) {
    const Moments moments = moments_of(correlated(3 * n, n, 5), n);
    WorkerPool pool(1);
    const Feedback feedback(moments, 0.01, pool);
    const std::size_t rows = 19;
    const std::vector<float> weights = gaussian(rows * n, 6);
    std::vector<Q4Row> encoded(rows);
    feedback.encode(weights, encoded);
    for (std::size_t r = 0; r < rows; ++r) {
      std::vector<float> decoded(n);
      decode_q4_row(encoded[r], decoded);
      std::vector<double> errors(n);  // in the order of rounding
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t column = feedback.order()[j], block = column / kFitWidth;
        double wanted = static_cast<double>(weights[r * n + column]);
        for (std::size_t i = 0; i < j; ++i)
          wanted += errors[i] * static_cast<double>(feedback.unit(i, j));
        errors[j] = static_cast<double>(weights[r * n + column] - decoded[column]);
        const double step = static_cast<double>(bf16_to_f32(encoded[r].scale)) *
                            static_cast<double>(encoded[r].scales[block]);
        const double low = static_cast<double>(bf16_to_f32(encoded[r].min)) *
                           static_cast<double>(encoded[r].minimums[block]);
        const double nearest = std::clamp((wanted - low) / step, 0.0, 15.0);
        EXPECT_NEAR(encoded[r].codes[column], nearest, 0.5 + 1e-3) << r << " " << j;
      }
    }
  }
}

TEST(Feedback, ErrorsOfProductsAreMuchLessThanWithoutIt) {
  const std::size_t n = 288, rows = 48;
  const std::vector<float> x = correlated(600, n, 7), weights = gaussian(rows * n, 8);
  WorkerPool pool(1);
  std::vector<Q4Row> encoded(rows);
  Feedback(moments_of(x, n), 0.01, pool).encode(weights, encoded);
  const double alone = product_error(x, weights, rounded_alone(weights, n), n);
  EXPECT_LT(product_error(x, weights, encoded, n), 0.5 * alone);
}

/// Inputs that differ from those of the model, as after the rounding of other matrices: the
/// products are nearer to the model's if that is known.
TEST(Feedback, CorrectsChangesOfTheInputs) {
  const std::size_t n = 96, rows = 32;
  const std::vector<float> exact = correlated(800, n, 15), weights = gaussian(rows * n, 16);
  std::vector<float> x = exact;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % n % 2 == 0 ? 0.9f : 1.05f;
  WorkerPool pool(2);
  Moments alone(n), with_changes(n);
  alone.add(x, pool);
  with_changes.add(x, exact, pool);
  const auto error = [&](const Moments& moments) {
    std::vector<Q4Row> encoded(rows);
    Feedback(moments, 0.01, pool).encode(weights, encoded);
    std::vector<float> decoded(n);
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      decode_q4_row(encoded[r], decoded);
      for (std::size_t t = 0; t < x.size(); t += n) {
        double y = 0;
        for (std::size_t k = 0; k < n; ++k)
          y += static_cast<double>(exact[t + k]) * static_cast<double>(weights[r * n + k]) -
               static_cast<double>(x[t + k]) * static_cast<double>(decoded[k]);
        sum += y * y;
      }
    }
    return sum;
  };
  EXPECT_LT(error(with_changes), 0.6 * error(alone));
}

TEST(Feedback, IsTheSameForAnyNumberOfThreads) {
  const std::size_t n = 160, rows = 33;
  const std::vector<float> x = correlated(300, n, 9), weights = gaussian(rows * n, 10);
  std::vector<std::vector<std::byte>> results;
  for (const std::size_t threads : {1, 2, 3}) {
    WorkerPool pool(threads);
    const Feedback feedback(moments_of(x, n, threads), 0.01, pool);
    std::vector<Q4Row> encoded(rows);
    feedback.encode(weights, encoded);
    Q4Matrix matrix(rows, n);
    for (std::size_t r = 0; r < rows; ++r) matrix.set(r, encoded[r]);
    results.emplace_back(matrix.bytes().begin(), matrix.bytes().end());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Feedback, AcceptsSingularAndEmptyMoments) {
  const std::size_t n = 70, rows = 3;
  const std::vector<float> weights = gaussian(rows * n, 11);
  const std::vector<float> one = gaussian(n, 12);  // a single row of inputs
  for (const std::vector<float>& x : {one, std::vector<float>(n, 0.0f)}) {
    for (const double damping : {0.01, 0.0}) {
      WorkerPool pool(1);
      std::vector<Q4Row> encoded(rows);
      Feedback(moments_of(x, n), damping, pool).encode(weights, encoded);
      EXPECT_LE(product_error(x, weights, encoded, n),
                product_error(x, weights, rounded_alone(weights, n), n) * 1.001);
    }
  }
}

TEST(Feedback, RowsOfZerosStayZeros) {
  const std::size_t n = 40;
  WorkerPool pool(1);
  const Feedback feedback(moments_of(correlated(100, n, 13), n), 0.01, pool);
  std::vector<Q4Row> encoded(1);
  feedback.encode(std::vector<float>(n, 0.0f), encoded);
  std::vector<float> decoded(n, 1.0f);
  decode_q4_row(encoded[0], decoded);
  EXPECT_THAT(decoded, testing::Each(0.0f));
}

TEST(Moments, AreNotFiniteWithOneValueThatIsNot) {
  std::vector<float> x(3 * 8, 1.0f);
  EXPECT_TRUE(moments_of(x, 8).finite());
  x[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(moments_of(x, 8).finite());
}

TEST(Q4Matrix, ReturnsTheRowsThatItStores) {
  const std::size_t n = 77;
  const std::vector<Q4Row> rows = rounded_alone(gaussian(3 * n, 14), n);
  Q4Matrix matrix(3, n);
  for (const std::size_t r : {2u, 0u, 1u}) matrix.set(r, rows[r]);
  const Q4Matrix view(3, n, nullptr, matrix.bytes());
  for (std::size_t r = 0; r < 3; ++r) {
    Q4Row row;
    view.get(r, row);
    EXPECT_EQ(row.scale, rows[r].scale);
    EXPECT_EQ(row.min, rows[r].min);
    EXPECT_EQ(row.codes, rows[r].codes);
    EXPECT_EQ(row.scales, rows[r].scales);
    EXPECT_EQ(row.minimums, rows[r].minimums);
  }
}

}  // namespace
}  // namespace llmc::quant
