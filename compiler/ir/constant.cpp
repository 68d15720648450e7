#include "compiler/ir/constant.h"

#include <cstring>
#include <utility>

#include "compiler/ir/constant_data.h"
#include "compiler/ir/constant_pages.h"
#include "compiler/ir/quote.h"
#include "compiler/support/checked_math.h"

namespace llmc::ir {
namespace {

/// Constant whose elements are dense in memory; base of owned and mapped constants.
class DenseConstant : public Constant {
 public:
  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    const std::int64_t columns = matrix_columns(*this);
    read_block(begin, count, 0, columns, out);
  }
  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    const std::int64_t width = check_block(*this, row, rows, column, columns, out.size());
    const std::size_t size = element_bytes(element());
    for (std::int64_t i = 0; i < rows; ++i)
      convert_to_floats(
          element(), data().subspan(static_cast<std::size_t>((row + i) * width + column) * size),
          out.subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns)));
  }
  std::vector<std::byte> bytes() const override { return {data().begin(), data().end()}; }
  std::span<const std::byte> window() const override { return data(); }

 protected:
  using Constant::Constant;
  virtual std::span<const std::byte> data() const = 0;
};

class OwnedConstant final : public DenseConstant {
 public:
  OwnedConstant(ElementType element, std::vector<std::int64_t> dims, std::vector<std::byte> data)
      : DenseConstant(element, std::move(dims)), data_(std::move(data)) {}
  std::string describe() const override { return element_list_text(element(), data_); }

 private:
  std::span<const std::byte> data() const override { return data_; }
  std::vector<std::byte> data_;
};

class MappedConstant final : public DenseConstant, public PagedConstant {
 public:
  MappedConstant(ElementType element, std::vector<std::int64_t> dims,
                 std::shared_ptr<const void> owner, std::span<const std::byte> window,
                 std::string name, const MappedFile* file)
      : DenseConstant(element, std::move(dims)),
        owner_(std::move(owner)),
        window_(window),
        name_(std::move(name)),
        file_(file) {}
  std::string describe() const override { return "mapped " + ir::quoted(name_); }
  void drop_pages() const override {
    if (file_ != nullptr) file_->drop_pages();
  }

 private:
  std::span<const std::byte> data() const override { return window_; }
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> window_;
  std::string name_;
  const MappedFile* file_;  // owner of the memory, if it is a file
};

/// View of a dense constant with other dims.
class ReshapedConstant final : public DenseConstant, public PagedConstant {
 public:
  ReshapedConstant(ConstantPtr source, std::vector<std::int64_t> dims)
      : DenseConstant(source->element(), std::move(dims)), source_(std::move(source)) {}
  std::string describe() const override { return "reshaped(" + typed_text(*source_) + ")"; }
  void drop_pages() const override { ir::drop_pages(*source_); }

 private:
  std::span<const std::byte> data() const override { return source_->window(); }
  ConstantPtr source_;
};

/// View of a constant that is not dense, with other dims but the same number of columns.
class ReshapedRows final : public Constant, public PagedConstant {
 public:
  ReshapedRows(ConstantPtr source, std::vector<std::int64_t> dims)
      : Constant(source->element(), std::move(dims)), source_(std::move(source)) {}
  const ConstantPtr& source() const { return source_; }
  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    source_->read_rows(begin, count, out);
  }
  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    source_->read_block(row, rows, column, columns, out);
  }
  std::vector<std::byte> bytes() const override { return source_->bytes(); }
  std::string describe() const override { return "reshaped(" + typed_text(*source_) + ")"; }
  void drop_pages() const override { ir::drop_pages(*source_); }

 private:
  ConstantPtr source_;
};

