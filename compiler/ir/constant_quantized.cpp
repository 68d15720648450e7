#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "compiler/ir/constant.h"
#include "compiler/ir/constant_data.h"
#include "compiler/ir/constant_pages.h"
#include "compiler/support/checked_math.h"

/// Matrices of quantized models: packed integers, and the floats computed from codes, scales and
/// zero points.
namespace llmc::ir {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

class PackedConstant final : public Constant, public PagedConstant {
 public:
  PackedConstant(ConstantPtr source, PackedForm form, std::vector<std::int64_t> dims)
      : Constant(form.code == PackedCode::kUnsigned ? ElementType::kU8 : ElementType::kI8,
                 std::move(dims)),
        source_(std::move(source)),
        form_(form) {
    data_ = source_->window();
    if (data_.empty()) {  // computed, not stored
      owned_ = source_->bytes();
      data_ = owned_;
    }
  }

  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    read_block(begin, count, 0, matrix_columns(*this), out);
  }
  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    const std::int64_t width = check_block(*this, row, rows, column, columns, out.size());
    const std::int64_t stride = form_.row_stride > 0 ? form_.row_stride : width;
    float* to = out.data();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        *to++ = static_cast<float>(at((row + i) * stride + column + j));
  }
  std::vector<std::byte> bytes() const override {
    const bool matrix = dims().size() == 2;
    const std::int64_t width = matrix ? dims()[1] : element_count();
    const std::int64_t stride = matrix && form_.row_stride > 0 ? form_.row_stride : width;
    std::vector<std::byte> out;
    out.reserve(byte_count());
    for (std::int64_t i = 0; width > 0 && i < element_count() / width; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        out.push_back(static_cast<std::byte>(at(i * stride + j) & 0xff));
    return out;
  }
  void drop_pages() const override { ir::drop_pages(*source_); }
  int element_bits() const override { return form_.bits; }
  /// Returns the same elements with other dims; nullptr if rows are padded.
  ConstantPtr with_dims(std::vector<std::int64_t> other) const {
    if (dims().size() == 2 && form_.row_stride > 0) return nullptr;
    return make_packed(source_, {form_.bits, form_.code}, std::move(other));
  }
  /// Returns elements that begin at `begin`; nullptr if that is inside a byte.
  ConstantPtr part(std::int64_t begin, std::vector<std::int64_t> part_dims) const {
    const auto count = packed_bytes({form_.bits}, part_dims);
    if (begin * form_.bits % 8 != 0 || !count) return nullptr;
    const auto from = data_.begin() + begin * form_.bits / 8;
    return make_packed(make_constant(ElementType::kU8, {*count}, {from, from + *count}),
                       {form_.bits, form_.code}, std::move(part_dims));
  }
  std::string describe() const override {
    static constexpr const char* kCodes[] = {"unsigned", "signed", "offset"};
    return "packed(" + typed_text(*source_) + ", " + std::to_string(form_.bits) + ", " +
           kCodes[static_cast<int>(form_.code)] + ", " + std::to_string(form_.row_stride) + ")";
  }

 private:
  int at(std::int64_t index) const {
    int value = 0;
    if (form_.bits == 8) {
      value = std::to_integer<int>(data_[static_cast<std::size_t>(index)]);
    } else {
      const int both = std::to_integer<int>(data_[static_cast<std::size_t>(index / 2)]);
      value = index % 2 == 0 ? both & 15 : both >> 4;
    }
    const int half = 1 << (form_.bits - 1);
    if (form_.code == PackedCode::kOffset) return value - half;
    if (form_.code == PackedCode::kSigned && value >= half) return value - 2 * half;
    return value;
  }

  ConstantPtr source_;
  PackedForm form_;
  std::vector<std::byte> owned_;
  std::span<const std::byte> data_;
};

bool is_code(ElementType element) {
  return element == ElementType::kI8 || element == ElementType::kU8;
}

class QuantizedConstant final : public Constant, public PagedConstant {
 public:
  QuantizedConstant(QuantizedParts parts, ConstantPtr transpose)
      : Constant(ElementType::kF32, parts.codes->dims()),
        parts_(std::move(parts)),
        transpose_(std::move(transpose)) {}

