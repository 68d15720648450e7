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

/// How the elements of a matrix were quantized by whoever wrote the file:
///   element[r][k] = (code[r][k] - zero[r][k / block]) * scale[r][k / block]
/// in f32, each operation rounded; without zero points `zero` is 0.
struct Quantization {
  enum class Zero : std::uint8_t { kNone, kInteger, kFloat };
  int low = 0, high = 0;   // range of the codes' type, at most 8 bits
  std::int64_t block = 0;  // columns that share a scale; 0: the whole row
  Zero zero = Zero::kNone;

  bool operator==(const Quantization&) const = default;
};

/// Whole rows of a quantized matrix, in numbers. A span may be empty: not wanted.
struct QuantizedRows {
  std::span<float> codes;          // [rows, columns]
  std::span<float> scales, zeros;  // [rows, ceil(columns / block)]
};

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
  /// All bytes where they lie dense in memory; empty when they do not.
  virtual std::span<const std::byte> window() const { return {}; }

  /// Bits that an element takes: fewer than its type's for packed integers.
  virtual int element_bits() const;

  /// How rows [begin, end) of a matrix are quantized, taken together; nullopt when some are not.
  /// Rows of zeros (padding) fit any quantization.
  virtual std::optional<Quantization> quantization(std::int64_t begin, std::int64_t end) const;
  std::optional<Quantization> quantization() const;
  /// Their parts. `block` is the one that quantization(row, row + rows) says, or divides it.
  virtual void read_quantized(std::int64_t row, std::int64_t rows, std::int64_t block,
                              const QuantizedRows& out) const;

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
/// Integers of 4 or 8 bits as files pack them: element 0 in the low bits of the first byte.
enum class PackedCode : std::uint8_t {
  kUnsigned,  // u8
  kSigned,    // i8, two's complement
  kOffset,    // i8, stored 2^(bits-1) too large
};
struct PackedForm {
  int bits = 4;
  PackedCode code = PackedCode::kUnsigned;
  /// Matrices: elements from the start of a row to that of the next in `source`; 0: as many as the
  /// row has.
  std::int64_t row_stride = 0;
};
/// Bytes that `source` has to have at least; nullopt when that does not fit 63 bits.
std::optional<std::int64_t> packed_bytes(const PackedForm& form,
                                         std::span<const std::int64_t> dims);
/// A view of `source`, a constant of one-byte elements, as u8 or i8.
ConstantPtr make_packed(ConstantPtr source, PackedForm form, std::vector<std::int64_t> dims);

/// The parts of a quantized matrix [R, C]. Element [i][j] belongs to scale [i / row_block]
/// [j / column_block].
struct QuantizedParts {
  ConstantPtr codes;        // i8 or u8 [R, C]
  ConstantPtr scales;       // f32, f16 or bf16 [ceil(R / row_block), ceil(C / column_block)]
  ConstantPtr zero_points;  // of the same dims, i8, u8 or float; nullptr: all 0
  std::int64_t row_block = 1, column_block = 1;  // > 0
};
/// Whether types, dims and blocks fit each other. Check with it what comes from outside.
bool is_quantized_matrix(const QuantizedParts& parts);
/// Lazy f32 matrix of what the parts stand for; transposes, row concatenations and row orders of it
/// keep the parts visible (Constant::quantization).
ConstantPtr make_quantized(QuantizedParts parts);
/// The parts of a constant made by make_quantized, or nullptr.
const QuantizedParts* quantized_parts(const Constant& constant);
/// `constant` with every scale multiplied by a number (one factor) or by the one of its row,
/// rounded to f32; nullptr when it was not made by make_quantized.
ConstantPtr scaled_rows(const ConstantPtr& constant, std::span<const float> factors);

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

/// The same elements under other dims (of the same count). A view where the source lies dense in
/// memory, else a copy.
ConstantPtr reshaped(ConstantPtr source, std::vector<std::int64_t> dims);

/// All elements as floats, row-major, any rank. Materialises.
std::vector<float> to_floats(const Constant& constant);
/// Elements as doubles / integers (any element type). For small constants: axes, shapes, scalars.
std::vector<double> to_doubles(const Constant& constant);
/// Fails (nullopt inside Result) when the constant is not of an integer or bool type.
Result<std::vector<std::int64_t>> to_integers(const Constant& constant);

}  // namespace llmc::ir