/// Constant whose elements are computed from their index.
class ComputedConstant : public Constant {
 public:
  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    read_block(begin, count, 0, matrix_columns(*this), out);
  }
  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    const std::int64_t width = check_block(*this, row, rows, column, columns, out.size());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        out[static_cast<std::size_t>(i * columns + j)] =
            float_at(static_cast<std::uint64_t>((row + i) * width + column + j));
  }

  /// Returns the same elements with other dims.
  virtual ConstantPtr with_dims(std::vector<std::int64_t> dims) const = 0;

 protected:
  using Constant::Constant;
  virtual float float_at(std::uint64_t index) const = 0;
};

class SplatConstant final : public ComputedConstant {
 public:
  SplatConstant(ElementType element, std::vector<std::int64_t> dims, double value)
      : ComputedConstant(element, std::move(dims)), pattern_(element_from_double(element, value)) {}
  SplatConstant(ElementType element, std::vector<std::int64_t> dims, std::vector<std::byte> pattern)
      : ComputedConstant(element, std::move(dims)), pattern_(std::move(pattern)) {}
  ConstantPtr with_dims(std::vector<std::int64_t> dims) const override {
    return std::make_shared<SplatConstant>(element(), std::move(dims), pattern_);
  }
  std::vector<std::byte> bytes() const override {
    std::vector<std::byte> out(byte_count());
    for (std::size_t at = 0; at < out.size(); at += pattern_.size())
      std::memcpy(out.data() + at, pattern_.data(), pattern_.size());
    return out;
  }
  std::string describe() const override {
    return "splat(" + element_text(element(), pattern_) + ")";
  }

 private:
  float float_at(std::uint64_t) const override {
    float value = 0;
    convert_to_floats(element(), pattern_, {&value, 1});
    return value;
  }
  std::vector<std::byte> pattern_;
};

class RandomConstant final : public ComputedConstant {
 public:
  RandomConstant(std::vector<std::int64_t> dims, std::uint64_t seed, double scale)
      : ComputedConstant(ElementType::kF32, std::move(dims)), seed_(seed), scale_(scale) {}
  ConstantPtr with_dims(std::vector<std::int64_t> dims) const override {
    return std::make_shared<RandomConstant>(std::move(dims), seed_, scale_);
  }
  std::vector<std::byte> bytes() const override {
    std::vector<std::byte> out(byte_count());
    for (std::size_t i = 0; i < out.size() / sizeof(float); ++i) {
      const float value = float_at(i);
      std::memcpy(out.data() + i * sizeof(float), &value, sizeof value);
    }
    return out;
  }
  std::string describe() const override {
    return "random(" + std::to_string(seed_) + ", " + number_text(scale_) + ")";
  }

 private:
  /// Applies splitmix64's mixing function (Steele, Lea and Flood 2014) to seed and index, and maps
  /// the top 24 bits to [-1, 1). Being counter-based, it can compute any row independently.
  float float_at(std::uint64_t index) const override {
    std::uint64_t z = (seed_ + 1) * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double unit = static_cast<double>(z >> 40) * 0x1p-23 - 1.0;
    return static_cast<float>(unit * scale_);
  }
  std::uint64_t seed_;
  double scale_;
};

}  // namespace

std::int64_t Constant::element_count() const {
  return *checked_product(dims_);
}

std::size_t Constant::byte_count() const {
  return static_cast<std::size_t>(element_count()) * element_bytes(element_);
}

void Constant::read_block(std::int64_t row, std::int64_t rows, std::int64_t column,
                          std::int64_t columns, std::span<float> out) const {
  const std::int64_t width = check_block(*this, row, rows, column, columns, out.size());
  if (columns == width) return read_rows(row, rows, out);
  std::vector<float> whole(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < rows; ++i) {
    read_rows(row + i, 1, whole);
    std::memcpy(out.data() + i * columns, whole.data() + column,
                static_cast<std::size_t>(columns) * sizeof(float));
  }
}

int Constant::element_bits() const {
  return static_cast<int>(element_bytes(element_)) * 8;
}

std::optional<Quantization> Constant::quantization(std::int64_t, std::int64_t) const {
  return std::nullopt;
}

