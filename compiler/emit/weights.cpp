#include "compiler/emit/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "compiler/ir/constant_pages.h"
#include "compiler/quant/coded.h"
#include "compiler/quant/pack.h"
#include "compiler/support/check.h"
#include "compiler/support/worker_pool.h"

namespace llmc::emit {
namespace {

using plan::PackedWeight;
using plan::WeightUse;

/// Approximate number of floats in a group of rows that is read and encoded at once. The value is
/// large enough for long reads of a transposed matrix and for the use of threads, and small enough
/// to limit memory.
constexpr std::uint64_t kGroupFloats = std::uint64_t{1} << 20;
/// Number of bytes read before the mapped pages of the model's files are released. The value is
/// small enough that few pages are resident, and large enough that the cost of new page faults is
/// negligible: a transposed matrix reads parts of every page several times.
constexpr std::uint64_t kBytesBetweenDrops = std::uint64_t{32} << 20;
/// Each thread holds a group of several megabytes. More threads would only wait for the disk.
constexpr std::size_t kMaxThreads = 16;

/// A range of packed rows of one weight.
struct Group {
  std::int64_t first = 0, count = 0;
  std::vector<float> rows;
  std::vector<float> scales, zeros;  // of weights with preserved codes; `rows` has the codes
  std::vector<std::byte> bytes;
};

/// Sets the node of each diagnostic to the weight's name, or its label if it has none.
Error named(const Error& error, const PackedWeight& weight) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& d : diagnostics) d.node = weight.name.empty() ? weight.label : weight.name;
  return Error(std::move(diagnostics));
}

void append_element(std::vector<std::byte>& out, ir::ElementType type, float value) {
  std::byte bytes[4];
  std::size_t size = sizeof value;
  if (type == ir::ElementType::kF32) {
    std::memcpy(bytes, &value, sizeof value);
  } else {
    const std::uint16_t half =
        type == ir::ElementType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(bytes, &half, size = sizeof half);
  }
  out.insert(out.end(), bytes, bytes + size);
}

/// Threads and their memory, shared by all weights of one write_weights() call.
struct Workers {
  explicit Workers(std::size_t threads) : pool(threads), groups(pool.threads()) {}
  WorkerPool pool;
  std::vector<Group> groups;
};

/// Streams one weight to the sink.
class WeightWriter {
 public:
  WeightWriter(const PackedWeight& weight, const WeightSink& sink, Workers& workers)
      : weight_(weight),
        sink_(sink),
        workers_(workers),
        columns_(static_cast<std::int64_t>(weight.columns)) {
    order_ = plan::packed_row_order(weight);
    rows_ = static_cast<std::int64_t>(order_.size());
    const bool identity = order_.size() == weight.rows;  // no padding rows
    const bool plain = weight.order == plan::RowOrder::kPlain;
    if (weight.use != WeightUse::kVector)
      source_ = identity && plain ? weight.data : ir::reorder_rows(weight.data, order_);
    const auto per_group = static_cast<std::int64_t>(kGroupFloats) / columns_;
    // A group has whole panels. For a table, that is many small rows.
    constexpr auto kPanel = static_cast<std::int64_t>(kPanelRows);
    group_rows_ = std::max<std::int64_t>(per_group / kPanel, 1) * kPanel;
  }

  Status write(const std::function<void(std::uint64_t)>& written) {
    if (weight_.use == WeightUse::kVector) return write_vector();
    std::vector<Group>& groups = workers_.groups;
    std::uint64_t read = 0;
    for (std::int64_t at = 0; at < rows_;) {
      std::size_t used = 0;
      for (; used < groups.size() && at < rows_; ++used) {
        Group& group = groups[used];
        group.first = at;
        group.count = std::min(group_rows_, rows_ - at);
        group.rows.resize(static_cast<std::size_t>(group.count * columns_));
        at += group.count;
        read += static_cast<std::uint64_t>(group.count) * row_bytes();
      }
      const Status encoded =
          workers_.pool.run(used, [&](std::size_t i) { return encode(groups[i]); });
      if (!encoded.ok()) return named(encoded.error(), weight_);
      for (std::size_t i = 0; i < used; ++i) {
        LLMC_RETURN_IF_ERROR(sink_(groups[i].bytes));
        written(groups[i].bytes.size());
      }
      if (read < kBytesBetweenDrops && at < rows_) continue;
      read = 0;
      ir::drop_pages(*weight_.data);
    }
    return ok_status();
  }

