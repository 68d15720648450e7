#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/support/result.h"

namespace llmc::ir {

/// Immutable tensor data of the compiler: small ones owned, weights as windows into mapped files,
/// and lazy rearrangements (transpose, concatenation, row order) of those, so that a pass can merge
/// or turn a 100 MB matrix for nothing and the weights are read once, when they are packed.
///
/// Dims are plain numbers. Row-major, little endian, no padding.
class Constant {
 public:
  virtual ~Constant() = default;

  ElementType element() const { return element_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::int64_t element_count() const;
  std::size_t byte_count() const;

  /// Rank 2 (rank 1 counts as one row): rows [begin, begin + count) as float, row-major into `out`
  /// (count * cols floats). f16, bf16 and f64 are converted (f64 rounds to nearest even). Reading
  /// many rows at once lets a transposed source be walked block by block.
  virtual void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const = 0;
  /// Part of those rows: columns [column, column + columns), `columns` floats per row in `out`. The
  /// default reads whole rows; views override it so that a transposed source need not be.
  virtual void read_block(std::int64_t row, std::int64_t rows, std::int64_t column,
                          std::int64_t columns, std::span<float> out) const;
  /// All bytes, row-major. Materialises a view: for small constants and tests.
  virtual std::vector<std::byte> bytes() const = 0;
  /// Text of the data expression as the IR's text form prints it (ir/text.h).
  virtual std::string describe() const = 0;

 protected:
  Constant(ElementType element, std::vector<std::int64_t> dims)
      : element_(element), dims_(std::move(dims)) {}

 private:
  ElementType element_;
  std::vector<std::int64_t> dims_;
};

using ConstantPtr = std::shared_ptr<const Constant>;

/// Bytes of a tensor; nullopt when a dim is negative or the product does not fit 63 bits. Check
/// with it before making a constant from untrusted dims.
std::optional<std::size_t> checked_byte_count(ElementType element,
                                              std::span<const std::int64_t> dims);

/// Owned data; `bytes` must have exactly the size that element and dims say (LLMC_CHECK).
ConstantPtr make_constant(ElementType element, std::vector<std::int64_t> dims,
                          std::vector<std::byte> bytes);
ConstantPtr make_f32(std::vector<std::int64_t> dims, std::vector<float> values);
ConstantPtr make_i64(std::vector<std::int64_t> dims, std::vector<std::int64_t> values);

/// A window into memory that `owner` keeps alive (a mapped file). `name` is what to call it in
/// text.
ConstantPtr make_mapped(ElementType element, std::vector<std::int64_t> dims,
                        std::shared_ptr<const void> owner, std::span<const std::byte> window,
                        std::string name);
/// Every element the same.
ConstantPtr make_splat(ElementType element, std::vector<std::int64_t> dims, double value);
/// Reproducible pseudo-random values in [-scale, scale), for tests: same seed, same values
/// anywhere.
ConstantPtr make_random(std::vector<std::int64_t> dims, std::uint64_t seed, double scale);

/// Rank-2 lazy views. The source stays as it is.
ConstantPtr transposed(ConstantPtr source);
ConstantPtr concat_rows(std::vector<ConstantPtr> sources);
/// Row i of the result is row order[i] of the source, or zeros where order[i] is -1 (padding).
ConstantPtr reorder_rows(ConstantPtr source, std::vector<std::int64_t> order);

/// All elements as floats, row-major, any rank. Materialises.
std::vector<float> to_floats(const Constant& constant);
/// Elements as doubles / integers (any element type). For small constants: axes, shapes, scalars.
std::vector<double> to_doubles(const Constant& constant);
/// Fails (nullopt inside Result) when the constant is not of an integer or bool type.
Result<std::vector<std::int64_t>> to_integers(const Constant& constant);

}  // namespace llmc::ir
