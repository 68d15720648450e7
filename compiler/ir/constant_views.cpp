#include <algorithm>
#include <cstring>
#include <utility>

#include "compiler/ir/constant.h"
#include "compiler/ir/constant_data.h"
#include "compiler/ir/constant_pages.h"
#include "compiler/support/checked_math.h"

/// Lazy rank-2 rearrangements, and products with a number. All of them implement read_block by
/// reading blocks of their sources. Nested views of a mapped matrix therefore read each byte about
/// once, in any order of reads.
namespace llmc::ir {
namespace {

class ViewConstant : public Constant, public PagedConstant {
 public:
  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    read_block(begin, count, 0, matrix_columns(*this), out);
  }

 protected:
  using Constant::Constant;
};

/// Returns the part of `out` for its rows [at, at + count).
QuantizedRows rows_part(const QuantizedRows& out, std::int64_t at, std::int64_t count,
                        std::int64_t width, std::int64_t blocks) {
  const auto part = [&](std::span<float> span, std::int64_t row) {
    return span.empty() ? span
                        : span.subspan(static_cast<std::size_t>(at * row),
                                       static_cast<std::size_t>(count * row));
  };
  return {part(out.codes, width), part(out.scales, blocks), part(out.zeros, blocks)};
}

class TransposedConstant final : public ViewConstant {
 public:
  explicit TransposedConstant(ConstantPtr source)
      : ViewConstant(source->element(), {source->dims()[1], source->dims()[0]}),
        source_(std::move(source)) {}

  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    check_block(*this, row, rows, column, columns, out.size());
    // Rows and columns of a tile. Source and destination tile fit the L1 cache together.
    constexpr std::int64_t kTile = 64;
    std::vector<float> tile(static_cast<std::size_t>(kTile * std::min(rows, kTile)));
    for (std::int64_t j = 0; j < columns; j += kTile) {
      const std::int64_t n = std::min(kTile, columns - j);
      for (std::int64_t i = 0; i < rows; i += kTile) {
        const std::int64_t m = std::min(kTile, rows - i);
        source_->read_block(column + j, n, row + i, m, tile);
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t c = 0; c < n; ++c)
            out[static_cast<std::size_t>((i + r) * columns + j + c)] =
                tile[static_cast<std::size_t>(c * m + r)];
      }
    }
  }
  std::vector<std::byte> bytes() const override {
    const auto source = source_->bytes();
    const std::size_t size = element_bytes(element());
    const auto rows = static_cast<std::size_t>(dims()[0]);
    const auto columns = static_cast<std::size_t>(dims()[1]);
    std::vector<std::byte> out(source.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        std::memcpy(out.data() + (i * columns + j) * size, source.data() + (j * rows + i) * size,
                    size);
    return out;
  }
  void drop_pages() const override { ir::drop_pages(*source_); }
  int element_bits() const override { return source_->element_bits(); }
  std::string describe() const override { return "transposed(" + typed_text(*source_) + ")"; }
  const ConstantPtr& source() const { return source_; }

 private:
  ConstantPtr source_;
};

class ConcatConstant final : public ViewConstant {
 public:
  ConcatConstant(std::int64_t rows, std::vector<ConstantPtr> sources)
      : ViewConstant(sources[0]->element(), {rows, sources[0]->dims()[1]}),
        sources_(std::move(sources)) {}

  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    check_block(*this, row, rows, column, columns, out.size());
    for_sources(
        row, rows,
        [&](const Constant& source, std::int64_t from, std::int64_t count, std::int64_t at) {
          source.read_block(from, count, column, columns,
                            out.subspan(static_cast<std::size_t>(at * columns)));
        });
  }
  std::optional<Quantization> quantization(std::int64_t begin, std::int64_t end) const override {
    std::optional<Quantization> all;
    bool possible = true;
    for_sources(begin, end - begin,
                [&](const Constant& source, std::int64_t row, std::int64_t rows, std::int64_t) {
                  const auto part = source.quantization(row, row + rows);
                  if (!part) possible = false;
                  if (!part || !possible) return;
                  all = all ? merged(*all, *part) : *part;
                });
    return possible ? all : std::nullopt;
  }
  void read_quantized(std::int64_t row, std::int64_t rows, std::int64_t block,
                      const QuantizedRows& out) const override {
    const std::int64_t width = dims()[1], blocks = (width + block - 1) / block;
    for_sources(
        row, rows,
        [&](const Constant& source, std::int64_t from, std::int64_t count, std::int64_t at) {
          source.read_quantized(from, count, block, rows_part(out, at, count, width, blocks));
        });
  }
  std::vector<std::byte> bytes() const override {
    std::vector<std::byte> out;
    for (const auto& source : sources_) {
      const auto part = source->bytes();
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }
  void drop_pages() const override {
    for (const auto& source : sources_) ir::drop_pages(*source);
  }
  std::string describe() const override {
    std::string out = "concat(";
    for (std::size_t i = 0; i < sources_.size(); ++i)
      out += (i > 0 ? ", " : "") + typed_text(*sources_[i]);
    return out + ")";
  }

 private:
  /// Calls visit(source, first row in it, number of rows, offset from `row`) for each source that
  /// overlaps rows [row, row + rows), in order.
  template <class Visit>
  void for_sources(std::int64_t row, std::int64_t rows, Visit visit) const {
    std::int64_t first = 0;  // the source's first row in the result
    for (const auto& source : sources_) {
      const std::int64_t begin = std::max(row, first);
      const std::int64_t end = std::min(row + rows, first + source->dims()[0]);
      if (begin < end) visit(*source, begin - first, end - begin, begin - row);
      first += source->dims()[0];
    }
  }

  std::vector<ConstantPtr> sources_;
};

