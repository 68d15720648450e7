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

/// How the elements of a matrix were quantized in the model's file:
///
///     element[r][k] = (code[r][k] - zero[r][k / block]) * scale[r][k / block]
///
/// in f32, each operation rounded; without zero points `zero` is 0.
struct Quantization {
  enum class Zero : std::uint8_t { kNone, kInteger, kFloat };
  int low = 0, high = 0;   // range of the code type, at most 8 bits
  std::int64_t block = 0;  // columns that share a scale; 0: the whole row
  Zero zero = Zero::kNone;

  bool operator==(const Quantization&) const = default;
};

/// Destination for whole rows of a quantized matrix. Empty spans are not filled.
struct QuantizedRows {
  std::span<float> codes;          // [rows, columns]
  std::span<float> scales, zeros;  // [rows, ceil(columns / block)]
};

/// Immutable tensor data of the compiler. Small constants own their data; weights are views into
/// mapped files, or lazy rearrangements of these (transpose, concatenation, row order). So a pass
/// can merge or transpose a 100 MB matrix at no cost, and weights are read only once, when they are
/// packed.
///
/// Dims are plain numbers. Row-major, little-endian, no padding.
class Constant {
 public:
  virtual ~Constant() = default;

  ElementType element() const { return element_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::int64_t element_count() const;
  std::size_t byte_count() const;

  /// Reads rows [begin, begin + count) of a rank-2 constant (rank 1 counts as one row) as float
  /// into `out`, row-major (count * cols floats). f16, bf16 and f64 are converted (f64 rounds to
  /// nearest even). Reading many rows at once lets a transposed source be read in blocks.
  virtual void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const = 0;
  /// Reads columns [column, column + columns) of some rows, `columns` floats per row in `out`. The
  /// default reads whole rows; views override it so that a transposed source need not be read as a
  /// whole.
  virtual void read_block(std::int64_t row, std::int64_t rows, std::int64_t column,
                          std::int64_t columns, std::span<float> out) const;
  /// Returns all bytes, row-major. Materializes a view: for small constants and tests.
  virtual std::vector<std::byte> bytes() const = 0;
  /// Returns the data expression as printed in the IR's text form (ir/text.h).
  virtual std::string describe() const = 0;
  /// Returns all bytes if they are dense in memory; otherwise empty.
  virtual std::span<const std::byte> window() const { return {}; }

  /// Returns the number of bits per element: fewer than those of its type for packed integers.
  virtual int element_bits() const;

  /// Returns the common quantization of rows [begin, end) of a matrix; nullopt if some are not
  /// quantized. Rows of zeros (padding) fit any quantization.
  virtual std::optional<Quantization> quantization(std::int64_t begin, std::int64_t end) const;
  std::optional<Quantization> quantization() const;
  /// Reads the parts of quantized rows. `block` must be that of quantization(row, row + rows), or a
  /// divisor of it.
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

/// Returns the size of a tensor in bytes; nullopt if a dim is negative or the product does not fit
/// 63 bits. Use it before making a constant from untrusted dims.
std::optional<std::size_t> checked_byte_count(ElementType element,
                                              std::span<const std::int64_t> dims);

/// Makes a constant with its own data; `bytes` must have exactly the size given by element and dims
/// (LLMC_CHECK).
ConstantPtr make_constant(ElementType element, std::vector<std::int64_t> dims,
                          std::vector<std::byte> bytes);
ConstantPtr make_f32(std::vector<std::int64_t> dims, std::vector<float> values);
ConstantPtr make_i64(std::vector<std::int64_t> dims, std::vector<std::int64_t> values);

/// Makes a view of memory that `owner` keeps alive (a mapped file). `name` represents it in text.
ConstantPtr make_mapped(ElementType element, std::vector<std::int64_t> dims,
                        std::shared_ptr<const void> owner, std::span<const std::byte> window,
                        std::string name);
/// Packing of 4- or 8-bit integers in files: element 0 is in the low bits of the first byte.
enum class PackedCode : std::uint8_t {
  kUnsigned,  // u8
  kSigned,    // i8, two's complement
  kOffset,    // i8, stored with an offset of 2^(bits-1)
};
struct PackedForm {
  int bits = 4;
  PackedCode code = PackedCode::kUnsigned;
  /// For matrices: distance between the starts of rows in `source`, in elements; 0: the row length.
  std::int64_t row_stride = 0;
};
/// Returns the minimum size of `source` in bytes; nullopt if that does not fit 63 bits.
std::optional<std::int64_t> packed_bytes(const PackedForm& form,
                                         std::span<const std::int64_t> dims);
/// Makes a view of `source`, a constant of one-byte elements, as u8 or i8.
ConstantPtr make_packed(ConstantPtr source, PackedForm form, std::vector<std::int64_t> dims);

/// The parts of a quantized matrix [R, C]. Element [i][j] uses scale [i / row_block] [j /
/// column_block].
struct QuantizedParts {
  ConstantPtr codes;        // i8 or u8 [R, C]
  ConstantPtr scales;       // f32, f16 or bf16 [ceil(R / row_block), ceil(C / column_block)]
  ConstantPtr zero_points;  // of the same dims, i8, u8 or float; nullptr: all 0
  std::int64_t row_block = 1, column_block = 1;  // > 0
};
/// Returns whether types, dims and blocks are consistent. Use it for untrusted parts.
bool is_quantized_matrix(const QuantizedParts& parts);
/// Makes the f32 matrix that the parts represent, evaluated lazily. Transposes, row concatenations
/// and row orders of it keep the quantization visible (Constant::quantization).
ConstantPtr make_quantized(QuantizedParts parts);
/// Returns the parts of a constant made by make_quantized, or nullptr.
const QuantizedParts* quantized_parts(const Constant& constant);
/// Returns `constant` with every scale multiplied by one factor or by that of its row, rounded to
/// f32; nullptr if it was not made by make_quantized.
ConstantPtr scaled_rows(const ConstantPtr& constant, std::span<const float> factors);

/// Makes a constant whose elements are all equal.
ConstantPtr make_splat(ElementType element, std::vector<std::int64_t> dims, double value);
/// Makes reproducible pseudo-random values in [-scale, scale), for tests: equal seeds give equal
/// values on every machine.
ConstantPtr make_random(std::vector<std::int64_t> dims, std::uint64_t seed, double scale);

/// Lazy rank-2 views. The source is not modified.
ConstantPtr transposed(ConstantPtr source);
ConstantPtr concat_rows(std::vector<ConstantPtr> sources);
/// Row i of the result is row order[i] of the source, or zeros if order[i] is -1 (padding).
ConstantPtr reorder_rows(ConstantPtr source, std::vector<std::int64_t> order);

/// Returns the same elements with other dims (of equal count). A view if the source is dense in
/// memory, else a copy.
ConstantPtr reshaped(ConstantPtr source, std::vector<std::int64_t> dims);

/// Returns all elements as floats, row-major, for any rank. Materializes.
std::vector<float> to_floats(const Constant& constant);
/// Return the elements as doubles / integers (any element type). For small constants: axes, shapes,
/// scalars.
std::vector<double> to_doubles(const Constant& constant);
/// Fails if the constant is neither of integer nor of bool type.
Result<std::vector<std::int64_t>> to_integers(const Constant& constant);

}  // namespace llmc::ir