  const QuantizedParts& parts() const { return parts_; }
  const ConstantPtr& transpose() const { return transpose_; }

  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    read_block(begin, count, 0, dims()[1], out);
  }
  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    check_block(*this, row, rows, column, columns, out.size());
    if (rows == 0 || columns == 0) return;
    parts_.codes->read_block(row, rows, column, columns, out);
    const std::int64_t first = column / parts_.column_block;
    const std::int64_t blocks = (column + columns - 1) / parts_.column_block - first + 1;
    std::vector<float> scales(static_cast<std::size_t>(blocks)), zeros(scales.size());
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t parameters = (row + i) / parts_.row_block;
      if (i == 0 || (row + i) % parts_.row_block == 0) {
        parts_.scales->read_block(parameters, 1, first, blocks, scales);
        if (parts_.zero_points) parts_.zero_points->read_block(parameters, 1, first, blocks, zeros);
      }
      float* const to = out.data() + i * columns;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t begin = std::max((first + b) * parts_.column_block, column) - column;
        const std::int64_t end =
            b + 1 == blocks ? columns : (first + b + 1) * parts_.column_block - column;
        const auto index = static_cast<std::size_t>(b);
        for (std::int64_t j = begin; j < end; ++j) to[j] = (to[j] - zeros[index]) * scales[index];
      }
    }
  }

  std::optional<Quantization> quantization(std::int64_t, std::int64_t) const override {
    Quantization q;
    const bool is_signed = parts_.codes->element() == ElementType::kI8;
    q.low = is_signed ? -128 : 0;
    q.high = is_signed ? 127 : 255;
    if (parts_.codes->element_bits() == 4) {
      q.low = is_signed ? -8 : 0;
      q.high = is_signed ? 7 : 15;
    }
    q.block = parts_.column_block >= dims()[1] ? 0 : parts_.column_block;
    if (parts_.zero_points)
      q.zero = is_float(parts_.zero_points->element()) ? Quantization::Zero::kFloat
                                                       : Quantization::Zero::kInteger;
    return q;
  }
  void read_quantized(std::int64_t row, std::int64_t rows, std::int64_t block,
                      const QuantizedRows& out) const override {
    if (!out.codes.empty()) parts_.codes->read_block(row, rows, 0, dims()[1], out.codes);
    const std::int64_t blocks = ceil_div(dims()[1], block);
    read_parameters(parts_.scales, row, rows, block, blocks, out.scales);
    if (parts_.zero_points)
      read_parameters(parts_.zero_points, row, rows, block, blocks, out.zeros);
    else
      std::fill(out.zeros.begin(), out.zeros.end(), 0.0f);
  }

  void drop_pages() const override {
    for (const auto& part : {parts_.codes, parts_.scales, parts_.zero_points})
      if (part) ir::drop_pages(*part);
  }
  std::vector<std::byte> bytes() const override {
    std::vector<float> values(static_cast<std::size_t>(element_count()));
    read_rows(0, dims()[0], values);
    std::vector<std::byte> out(byte_count());
    if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
    return out;
  }
  std::string describe() const override {
    return "quantized(" + typed_text(*parts_.codes) + ", " + typed_text(*parts_.scales) + ", " +
           (parts_.zero_points ? typed_text(*parts_.zero_points) : "_") + ", [" +
           std::to_string(parts_.row_block) + ", " + std::to_string(parts_.column_block) + "])";
  }

 private:
  void read_parameters(const ConstantPtr& source, std::int64_t row, std::int64_t rows,
                       std::int64_t block, std::int64_t blocks, std::span<float> out) const {
    if (out.empty()) return;
    const std::int64_t own = source->dims()[1];
    std::vector<float> values(static_cast<std::size_t>(own));
    for (std::int64_t i = 0; i < rows; ++i) {
      if (i == 0 || (row + i) % parts_.row_block == 0)
        source->read_block((row + i) / parts_.row_block, 1, 0, own, values);
      for (std::int64_t b = 0; b < blocks; ++b)
        out[static_cast<std::size_t>(i * blocks + b)] =
            values[static_cast<std::size_t>(b * block / parts_.column_block)];
    }
  }

  QuantizedParts parts_;
  ConstantPtr transpose_;  // the matrix of which this is the transpose, or nullptr
};

/// Returns whether `parameters` has one element for each block of `dims`.
bool fits(const Constant& parameters, const std::vector<std::int64_t>& dims,
          const QuantizedParts& parts) {
  return parameters.dims() == std::vector<std::int64_t>{ceil_div(dims[0], parts.row_block),
                                                        ceil_div(dims[1], parts.column_block)};
}

const QuantizedConstant* as_quantized(const ConstantPtr& constant) {
  return dynamic_cast<const QuantizedConstant*>(constant.get());
}

}  // namespace

std::optional<std::int64_t> packed_bytes(const PackedForm& form,
                                         std::span<const std::int64_t> dims) {
  const auto count = checked_product(dims);
  if (!count || (form.bits != 4 && form.bits != 8) || form.row_stride < 0) return std::nullopt;
  std::int64_t elements = *count;
  if (dims.size() == 2 && form.row_stride > 0) {
    if (form.row_stride < dims[1]) return std::nullopt;
    const auto before = checked_mul(std::max<std::int64_t>(dims[0] - 1, 0), form.row_stride);
    if (!before || __builtin_add_overflow(*before, dims[0] > 0 ? dims[1] : 0, &elements))
      return std::nullopt;
  }
  return form.bits == 4 ? ceil_div(elements, 2) : elements;
}

