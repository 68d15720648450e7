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
/// in f32, with each operation rounded. Without zero points, `zero` is 0.
struct Quantization {
  enum class Zero : std::uint8_t { kNone, kInteger, kFloat };
  int low = 0, high = 0;   // range of the codes, which have at most 8 bits
  std::int64_t block = 0;  // number of columns that share a scale; 0: the whole row
  Zero zero = Zero::kNone;

  bool operator==(const Quantization&) const = default;
};

/// Destination for whole rows of a quantized matrix. Parts with an empty span are not read.
struct QuantizedRows {
  std::span<float> codes;          // [rows, columns]
  std::span<float> scales, zeros;  // [rows, ceil(columns / block)]
};

/// Immutable tensor data of the compiler. Small constants own their data. Weights are views into
/// mapped files, or lazy rearrangements of such views (transpose, concatenation, row order). A pass
/// can therefore merge or transpose a 100 MB matrix at no cost, and weights are read only once,
/// when they are packed.
///
/// Dims are numbers, not symbols. Elements are row-major and little-endian, without padding.
class Constant {
 public:
  virtual ~Constant() = default;

  ElementType element() const { return element_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::int64_t element_count() const;
  std::size_t byte_count() const;

  /// Reads rows [begin, begin + count) of a rank-2 constant as floats into `out` [count, columns],
  /// row-major. A rank-1 constant counts as one row. Other element types are converted, and rounded
  /// to nearest even. Callers should read many rows at once, because a transposed source is then
  /// read in blocks.
  virtual void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const = 0;
  /// Reads the block of rows [row, row + rows) and columns [column, column + columns) into `out`
  /// [rows, columns]. The default implementation reads whole rows. Views override it, so that only
  /// a part of a transposed source is read.
  virtual void read_block(std::int64_t row, std::int64_t rows, std::int64_t column,
                          std::int64_t columns, std::span<float> out) const;
  /// Returns a copy of all elements as bytes, row-major. Evaluates a view completely, so use it
  /// only for small constants and tests.
  virtual std::vector<std::byte> bytes() const = 0;
  /// Returns the data expression as printed in the IR's text form (ir/text.h).
  virtual std::string describe() const = 0;
  /// Returns the memory of all elements if they are dense in memory, otherwise an empty span.
  virtual std::span<const std::byte> window() const { return {}; }

  /// Returns the stored size of an element in bits. It is 4 for packed 4-bit integers, whose
  /// element type has 8 bits.
  virtual int element_bits() const;

  /// Returns a quantization that describes all rows [begin, end) of a matrix; nullopt if a row is
  /// not quantized or all rows are padding. Padding (see reorder_rows) matches any quantization.
  virtual std::optional<Quantization> quantization(std::int64_t begin, std::int64_t end) const;
  /// Returns the quantization of all rows; nullopt if the rank is not 2.
  std::optional<Quantization> quantization() const;
  /// Returns the quantized matrix from which the floats were made, with its rows in the same order.
  /// Returns nullptr unless this is a view made by as_floats(), or a view of one made by
  /// reorder_rows() or hadamard_weight().
  virtual std::shared_ptr<const Constant> source_of_floats() const { return nullptr; }
  /// Reads codes, scales and zero points of rows [row, row + rows), which must be quantized
  /// (LLMC_CHECK). `block` is the number of columns for each scale in `out`: a positive divisor of
  /// quantization(row, row + rows)->block, or, if that is 0, any positive number.
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

/// Returns the size of a tensor in bytes; nullopt if a dim is negative or the size exceeds 63 bits.
/// Call it before making a constant from untrusted dims.
std::optional<std::size_t> checked_byte_count(ElementType element,
                                              std::span<const std::int64_t> dims);

/// Makes a constant that owns its data. `bytes` must have exactly the size that element type and
/// dims require (LLMC_CHECK).
ConstantPtr make_constant(ElementType element, std::vector<std::int64_t> dims,
                          std::vector<std::byte> bytes);
ConstantPtr make_f32(std::vector<std::int64_t> dims, std::vector<float> values);
ConstantPtr make_i64(std::vector<std::int64_t> dims, std::vector<std::int64_t> values);

/// Makes a view of `window`, memory that `owner` keeps alive, such as a mapped file. `window` must
/// have exactly the size that element type and dims require (LLMC_CHECK). The IR's text form refers
/// to it by `name`.
ConstantPtr make_mapped(ElementType element, std::vector<std::int64_t> dims,
                        std::shared_ptr<const void> owner, std::span<const std::byte> window,
                        std::string name);
/// Encoding of packed 4- or 8-bit integers in files. Element 0 is in the low bits of the first
/// byte.
enum class PackedCode : std::uint8_t {
  kUnsigned,  // u8
  kSigned,    // i8, two's complement
  kOffset,    // i8, stored with an offset of 2^(bits-1)
};
struct PackedForm {
  int bits = 4;
  PackedCode code = PackedCode::kUnsigned;
  /// For matrices: distance between the starts of consecutive rows in `source`, in elements. 0
  /// means that the distance is the row length.
  std::int64_t row_stride = 0;
};
/// Returns the minimum size of `source` (see make_packed) in bytes; nullopt if it exceeds 63 bits,
/// `form.bits` is neither 4 nor 8, or the row stride is less than the row length.
std::optional<std::int64_t> packed_bytes(const PackedForm& form,
                                         std::span<const std::int64_t> dims);
/// Makes a u8 or i8 view of the packed integers in `source`, a constant with one-byte elements and
/// at least packed_bytes() of them (LLMC_CHECK).
ConstantPtr make_packed(ConstantPtr source, PackedForm form, std::vector<std::int64_t> dims);

/// The parts of a quantized matrix [R, C]. Element [i][j] uses scale [i / row_block] [j /
/// column_block].
struct QuantizedParts {
  ConstantPtr codes;        // i8 or u8 [R, C]
  ConstantPtr scales;       // any float type, [ceil(R / row_block), ceil(C / column_block)]
  ConstantPtr zero_points;  // i8, u8 or any float type, dims of `scales`; nullptr: all 0
  std::int64_t row_block = 1, column_block = 1;  // > 0
};
/// Returns whether types, dims and blocks are consistent. Call it before make_quantized for
/// untrusted parts.
bool is_quantized_matrix(const QuantizedParts& parts);
/// Makes the f32 matrix that the parts represent, evaluated lazily. Its transposes, row
/// concatenations and row permutations still report the quantization (Constant::quantization).
ConstantPtr make_quantized(QuantizedParts parts);
/// Returns the parts of a constant made by make_quantized, or nullptr.
const QuantizedParts* quantized_parts(const Constant& constant);
/// Returns whether a constant is a matrix with at least one quantized row.
bool has_quantized_rows(const Constant& constant);
/// Returns a lazy view of `matrix` whose quantization() is nullopt; returns `matrix` itself if it
/// is not quantized. Requires rank 2 (LLMC_CHECK). The text form of the view is floats(W).
ConstantPtr as_floats(ConstantPtr matrix);
/// Returns `constant` with its scales multiplied by `factors`, which has one element, or one for
/// each row (LLMC_CHECK). The new scales are rounded to f32. Returns nullptr if `constant` was not
/// made by make_quantized.
ConstantPtr scaled_rows(const ConstantPtr& constant, std::span<const float> factors);
/// Multiplies a matrix, converted to f32, by `factor`. For a matrix made by make_quantized, returns
/// scaled_rows(), which multiplies the scales. Otherwise returns a lazy view that rounds each
/// product to f32. The rank must be 2 (LLMC_CHECK).
ConstantPtr scaled(ConstantPtr matrix, float factor);

/// Makes a constant whose elements all equal `value`, converted as element_from_double() does.
ConstantPtr make_splat(ElementType element, std::vector<std::int64_t> dims, double value);
/// Makes pseudo-random f32 values in [-scale, scale), for tests. Equal seeds give equal values on
/// every machine.
ConstantPtr make_random(std::vector<std::int64_t> dims, std::uint64_t seed, double scale);

/// Make lazy views of their sources. Sources must have rank 2 (LLMC_CHECK). The sources of
/// concat_rows() must also agree in element type and number of columns (LLMC_CHECK).
ConstantPtr transposed(ConstantPtr source);
ConstantPtr concat_rows(std::vector<ConstantPtr> sources);
/// Makes a view whose row i is row order[i] of the source, or zeros (padding) if order[i] is -1.
ConstantPtr reorder_rows(ConstantPtr source, std::vector<std::int64_t> order);

/// Returns the same elements with other dims. The number of elements must be equal (LLMC_CHECK).
/// The result is a view of sources that are dense in memory and larger than 128 bytes, of packed
/// integers without row padding, and of matrices that are evaluated lazily if `dims` has at least
/// three dims and the same last dim. Reshaping a view of the last kind back to the dims of the
/// matrix returns the matrix, with its quantization. Splat and random constants stay lazy. Other
/// sources are copied.
ConstantPtr reshaped(ConstantPtr source, std::vector<std::int64_t> dims);
/// Returns a view of packed integers (make_packed) with other dims; nullptr if `source` is another
/// constant or its rows are padded.
ConstantPtr reshaped_packed(const ConstantPtr& source, const std::vector<std::int64_t>& dims);
/// Returns a copy of matrix `index` of a stack [count, rows, columns] (LLMC_CHECK). Packed integers
/// remain packed if the matrix begins at a byte boundary.
ConstantPtr matrix_of_stack(const ConstantPtr& stack, std::int64_t index);

/// Returns a copy of all elements as floats, row-major, for any rank.
std::vector<float> to_floats(const Constant& constant);
/// Returns a copy of all elements as doubles, for any element type. Integers above 2^53 are
/// rounded. Use it only for small constants: axes, shapes, scalars.
std::vector<double> to_doubles(const Constant& constant);
/// Returns a copy of all elements as integers; u64 elements of 2^63 or more wrap. Fails with
/// kBadInput if the element type is neither an integer type nor bool.
Result<std::vector<std::int64_t>> to_integers(const Constant& constant);

}  // namespace llmc::ir
