#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/support/worker_pool.h"
#include "llmc/quant/weights.h"

/// Encodes the rows of a matrix W as Q so that the error of its products is small instead of the
/// error of its weights: approximately minimizes trace (W - Q) H (W - Q)^T, where H = X^T X are the
/// second moments of the inputs X. Columns are rounded one after the other, and the error of each
/// is fed back to the columns after it (GPTQ, arXiv 2210.17323; LDLQ, arXiv 2307.13304). Uses only
/// correctly rounded operations in a fixed order, so the bits are the same on every host and for
/// any number of threads.
namespace llmc::quant {

/// Second moments X^T X of a matrix's inputs X. If the exact inputs X' are known, which the matrix
/// would have if no other matrix were rounded, also the changes (X' - X)^T X.
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
  /// Adds the sums of `other` times `factor`. Adds neither its changes nor its number of rows.
  void add_scaled(const Moments& other, double factor);
  /// Returns the moment of two columns.
  float at(std::size_t i, std::size_t j) const {
    return i <= j ? sums_[i * columns_ + j] : sums_[j * columns_ + i];
  }
  bool has_changes() const { return !changes_.empty(); }
  /// Returns the sum of the products of one column's changes and another column's inputs.
  float change(std::size_t changed, std::size_t input) const {
    return changes_[changed * columns_ + input];
  }
  /// Returns whether all sums and changes are finite.
  bool finite() const;
  /// Free the sums or the changes, which must not be read afterwards.
  void release_sums() { std::vector<float>().swap(sums_); }
  void release_changes() { std::vector<float>().swap(changes_); }
  /// Returns the memory of sums and changes, in bytes.
  std::size_t memory() const { return (sums_.capacity() + changes_.capacity()) * sizeof(float); }

 private:
  std::size_t columns_, rows_ = 0;
  std::vector<float> sums_;     // [columns, columns]; undefined below the diagonal
  std::vector<float> changes_;  // [columns, columns]; empty without exact inputs
};

/// Moments H, divided by the mean of their diagonal and factored as U D U^T, where U is upper
/// triangular with ones on its diagonal and D is diagonal. Columns are in the order in which they
/// are rounded: blocks of 32 by the descending mean of their diagonal elements, and the columns of
/// each block by their descending diagonal elements.
class Feedback {
 public:
  /// Factors the moments after adding `damping` times the mean of the diagonal to the diagonal, or
  /// more if they would still be singular. The moments must be finite (LLMC_CHECK). If they have
  /// changes, rows are encoded so that X Q^T approximates a value between X W^T and X' W^T. For the
  /// latter, the loss is ||X' W^T - X Q^T|| (GPTAQ, arXiv 2504.02692).
  Feedback(Moments moments, double damping, WorkerPool& pool);

  /// Returns whether rows can be encoded in the format: q4, q8, or other symmetric codes with one
  /// scale per 32 weights.
  static bool can_encode(WeightKind kind);

  std::size_t columns() const { return order_.size(); }
  /// Encodes rows of `columns()` weights to weight_bytes(kind, rows, columns()) bytes. Requires
  /// can_encode(kind) (LLMC_CHECK). The weights must meet the requirements of pack_panels().
  void encode(WeightKind kind, std::span<const float> weights, std::span<std::byte> panels) const;
  /// Return U[i][j] and D[j] for columns in the order of rounding, and this order.
  float unit(std::size_t i, std::size_t j) const;
  float weight(std::size_t j) const { return weights_[j]; }
  const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  void find_shift(Moments& moments, double mean, const std::vector<double>& lower,
                  WorkerPool& pool);
  template <class Codec>
  void encode_rows(Codec codec, std::span<const float> weights) const;

  std::vector<std::uint32_t> order_;  // column that each step rounds
  std::vector<std::size_t> starts_;   // first step of each block, then the number of steps
  std::vector<std::size_t> panels_;   // offset of each block in unit_
  std::vector<float> unit_;           // per block: rows 0 … end of block, [row][32]
  /// Factors by which the weights of a row are added to a column before it is rounded, to correct
  /// changes of inputs. Per block: [step][32]. Empty without changes.
  std::vector<float> shift_;
  std::vector<float> weights_;     // D
  std::vector<float> importance_;  // D by column of the matrix, for the search of a row's scale
};

}  // namespace llmc::quant