 private:
  /// Returns the bytes of one row in the model's file.
  std::uint64_t row_bytes() const {
    return static_cast<std::uint64_t>(columns_ * weight_.data->element_bits()) / 8;
  }

  /// Encodes quantized weights with their original codes.
  Status encode_codes(Group& group) const {
    const bool table = weight_.use == WeightUse::kTable;
    const CodedFormat format = table ? coded_format(weight_.table) : coded_format(weight_.matrix);
    const auto count = static_cast<std::uint64_t>(group.count);
    const std::uint64_t blocks = ceil_div(weight_.columns, format.block);
    group.scales.resize(count * blocks);
    group.zeros.resize(count * blocks);
    source_->read_quantized(group.first, group.count, format.block,
                            {group.rows, group.scales, group.zeros});
    const quant::CodedRows rows{group.rows, group.scales, group.zeros, weight_.code_low};
    const auto first = static_cast<std::uint64_t>(group.first);
    if (table) {
      group.bytes.resize(table_bytes(weight_.table, count, weight_.columns));
      return quant::pack_coded_table(format, rows, weight_.columns, first, group.bytes);
    }
    group.bytes.resize(weight_bytes(weight_.matrix, count, weight_.columns));
    return quant::pack_coded_panels(format, rows, weight_.columns, first, group.bytes);
  }

  Status encode(Group& group) const {
    const WeightKind kind = unsplit(weight_.matrix);
    LLMC_RETURN_IF_ERROR(encode_whole(group, kind));
    if (kind == weight_.matrix) return ok_status();
    std::vector<std::byte> split(
        weight_bytes(weight_.matrix, static_cast<std::size_t>(group.count), weight_.columns));
    quant::split_panels(group.bytes, weight_.columns, split);
    group.bytes = std::move(split);
    return ok_status();
  }
  /// Encodes rows as `kind`, whose codes are not split.
  Status encode_whole(Group& group, WeightKind kind) const {
    if (weight_.encoded) {
      const auto rows = static_cast<std::size_t>(group.count);
      group.bytes.resize(weight_bytes(kind, rows, weight_.columns));
      quant::pack_encoded_panels(
          *weight_.encoded, std::span(order_).subspan(static_cast<std::size_t>(group.first), rows),
          group.bytes);
      return ok_status();
    }
    if (weight_.conversion == plan::WeightConversion::kPreserved) return encode_codes(group);
    source_->read_rows(group.first, group.count, group.rows);
    const auto first = static_cast<std::uint64_t>(group.first);
    const auto count = static_cast<std::uint64_t>(group.count);
    if (weight_.use == WeightUse::kTable) {
      group.bytes.resize(table_bytes(weight_.table, count, weight_.columns));
      return quant::pack_table_rows(weight_.table, group.rows, weight_.columns, first, group.bytes);
    }
    group.bytes.resize(weight_bytes(kind, count, weight_.columns));
    return quant::pack_panels(kind, group.rows, weight_.columns, first, group.bytes);
  }

  Status write_vector() const {
    const ir::Constant& data = *weight_.data;
    LLMC_CHECK(data.element_count() == static_cast<std::int64_t>(weight_.rows * weight_.columns));
    std::vector<float> values(static_cast<std::size_t>(data.element_count()));
    if (data.dims().size() == 2) {
      data.read_rows(0, data.dims()[0], values);
    } else {
      const std::vector<double> wide = ir::to_doubles(data);
      std::ranges::transform(wide, values.begin(), [](double v) { return static_cast<float>(v); });
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      return Diagnostic{.kind = ErrorKind::kBadInput,
                        .node = weight_.name.empty() ? weight_.label : weight_.name,
                        .message = fmt::format("element {} of the weight is not finite", i),
                        .hint = "the model's file is damaged"};
    }
    std::vector<float> packed;
    packed.reserve(order_.size() * weight_.columns);
    for (const std::int64_t row : order_) {
      for (std::size_t c = 0; c < weight_.columns; ++c) {
        packed.push_back(row < 0 ? 0.0f
                                 : values[static_cast<std::size_t>(row) * weight_.columns + c]);
      }
    }
    return sink_(std::as_bytes(std::span(packed)));
  }