std::optional<Quantization> Constant::quantization() const {
  return dims_.size() == 2 ? quantization(0, dims_[0]) : std::nullopt;
}

void Constant::read_quantized(std::int64_t, std::int64_t, std::int64_t,
                              const QuantizedRows&) const {
  LLMC_CHECK(false);
}

std::optional<std::size_t> checked_byte_count(ElementType element,
                                              std::span<const std::int64_t> dims) {
  const auto count = checked_product(dims);
  if (!count) return std::nullopt;
  const auto bytes = checked_mul(static_cast<std::uint64_t>(*count),
                                 static_cast<std::uint64_t>(element_bytes(element)));
  if (!bytes || *bytes > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return bytes;
}

ConstantPtr make_constant(ElementType element, std::vector<std::int64_t> dims,
                          std::vector<std::byte> bytes) {
  LLMC_CHECK(checked_byte_count(element, dims) == bytes.size());
  return std::make_shared<OwnedConstant>(element, std::move(dims), std::move(bytes));
}

ConstantPtr make_f32(std::vector<std::int64_t> dims, std::vector<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_constant(ElementType::kF32, std::move(dims), std::move(bytes));
}

ConstantPtr make_i64(std::vector<std::int64_t> dims, std::vector<std::int64_t> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_constant(ElementType::kI64, std::move(dims), std::move(bytes));
}

ConstantPtr make_mapped(ElementType element, std::vector<std::int64_t> dims,
                        std::shared_ptr<const void> owner, std::span<const std::byte> window,
                        std::string name) {
  LLMC_CHECK(checked_byte_count(element, dims) == window.size());
  return std::make_shared<MappedConstant>(element, std::move(dims), std::move(owner), window,
                                          std::move(name), nullptr);
}

void drop_pages(const Constant& constant) {
  if (const auto* paged = dynamic_cast<const PagedConstant*>(&constant)) paged->drop_pages();
}

ConstantPtr make_mapped_file(ElementType element, std::vector<std::int64_t> dims,
                             std::shared_ptr<const MappedFile> file,
                             std::span<const std::byte> window, std::string name) {
  LLMC_CHECK(checked_byte_count(element, dims) == window.size());
  const MappedFile* const mapped = file.get();
  return std::make_shared<MappedConstant>(element, std::move(dims), std::move(file), window,
                                          std::move(name), mapped);
}

ConstantPtr reshaped(ConstantPtr source, std::vector<std::int64_t> dims) {
  LLMC_CHECK(source && checked_byte_count(source->element(), dims) == source->byte_count());
  if (const auto* view = dynamic_cast<const ReshapedRows*>(source.get())) source = view->source();
  if (source->dims() == dims) return source;
  if (const auto* computed = dynamic_cast<const ComputedConstant*>(source.get()))
    return computed->with_dims(std::move(dims));
  if (ConstantPtr packed = reshaped_packed(source, dims)) return packed;
  // Maximum size of a constant whose text form contains its values.
  constexpr std::size_t kSmallBytes = 128;
  if (source->window().empty() && source->dims().size() == 2 && dims.size() > 2 &&
      source->dims().back() == dims.back())
    return std::make_shared<ReshapedRows>(std::move(source), std::move(dims));
  if (source->window().empty() || source->byte_count() <= kSmallBytes)
    return make_constant(source->element(), std::move(dims), source->bytes());
  return std::make_shared<ReshapedConstant>(std::move(source), std::move(dims));
}

ConstantPtr make_splat(ElementType element, std::vector<std::int64_t> dims, double value) {
  LLMC_CHECK(checked_byte_count(element, dims).has_value());
  return std::make_shared<SplatConstant>(element, std::move(dims), value);
}

ConstantPtr make_random(std::vector<std::int64_t> dims, std::uint64_t seed, double scale) {
  LLMC_CHECK(checked_byte_count(ElementType::kF32, dims).has_value());
  return std::make_shared<RandomConstant>(std::move(dims), seed, scale);
}

}  // namespace llmc::ir
