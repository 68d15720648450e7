#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/support/worker_pool.h"
#include "llmc/quant/weights.h"

/// Encodes the rows of a matrix for the inputs that it has: minimizes the error of the products,
/// trace (W - Q) H (W - Q)^T with the second moments H = X^T X of inputs X, not that of the
/// weights. Columns are rounded one after the other, and the error of each is passed on to the
/// columns after it (GPTQ, arXiv 2210.17323; LDLQ, arXiv 2307.13304). Only correctly rounded
/// operations in a fixed order: the same bits on every host and for any number of threads.
namespace llmc::quant {

/// Sums of the products of a matrix' inputs X, and of X' - X and X if inputs X' are known that they
/// would be without the rounding of other matrices.
class Moments {
 public:
  explicit Moments(std::size_t columns) : columns_(columns), sums_(columns * columns, 0.0f) {}

  std::size_t columns() const { return columns_; }
  /// Returns the number of rows of all inputs that were added.
  std::size_t rows() const { return rows_; }
  /// Adds x^T x for rows x [rows, columns].
  void add(std::span<const float> x, WorkerPool& pool);
  /// Adds x^T x and (exact - x)^T x.
  void add(std::span<const float> x, std::span<const float> exact, WorkerPool& pool);
  /// Adds the sums of `other`, times `factor`, without its changes and its number of rows.
  void add_scaled(const Moments& other, double factor);
  /// Returns the sum for two columns.
  float at(std::size_t i, std::size_t j) const {
    return i <= j ? sums_[i * columns_ + j] : sums_[j * columns_ + i];
  }
  bool has_changes() const { return !changes_.empty(); }
  /// Returns the sum of changes of one column and inputs of another.
  float change(std::size_t changed, std::size_t input) const {
    return changes_[changed * columns_ + input];
  }
  /// Returns whether all sums are finite.
  bool finite() const;
  /// Frees the sums, or the changes. They must not be read any more.
  void release_sums() { std::vector<float>().swap(sums_); }
  void release_changes() { std::vector<float>().swap(changes_); }
  /// Returns the memory of sums and changes, in bytes.
  std::size_t memory() const { return (sums_.capacity() + changes_.capacity()) * sizeof(float); }

 private:
  std::size_t columns_, rows_ = 0;
  std::vector<float> sums_;     // [columns, columns]; below the diagonal meaningless
  std::vector<float> changes_;  // the same, complete; empty without exact inputs
};

/// Moments as H = U D U^T with U upper triangular and ones on its diagonal. Columns are in the
/// order in which they are rounded: blocks of 32 by descending moments, and so the columns of each
/// block.
class Feedback {
 public:
  /// Factors the moments with `damping` times the mean of the diagonal added to the diagonal, or
  /// more if they are singular otherwise. The moments must be finite (LLMC_CHECK). If they have
  /// changes, rows are rounded for products between those of X and of X': the loss of the latter is
  /// ||X' W^T - X Q^T|| (GPTAQ, arXiv 2504.02692).
  Feedback(Moments moments, double damping, WorkerPool& pool);

  /// Returns whether rows can be encoded in the format: q4, and symmetric codes with a scale for
  /// every 32.
  static bool can_encode(WeightKind kind);

  std::size_t columns() const { return order_.size(); }
  /// Encodes rows of `columns()` weights, which must be as pack_panels() requires, to
  /// weight_bytes(kind, rows, columns()) bytes.
  void encode(WeightKind kind, std::span<const float> weights, std::span<std::byte> panels) const;
  /// Returns U[i][j] and D[j] for columns in the order of rounding, and this order.
  float unit(std::size_t i, std::size_t j) const;
  float weight(std::size_t j) const { return weights_[j]; }
  const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  void find_shift(Moments& moments, double mean, const std::vector<double>& lower,
                  WorkerPool& pool);
  template <class Codec>
  void encode_rows(Codec codec, std::span<const float> weights) const;

  std::vector<std::uint32_t> order_;  // column that is rounded at each step
  std::vector<std::size_t> starts_;   // first step of each block, then the number of steps
  std::vector<std::size_t> panels_;   // offset of each block in unit_
  std::vector<float> unit_;           // per block: rows 0 … end of block, [row][32]
  /// What changes of inputs add to a column before it is rounded, as factors of all weights of a
  /// row; per block [step][32]; empty without changes.
  std::vector<float> shift_;
  std::vector<float> weights_;     // D
  std::vector<float> importance_;  // D by column, for the search of a row's scale
};

}  // namespace llmc::quant
