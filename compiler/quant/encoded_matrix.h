#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "llmc/quant/weights.h"

/// A matrix whose codes were chosen before it is packed: panels of 8 rows (templates/llmc/quant),
/// in the order of the model's rows.
namespace llmc::quant {

class EncodedMatrix {
 public:
  /// Allocates a matrix whose panels the caller writes.
  EncodedMatrix(WeightKind kind, std::size_t rows, std::size_t columns);
  /// Makes a view of `bytes`, the bytes() of such a matrix. `owner` keeps them alive.
  EncodedMatrix(WeightKind kind, std::size_t rows, std::size_t columns,
                std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

  WeightKind kind() const { return kind_; }
  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Return the panels of rows [first, first + count); `first` is a multiple of 8. A view must not
  /// be written (LLMC_CHECK). Different panels may be written at the same time.
  std::span<const std::byte> panels(std::size_t first, std::size_t count) const;
  std::span<std::byte> panels(std::size_t first, std::size_t count);

 private:
  WeightKind kind_;
  std::size_t rows_, columns_;
  std::shared_ptr<std::vector<std::byte>> own_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace llmc::quant
