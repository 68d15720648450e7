#pragma once

#include "llmc/kernels/linear.h"

/// expert_linear<experts>(context, x, ids, slots, weight, y, bias):
///
///     y[r] = x[r] . W[ids[r]]^T + bias[ids[r]]
///
/// for the rows r of all tokens, `slots` rows for each token. W[e] and bias[e] belong to expert e;
/// `bias` may be nullptr. Without ids (nullptr), ids[r] = r mod experts. Rows are sorted by expert,
/// so that an expert's weights are read once for all of its rows, and only the weights of experts
/// that occur are read. An expert with one row is computed like a layer with one token, and one
/// with more rows like a layer with several tokens. Both ways give the same bits, so a row's result
/// does not depend on the other rows.
namespace llmc {
inline namespace LLMC_ISA {

/// Rows x[rows[0]], x[rows[1]], …
template <size_t K>
struct ChosenRows {
  static constexpr size_t kColumns = K;
  static constexpr bool kCopied = true;  // float products read copies
  const float* x;
  const uint32_t* rows;

  LLMC_INLINE const float* row(size_t token, float* buffer) const {
    __builtin_memcpy(buffer, x + rows[token] * K, K * sizeof(float));
    return buffer;
  }
};

/// y[rows[t]][n] = v
template <size_t N>
struct ChosenStore {
  static constexpr size_t kUnitPanels = 1;
  float* y;
  const uint32_t* rows;
  const float* bias;

  LLMC_INLINE void finish(const llmc_run*, size_t unit, const float* tile, size_t,
                          size_t token) const {
    store(y + rows[token] * N + unit * kPanelRows, add_bias(load(tile), bias, unit));
  }
};

/// The rows of a call, sorted by expert.
struct ExpertOrder {
  uint32_t* rows;     // [count] numbers of the rows, those of an expert in ascending order
  uint32_t* experts;  // [used] numbers of the experts that occur, ascending
  uint32_t* begins;   // [used + 1] the first of their rows in `rows`
  size_t used;
};

/// Sorts `count` rows by expert. The arrays of the result are in `memory`, which must have
/// expert_order_bytes() bytes. Ids are clamped to 0 .. kExperts - 1. If `ids` is nullptr, the
/// expert of row r is r mod kExperts.
template <size_t kExperts>
inline ExpertOrder order_by_expert(const int64_t* ids, size_t count, unsigned char* memory) {
  auto* const rows = reinterpret_cast<uint32_t*>(memory);
  ExpertOrder order{rows, rows + count, rows + count + kExperts, 0};
  uint32_t* const ends = order.begins + kExperts + 1;  // of each expert
  const auto expert_of = [ids](size_t row) LLMC_INLINE_LAMBDA {
    if (ids == nullptr) return row % kExperts;
    const int64_t id = ids[row];
    return static_cast<size_t>(id < 0                                ? 0
                               : id < static_cast<int64_t>(kExperts) ? id
                                                                     : kExperts - 1);
  };
  for (size_t e = 0; e < kExperts; ++e) ends[e] = 0;
  for (size_t row = 0; row < count; ++row) ++ends[expert_of(row)];
  uint32_t begin = 0;
  for (size_t e = 0; e < kExperts; ++e) {
    const uint32_t size = ends[e];
    ends[e] = begin;
    if (size == 0) continue;
    order.experts[order.used] = static_cast<uint32_t>(e);
    order.begins[order.used++] = begin;
    begin += size;
  }
  order.begins[order.used] = begin;
  for (size_t row = 0; row < count; ++row)
    order.rows[ends[expert_of(row)]++] = static_cast<uint32_t>(row);
  return order;
}

/// The products of a call. `used` is the index of an expert in ExpertOrder::experts.
template <WeightKind Kind, size_t N, size_t K, Basis basis>
struct ExpertProduct {
  using Matrix = Weight<Kind, N, K, basis>;
  using Source = ChosenRows<K>;
  using Input = LinearInput<Source, Matrix>;
  using Task = LinearTask<Source, Matrix, ChosenStore<N>>;
  static_assert(N % kPanelRows == 0, "a panel has rows of two experts");

  const llmc_run* run;
  const float* x;
  const unsigned char* weight;
  float* y;
  const float* bias;
  ExpertOrder order;
  unsigned char* area;  // prepared rows of all experts

  size_t row_count(size_t used) const { return order.begins[used + 1] - order.begins[used]; }
  Source source(size_t used) const { return {x, order.rows + order.begins[used]}; }
  unsigned char* input(size_t used) const {
    return area + order.begins[used] * expert_row_bytes(Kind, K);
  }

  /// Prepares row `row` of the sorted rows, which must belong to expert `used`.
  LLMC_INLINE void prepare(size_t used, size_t row, float* buffer) const {
    Input::prepare(source(used), row - order.begins[used], row_count(used), input(used), buffer);
  }
  /// Computes the given panels of an expert for all of its rows.
  LLMC_INLINE void multiply(size_t used, Range panels, float* tile) const {
    const size_t expert = order.experts[used], count = row_count(used);
    const Matrix matrix{weight + expert * Matrix::bytes};
    const ChosenStore<N> epilogue{y, order.rows + order.begins[used],
                                  bias == nullptr ? nullptr : bias + expert * N};
    const PreparedRows<Source> rows{source(used), input(used), count, 0, count};
    const Task task{run,         source(used), matrix, epilogue, count, WorkPartition(run, 1, 1),
                    input(used), nullptr};
    if constexpr (!kTiled) {
      task.reference(matrix, panels, 0, rows, tile);
    } else if (count == 1) {
      task.gemv(matrix, panels, 0, rows, tile);
    } else {
      task.several(panels, tile);
    }
  }
};

/// Distributes the preparation of the sorted rows over the workers.
template <class Product>
struct ExpertPrepareTask {
  const Product& product;
  WorkPartition partition;
  unsigned char* buffers;  // one row per worker
  size_t buffer_bytes;

  void work(size_t slot) {
    float* const buffer = reinterpret_cast<float*>(buffers + slot * buffer_bytes);
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      size_t used = 0;
      for (size_t row = range.begin; row < range.end; ++row) {
        while (row >= product.order.begins[used + 1]) ++used;
        product.prepare(used, row, buffer);
      }
    }
  }
};

/// Distributes the panels of all experts that occur over the workers.
template <class Product>
struct ExpertTask {
  const Product& product;
  WorkPartition partition;
  unsigned char* tiles;  // one per worker
  size_t tile_bytes;