class ReorderedConstant final : public ViewConstant {
 public:
  ReorderedConstant(ConstantPtr source, std::vector<std::int64_t> order)
      : ViewConstant(source->element(),
                     {static_cast<std::int64_t>(order.size()), source->dims()[1]}),
        source_(std::move(source)),
        order_(std::move(order)) {}

  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    check_block(*this, row, rows, column, columns, out.size());
    for_runs(row, rows, [&](std::int64_t from, std::int64_t count, std::int64_t at) {
      const auto part = out.subspan(static_cast<std::size_t>(at * columns),
                                    static_cast<std::size_t>(count * columns));
      if (from < 0) {
        std::fill(part.begin(), part.end(), 0.0f);
      } else {
        source_->read_block(from, count, column, columns, part);
      }
    });
  }
  std::optional<Quantization> quantization(std::int64_t begin, std::int64_t end) const override {
    std::optional<Quantization> all;
    bool possible = true;
    for_runs(begin, end - begin, [&](std::int64_t from, std::int64_t count, std::int64_t) {
      if (from < 0 || !possible) return;
      const auto part = source_->quantization(from, from + count);
      if (part) all = all ? merged(*all, *part) : *part;
      possible = part.has_value();
    });
    return possible ? all : std::nullopt;
  }
  ConstantPtr source_of_floats() const override {
    ConstantPtr codes = source_->source_of_floats();
    return codes ? reorder_rows(std::move(codes), order_) : nullptr;
  }
  void read_quantized(std::int64_t row, std::int64_t rows, std::int64_t block,
                      const QuantizedRows& out) const override {
    const std::int64_t width = dims()[1], blocks = (width + block - 1) / block;
    for_runs(row, rows, [&](std::int64_t from, std::int64_t count, std::int64_t at) {
      const QuantizedRows part = rows_part(out, at, count, width, blocks);
      if (from >= 0) return source_->read_quantized(from, count, block, part);
      for (const auto span : {part.codes, part.scales, part.zeros})
        std::fill(span.begin(), span.end(), 0.0f);
    });
  }
  std::vector<std::byte> bytes() const override {
    const auto source = source_->bytes();
    const std::size_t row_bytes = static_cast<std::size_t>(dims()[1]) * element_bytes(element());
    std::vector<std::byte> out(byte_count());
    for (std::size_t i = 0; i < order_.size(); ++i)
      if (order_[i] >= 0 && row_bytes > 0)
        std::memcpy(out.data() + i * row_bytes,
                    source.data() + static_cast<std::size_t>(order_[i]) * row_bytes, row_bytes);
    return out;
  }
  void drop_pages() const override { ir::drop_pages(*source_); }
  std::string describe() const override {
    std::string out = "rows(" + typed_text(*source_) + ", [";
    for (std::size_t i = 0; i < order_.size(); ++i)
      out += (i > 0 ? ", " : "") + std::to_string(order_[i]);
    return out + "])";
  }

 private:
  /// Calls visit(first row in the source or -1, number of rows, offset from `row`) for each run of
  /// adjacent source rows in rows [row, row + rows).
  template <class Visit>
  void for_runs(std::int64_t row, std::int64_t rows, Visit visit) const {
    for (std::int64_t i = 0; i < rows;) {
      const std::int64_t from = order_[static_cast<std::size_t>(row + i)];
      std::int64_t run = 1;
      while (i + run < rows &&
             order_[static_cast<std::size_t>(row + i + run)] == (from < 0 ? from : from + run))
        ++run;
      visit(from, run, i);
      i += run;
    }
  }

  ConstantPtr source_;
  std::vector<std::int64_t> order_;
};

