#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/quant/q4.h"

/// The encoded rows of a matrix whose codes were chosen before it is packed.
namespace llmc::quant {

class Q4Matrix {
 public:
  /// Returns the size of a matrix' rows in bytes.
  static std::size_t bytes_of(std::size_t rows, std::size_t columns);
  /// Makes a matrix of zeros.
  Q4Matrix(std::size_t rows, std::size_t columns);
  /// Makes a view of `bytes`, bytes() of such a matrix, that `owner` keeps alive.
  Q4Matrix(std::size_t rows, std::size_t columns, std::shared_ptr<const void> owner,
           std::span<const std::byte> bytes);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Stores a row of a matrix that is no view. Different rows may be stored at the same time.
  void set(std::size_t index, const Q4Row& row);
  /// Reads a row; reuses its memory.
  void get(std::size_t index, Q4Row& row) const;

 private:
  std::size_t rows_, columns_;
  std::shared_ptr<std::vector<std::byte>> own_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace llmc::quant