  void work(size_t slot) {
    constexpr size_t kPanels = Product::Matrix::kPanels;
    float* const tile = reinterpret_cast<float*>(tiles + slot * tile_bytes);
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      while (range.begin < range.end) {
        const size_t used = range.begin / kPanels, first = range.begin % kPanels;
        const size_t left = range.end - range.begin, rest = kPanels - first;
        const size_t count = left < rest ? left : rest;
        product.multiply(used, {first, first + count}, tile);
        range.begin += count;
      }
    }
  }
};

template <size_t kExperts, WeightKind Kind, size_t N, size_t K, Basis basis>
inline void expert_linear(const KernelContext& context, const float* x, const int64_t* ids,
                          size_t slots, const Weight<Kind, N, K, basis>& weight, float* y,
                          const float* bias) {
  using Product = ExpertProduct<Kind, N / kExperts, K, basis>;
  static_assert(N % kExperts == 0, "experts have the same number of rows");
  const llmc_run* const run = context.run;
  const size_t rows = context.tokens * slots, workers = run->threads;
  constexpr size_t kBufferBytes = round_up(K * sizeof(float), kAlignment);
  const size_t tile_bytes = linear_tile_bytes(1, rows);
  unsigned char* const tiles = context.work + expert_order_bytes(rows, kExperts);
  unsigned char* const buffers = tiles + workers * tile_bytes;
  const Product product{run,
                        x,
                        weight.data,
                        y,
                        bias,
                        order_by_expert<kExperts>(ids, rows, context.work),
                        buffers + workers * kBufferBytes};
  constexpr size_t kMaxSingleWorkerRows = 16;  // at most this many rows cost less than a barrier
  ExpertPrepareTask<Product> prepare{
      product, WorkPartition(run, rows, rows <= kMaxSingleWorkerRows ? 1 : workers), buffers,
      kBufferBytes};
  for_each_worker(run, prepare);
  constexpr size_t kPanels = Product::Matrix::kPanels;
  const size_t used = product.order.used;
  const size_t per_row = used == 0 ? 0 : ceil_div(rows, used);
  const WorkPartition partition(run, used * kPanels,
                                workers_for(run, used * Product::Matrix::bytes, per_row),
                                rows > used ? kStreams : kWeightStreams);
  ExpertTask<Product> task{product, partition, tiles, tile_bytes};
  for_each_worker(run, task);
}

}  // namespace LLMC_ISA
}  // namespace llmc