class FloatsConstant final : public ViewConstant {
 public:
  explicit FloatsConstant(ConstantPtr source)
      : ViewConstant(source->element(), source->dims()), source_(std::move(source)) {}

  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    source_->read_block(row, rows, column, columns, out);
  }
  std::vector<std::byte> bytes() const override { return source_->bytes(); }
  ConstantPtr source_of_floats() const override { return source_; }
  void drop_pages() const override { ir::drop_pages(*source_); }
  int element_bits() const override { return source_->element_bits(); }
  std::string describe() const override { return "floats(" + typed_text(*source_) + ")"; }

 private:
  ConstantPtr source_;
};

class ScaledConstant final : public ViewConstant {
 public:
  ScaledConstant(ConstantPtr source, float factor)
      : ViewConstant(ElementType::kF32, source->dims()),
        source_(std::move(source)),
        factor_(factor) {}

  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    check_block(*this, row, rows, column, columns, out.size());
    source_->read_block(row, rows, column, columns, out);
    for (float& x : out.first(static_cast<std::size_t>(rows * columns))) x *= factor_;
  }
  std::vector<std::byte> bytes() const override {
    std::vector<float> values = to_floats(*source_);
    for (float& x : values) x *= factor_;
    const auto all = std::as_bytes(std::span(values));
    return {all.begin(), all.end()};
  }
  void drop_pages() const override { ir::drop_pages(*source_); }
  std::string describe() const override {
    return "scaled(" + typed_text(*source_) + ", " + number_text(static_cast<double>(factor_)) +
           ")";
  }

 private:
  ConstantPtr source_;
  float factor_;
};

}  // namespace

ConstantPtr scaled(ConstantPtr matrix, float factor) {
  LLMC_CHECK(matrix && matrix->dims().size() == 2);
  if (auto quantized = scaled_rows(matrix, std::span(&factor, 1))) return quantized;
  return std::make_shared<ScaledConstant>(std::move(matrix), factor);
}

bool has_quantized_rows(const Constant& constant) {
  if (constant.dims().size() != 2) return false;
  if (constant.quantization()) return true;
  for (std::int64_t row = 0; row < constant.dims()[0]; ++row)
    if (constant.quantization(row, row + 1)) return true;
  return false;
}

ConstantPtr as_floats(ConstantPtr matrix) {
  LLMC_CHECK(matrix && matrix->dims().size() == 2);
  if (!has_quantized_rows(*matrix)) return matrix;
  return std::make_shared<FloatsConstant>(std::move(matrix));
}

ConstantPtr transposed(ConstantPtr source) {
  LLMC_CHECK(source && source->dims().size() == 2);
  if (const auto* twice = dynamic_cast<const TransposedConstant*>(source.get()))
    return twice->source();
  if (auto quantized = transposed_quantized(source)) return quantized;
  return std::make_shared<TransposedConstant>(std::move(source));
}

ConstantPtr concat_rows(std::vector<ConstantPtr> sources) {
  LLMC_CHECK(!sources.empty());
  std::int64_t rows = 0;
  for (const auto& source : sources) {
    LLMC_CHECK(source && source->dims().size() == 2);
    LLMC_CHECK(source->element() == sources[0]->element());
    LLMC_CHECK(source->dims()[1] == sources[0]->dims()[1]);
    LLMC_CHECK(!__builtin_add_overflow(rows, source->dims()[0], &rows));
  }
  return std::make_shared<ConcatConstant>(rows, std::move(sources));
}

ConstantPtr reorder_rows(ConstantPtr source, std::vector<std::int64_t> order) {
  LLMC_CHECK(source && source->dims().size() == 2);
  for (const std::int64_t row : order) LLMC_CHECK(row >= -1 && row < source->dims()[0]);
  return std::make_shared<ReorderedConstant>(std::move(source), std::move(order));
}

}  // namespace llmc::ir