  const PackedWeight& weight_;
  const WeightSink& sink_;
  Workers& workers_;
  ir::ConstantPtr source_;           // rows in packed order; nullptr for kVector
  std::vector<std::int64_t> order_;  // index in the model's matrix of each packed row; -1: padding
  std::int64_t columns_ = 0, rows_ = 0, group_rows_ = 0;
};

/// Writes panels [N / 16][K][16] of a matrix that the model stores as [K, N], or as [N, K] if
/// `transposed`.
Status write_column_panels(const PackedWeight& weight, bool transposed, const WeightSink& sink) {
  constexpr std::int64_t kPanelColumns = 16;  // templates/llmc/function/matmul.h
  const ir::Constant& data = *weight.data;
  const auto k = static_cast<std::int64_t>(weight.rows);
  const auto n = static_cast<std::int64_t>(weight.columns);
  std::vector<float> block;
  std::vector<std::byte> bytes;
  for (std::int64_t column = 0; column < n; column += kPanelColumns) {
    const std::int64_t columns = std::min(kPanelColumns, n - column);
    block.resize(static_cast<std::size_t>(k * columns));
    if (transposed) {
      data.read_rows(column, columns, block);
    } else {
      data.read_block(0, k, column, columns, block);
    }
    bytes.clear();
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < kPanelColumns; ++j) {
        const std::int64_t at = transposed ? j * k + i : i * columns + j;
        append_element(bytes, data.element(),
                       j < columns ? block[static_cast<std::size_t>(at)] : 0.0f);
      }
    LLMC_RETURN_IF_ERROR(sink(bytes));
  }
  return ok_status();
}

}  // namespace

llmc_weights_header weights_header(std::uint64_t bytes, std::uint64_t hash) {
  llmc_weights_header header = {};
  std::ranges::copy(std::string_view(LLMC_WEIGHTS_MAGIC), header.magic);
  header.bytes = bytes;
  header.hash = hash;
  return header;
}

Status write_weights(const plan::Program& program, std::uint64_t bytes, const WeightSink& sink,
                     const WeightProgress& progress) {
  std::uint64_t done = 0;
  const auto written = [&](std::uint64_t more) {
    done += more;
    if (progress) progress(done, bytes);
  };
  const std::vector<std::byte> zeros(kAlignment, std::byte{0});
  const auto pad_to = [&](std::uint64_t offset) -> Status {
    LLMC_CHECK(offset >= done && offset - done < kAlignment);
    if (offset == done) return ok_status();
    const std::size_t count = offset - done;
    LLMC_RETURN_IF_ERROR(sink(std::span(zeros).first(count)));
    written(count);
    return ok_status();
  };
  Workers workers(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads));
  for (const PackedWeight& weight : program.weights) {
    LLMC_RETURN_IF_ERROR(pad_to(weight.offset));
    if (weight.use == WeightUse::kData) {
      LLMC_RETURN_IF_ERROR(sink(weight.data->bytes()));
    } else if (weight.use > WeightUse::kData) {
      const bool transposed = weight.use == WeightUse::kTransposedPanels;
      LLMC_RETURN_IF_ERROR(write_column_panels(weight, transposed, sink));
    } else {
      WeightWriter writer(weight, sink, workers);
      LLMC_RETURN_IF_ERROR(writer.write(written));
    }
    if (weight.use >= WeightUse::kVector) written(weight.bytes);
    LLMC_CHECK(done == weight.offset + weight.bytes);
  }
  return pad_to(bytes);
}

}  // namespace llmc::emit