ConstantPtr make_packed(ConstantPtr source, PackedForm form, std::vector<std::int64_t> dims) {
  const auto bytes = packed_bytes(form, dims);
  LLMC_CHECK(source && element_bytes(source->element()) == 1 && bytes &&
             *bytes <= source->element_count());
  return std::make_shared<PackedConstant>(std::move(source), form, std::move(dims));
}

ConstantPtr reshaped_packed(const ConstantPtr& source, const std::vector<std::int64_t>& dims) {
  const auto* packed = dynamic_cast<const PackedConstant*>(source.get());
  return packed ? packed->with_dims(dims) : nullptr;
}

ConstantPtr matrix_of_stack(const ConstantPtr& stack, std::int64_t index) {
  LLMC_CHECK(stack && stack->dims().size() == 3 && index >= 0 && index < stack->dims()[0]);
  std::vector<std::int64_t> dims(stack->dims().begin() + 1, stack->dims().end());
  const std::int64_t count = dims[0] * dims[1];
  if (const auto* packed = dynamic_cast<const PackedConstant*>(stack.get()))
    if (ConstantPtr part = packed->part(index * count, dims)) return part;
  std::span<const std::byte> all = stack->window();
  std::vector<std::byte> computed;
  if (all.empty()) all = computed = stack->bytes();
  const std::size_t bytes = static_cast<std::size_t>(count) * element_bytes(stack->element());
  const auto part = all.subspan(static_cast<std::size_t>(index) * bytes, bytes);
  return make_constant(stack->element(), std::move(dims), {part.begin(), part.end()});
}

bool is_quantized_matrix(const QuantizedParts& parts) {
  if (!parts.codes || parts.codes->dims().size() != 2 || !is_code(parts.codes->element()))
    return false;
  if (!checked_byte_count(ElementType::kF32, parts.codes->dims())) return false;
  if (parts.row_block <= 0 || parts.column_block <= 0) return false;
  if (!parts.scales || !is_float(parts.scales->element()) ||
      !fits(*parts.scales, parts.codes->dims(), parts))
    return false;
  if (!parts.zero_points) return true;
  const ElementType zero = parts.zero_points->element();
  return (is_float(zero) || is_code(zero)) && fits(*parts.zero_points, parts.codes->dims(), parts);
}

ConstantPtr make_quantized(QuantizedParts parts) {
  LLMC_CHECK(is_quantized_matrix(parts));
  return std::make_shared<QuantizedConstant>(std::move(parts), nullptr);
}

ConstantPtr transposed_quantized(const ConstantPtr& source) {
  const auto* quantized = as_quantized(source);
  if (!quantized) return nullptr;
  if (quantized->transpose()) return quantized->transpose();
  const QuantizedParts& parts = quantized->parts();
  QuantizedParts transposed_parts{transposed(parts.codes), transposed(parts.scales),
                                  parts.zero_points ? transposed(parts.zero_points) : nullptr,
                                  parts.column_block, parts.row_block};
  return std::make_shared<QuantizedConstant>(std::move(transposed_parts), source);
}

const QuantizedParts* quantized_parts(const Constant& constant) {
  const auto* quantized = dynamic_cast<const QuantizedConstant*>(&constant);
  return quantized ? &quantized->parts() : nullptr;
}

ConstantPtr scaled_rows(const ConstantPtr& constant, std::span<const float> factors) {
  const auto* quantized = as_quantized(constant);
  if (!quantized) return nullptr;
  QuantizedParts parts = quantized->parts();
  const std::int64_t rows = constant->dims()[0], blocks = parts.scales->dims()[1];
  LLMC_CHECK(factors.size() == 1 || std::cmp_equal(factors.size(), rows));
  const bool each = factors.size() > 1;
  const auto spread = [&](const ConstantPtr& source) {
    std::vector<float> values(static_cast<std::size_t>(rows * blocks));
    for (std::int64_t i = 0; i < rows; ++i)
      source->read_block(i / parts.row_block, 1, 0, blocks,
                         std::span(values).subspan(static_cast<std::size_t>(i * blocks),
                                                   static_cast<std::size_t>(blocks)));
    return values;
  };
  std::vector<float> scales;
  if (each) {
    scales = spread(parts.scales);
    if (parts.zero_points && parts.row_block != 1)
      parts.zero_points = make_f32({rows, blocks}, spread(parts.zero_points));
    parts.row_block = 1;
  } else {
    scales = to_floats(*parts.scales);
  }
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] *= factors[each ? i / static_cast<std::size_t>(blocks) : 0];
  const std::int64_t scale_rows = each ? rows : parts.scales->dims()[0];
  parts.scales = make_f32({scale_rows, blocks}, std::move(scales));
  return make_quantized(std::move(parts));
}

Quantization merged(const Quantization& a, const Quantization& b) {
  return Quantization{std::min(a.low, b.low), std::max(a.high, b.high), std::gcd(a.block, b.block),
                      std::max(a.zero, b.zero)};
}

}  // namespace llmc::ir
