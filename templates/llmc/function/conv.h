#pragma once

#include "llmc/function/matmul.h"

/// Convolution without padding (ir::Conv) of a strided x with w[groups][rows][depth], where depth =
/// channels x taps, to a row-major y[batch][groups][rows][positions]. Each element of y is
/// accumulated over the depth in order, starting with 0: y = fma(w[r][k], x[k at the position], y).
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

/// Number of positions that are computed together: kConvPanels panels of 16 positions. The elements
/// of x for a panel are copied to [kDepthTile][16].
inline constexpr int64_t kConvPanels = 4;
inline constexpr int64_t kConvPositions = kConvPanels * kPanelColumns;

/// Up to eight successive positions of a block. `lanes` is their number, and `y` the index of the
/// first one in the block. `at` are their offsets in x; unused lanes repeat the last one. If
/// `adjacent` is set, only at[0] is set: eight elements from there on can be read, of which the
/// first `lanes` belong to the positions.
struct ConvVector {
  int64_t at[8], y, lanes;
  bool adjacent;
};

/// Sizes of a convolution; strides of x are in elements. conv() computes `block_rows` rows at a
/// time.
struct ConvSizes {
  int64_t block_rows = 0, groups = 0, channels = 0, rows = 0, depth = 0;
  int64_t x_batch = 0, x_channel = 0;
};

/// Shape of a convolution. The lists have one number for each spatial dim: positions, taps, and the
/// distances in x between adjacent positions and adjacent taps.
template <class Positions, class Taps, class Steps, class TapSteps>
struct ConvShape : ConvSizes {
  Positions positions;
  Taps taps;
  Steps steps;
  TapSteps tap_steps;

  int64_t position_count() const {
    int64_t count = 1;
    for (size_t d = 0; d < Positions::count; ++d) count *= positions.values[d];
    return count;
  }
  /// The indices of a position and its offset in x.
  struct Cursor {
    int64_t index[Positions::count], offset;
  };
  Cursor at_position(int64_t first) const {
    Cursor c{};
    for (size_t d = Positions::count; d-- > 0;) {
      c.index[d] = first % positions.values[d];
      first /= positions.values[d];
      c.offset += c.index[d] * steps.values[d];
    }
    return c;
  }
  /// Advances by `count` positions, at most to the beginning of the next row.
  LLMC_INLINE void advance(Cursor& c, int64_t count) const {
    size_t d = Positions::count - 1;
    c.index[d] += count;
    c.offset += count * steps.values[d];
    while (c.index[d] == positions.values[d] && d > 0) {
      c.offset -= c.index[d] * steps.values[d];
      c.index[d] = 0;
      ++c.index[--d];
      c.offset += steps.values[d];
    }
  }
  /// Sets the offsets in x of `count` positions from `first` on. The remaining ones of the 64
  /// offsets repeat the last one. adjacent[i] is whether the eight offsets from 8 i on are
  /// consecutive.
  void find_positions(int64_t first, int64_t count, int64_t* at, bool* adjacent) const {
    Cursor cursor = at_position(first);
    for (int64_t i = 0; i < kConvPositions; ++i) {
      at[i] = cursor.offset;
      if (i + 1 < count) advance(cursor, 1);
    }
    for (int64_t i = 0; i < kConvPositions; i += 8) {
      adjacent[i / 8] = true;
      for (int64_t j = 1; j < 8; ++j)
        if (at[i + j] != at[i] + j) adjacent[i / 8] = false;
    }
  }
  /// Divides the `count` positions from `first` on into vectors, and returns the number of vectors,
  /// at most kConvPositions. If the positions of a row are adjacent in x, a vector contains only
  /// positions of one row, because one load is faster than copies of single elements, even if some
  /// of its lanes are unused. `after` is the number of elements after those of all positions that
  /// may be read.
  int64_t find_vectors(int64_t first, int64_t count, int64_t after, ConvVector* vectors) const {
    constexpr size_t kLast = Positions::count - 1;
    int64_t last = after;
    for (size_t d = 0; d <= kLast; ++d)
      if (steps.values[d] > 0) last += (positions.values[d] - 1) * steps.values[d];
    const bool by_rows = steps.values[kLast] == 1;
    Cursor cursor = at_position(first);
    int64_t used = 0;
    for (int64_t i = 0; i < count; i += vectors[used++].lanes) {
      ConvVector& v = vectors[used];
      const int64_t of_row = by_rows ? positions.values[kLast] - cursor.index[kLast] : 8;
      const int64_t lanes = of_row < count - i ? of_row : count - i;
      v.y = i;
      v.lanes = lanes < 8 ? lanes : 8;
      v.adjacent = by_rows && cursor.offset + 7 <= last;
      v.at[0] = cursor.offset;
      if (v.adjacent) {
        advance(cursor, v.lanes);
        continue;
      }
      for (int64_t j = 0; j < 8; ++j) {
        v.at[j] = j < v.lanes ? cursor.offset : v.at[j - 1];
        if (j < v.lanes) advance(cursor, 1);
      }
    }
    return used;
  }
  /// Calls f(i, offset in x) for `count` elements of the depth from `first` on; i begins at 0. The
  /// offset is relative to the position.
  template <class F>
  LLMC_INLINE void for_each_tap(int64_t first, int64_t count, F&& f) const {
    constexpr size_t kLast = Taps::count - 1;
    int64_t index[kLast + 1], rest = first;
    for (size_t d = kLast + 1; d-- > 0;) {
      index[d] = rest % taps.values[d];
      rest /= taps.values[d];
    }
    int64_t row = rest * x_channel;
    for (size_t d = 0; d < kLast; ++d) row += index[d] * tap_steps.values[d];
    for (int64_t i = 0; i < count;) {
      for (int64_t t = index[kLast]; t < taps.values[kLast] && i < count; ++t, ++i)
        f(i, row + t * tap_steps.values[kLast]);
      index[kLast] = 0;
      size_t d = kLast;
      for (; d > 0; --d) {
        row += tap_steps.values[d - 1];
        if (++index[d - 1] < taps.values[d - 1]) break;
        row -= index[d - 1] * tap_steps.values[d - 1];
        index[d - 1] = 0;
      }
      if (d == 0) row += x_channel;
    }
  }
};

/// Returns the elements of x at the eight offsets `at`; if `adjacent`, those from at[0] on.
LLMC_INLINE F32x8 load_positions(const float* x, const int64_t* at, bool adjacent) {
  if (adjacent) return load(x + at[0]);
  float lane[8];
  for (int j = 0; j < 8; ++j) lane[j] = x[at[j]];
  return load(lane);
}

/// Calls f(x, w, y, first position, number of positions, number of rows, distance between rows of
/// y) for blocks of up to 64 positions and up to `block_rows` rows. x points to the first channel
/// of the block's group, w to the block's first row, y to its first row and position. [begin, end)
/// counts the positions of each group of `block_rows` rows once, ordered by batch, group, rows and
/// positions.
template <class Shape, class F>
LLMC_INLINE void for_each_block(const float* x, const float* w, float* y, int64_t begin,
                                int64_t end, int64_t block_rows, const Shape& s, F&& f) {
  const int64_t positions = s.position_count();
  const int64_t blocks = (s.rows + block_rows - 1) / block_rows;
  for (int64_t i = begin; i < end;) {
    const int64_t column = i % positions, row = i / positions % blocks * block_rows;
    const int64_t matrix = i / positions / blocks, group = matrix % s.groups;
    const int64_t rest = positions - column < end - i ? positions - column : end - i;
    const int64_t count = rest < kConvPositions ? rest : kConvPositions;
    const int64_t rows = s.rows - row < block_rows ? s.rows - row : block_rows;
    f(x + matrix / s.groups * s.x_batch + group * s.channels * s.x_channel,
      w + (group * s.rows + row) * s.depth, y + (matrix * s.rows + row) * positions + column,
      column, count, rows, positions);
    i += count;
  }
}

/// Computes a convolution for the range [begin, end) of for_each_block(). `panels` is
/// f32[kConvPanels][kDepthTile][16].
template <class T, class Positions, class Taps, class Steps, class TapSteps>
LLMC_NOINLINE inline void conv(const T* x, const T* w, T* y, T* panels, int64_t begin, int64_t end,
                               const ConvSizes& sizes, const Positions& positions, const Taps& taps,
                               const Steps& steps, const TapSteps& tap_steps) {
  const ConvShape<Positions, Taps, Steps, TapSteps> shape{sizes, positions, taps, steps, tap_steps};
  const int64_t depth = sizes.depth;
  int64_t at[kConvPositions];
  bool adjacent[kConvPositions / 8];
  const auto block = [&](const float* from, const float* weights, float* to, int64_t position,
                         int64_t count, int64_t m, int64_t y_row) {
    shape.find_positions(position, count, at, adjacent);
    for (int64_t first = 0; first < depth; first += kDepthTile) {
      const int64_t some = depth - first < kDepthTile ? depth - first : kDepthTile;
      const int64_t padded = (count + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
      for (int64_t column = 0; column < padded; column += 8) {
        float* panel =
            panels + column / kPanelColumns * (kDepthTile * kPanelColumns) + column % kPanelColumns;
        const int64_t* lanes = at + column;
        if (adjacent[column / 8]) {
          shape.for_each_tap(first, some, [&](int64_t k, int64_t offset) {
            store(panel + k * kPanelColumns, load(from + lanes[0] + offset));
          });
        } else {
          shape.for_each_tap(first, some, [&](int64_t k, int64_t offset) {
            for (int j = 0; j < 8; ++j) panel[k * kPanelColumns + j] = from[lanes[j] + offset];
          });
        }
      }
      for (int64_t r = 0; r < m; r += kRowTile) {
        const int64_t tile = m - r < kRowTile ? m - r : kRowTile;
        const float* a = weights + r * depth + first;
        for (int64_t column = 0; column < count; column += kPanelColumns) {
          const float* panel = panels + column * kDepthTile;
          float* out = to + r * y_row + column;
          if (count - column >= kPanelColumns) {
            product_rows<Columns::kWhole>(a, depth, panel, kPanelColumns, out, y_row, tile, some,
                                          kPanelColumns, first == 0);
          } else {
            product_rows<Columns::kPadded>(a, depth, panel, kPanelColumns, out, y_row, tile, some,
                                           count - column, first == 0);
          }
        }
      }
    }
  };
  for_each_block(x, w, y, begin, end, sizes.block_rows, shape, block);
}

/// Does the same as conv() if there are so few rows per group that copying elements of x to panels
/// would cost more than it saves. A block contains all rows of its group.
template <class T, class Positions, class Taps, class Steps, class TapSteps>
LLMC_NOINLINE inline void conv_of_few_rows(const T* x, const T* w, T* y, int64_t begin, int64_t end,
                                           const ConvSizes& sizes, const Positions& positions,
                                           const Taps& taps, const Steps& steps,
                                           const TapSteps& tap_steps) {
  const ConvShape<Positions, Taps, Steps, TapSteps> shape{sizes, positions, taps, steps, tap_steps};
  const int64_t groups = sizes.groups, rows = sizes.rows, depth = sizes.depth;
  const int64_t channels_step = sizes.x_channel > 0 ? sizes.channels * sizes.x_channel : 0;
  ConvVector vectors[kConvPositions];
  const auto block = [&](const float* from, const float* weights, float* to, int64_t position,
                         int64_t count, int64_t m, int64_t y_row) {
    constexpr int kVectors = 4;
    const int64_t groups_after = groups - 1 - (weights - w) / (rows * depth);
    const int64_t all = shape.find_vectors(position, count, groups_after * channels_step, vectors);
    for (int64_t first = 0; first < all; first += kVectors) {
      const ConvVector* v[kVectors];
      bool whole = true;
      for (int i = 0; i < kVectors; ++i) {
        v[i] = vectors + (first + i < all ? first + i : all - 1);
        if (!v[i]->adjacent) whole = false;
      }
      for (int64_t r = 0; r < m; ++r) {
        const float* a = weights + r * depth;
        F32x8 sum[kVectors];
        for (int i = 0; i < kVectors; ++i) sum[i] = zero_f32();
        if (whole) {
          const float* rows_of_x[kVectors];
          for (int i = 0; i < kVectors; ++i) rows_of_x[i] = from + v[i]->at[0];
          shape.for_each_tap(0, depth, [&](int64_t k, int64_t offset) {
            const F32x8 factor = splat(a[k]);
            for (int i = 0; i < kVectors; ++i)
              sum[i] = fma(factor, load(rows_of_x[i] + offset), sum[i]);
          });
        } else {
          shape.for_each_tap(0, depth, [&](int64_t k, int64_t offset) {
            const F32x8 factor = splat(a[k]);
            for (int i = 0; i < kVectors; ++i)
              sum[i] = fma(factor, load_positions(from + offset, v[i]->at, v[i]->adjacent), sum[i]);
          });
        }
        for (int i = 0; i < kVectors && first + i < all; ++i) {
          float* out = to + r * y_row + v[i]->y;
          if (v[i]->lanes == 8) {
            store(out, sum[i]);
          } else {
            store_partial(out, sum[i], static_cast<size_t>(v[i]->lanes));
          }
        }
      }
    }
  };
  for_each_block(x, w, y, begin, end, rows, shape, block);
}

/// Channels of a block of depthwise_conv(), whose weights remain in the L1 cache, and positions
/// that are computed together.
inline constexpr int64_t kDepthwiseChannels = 64;
inline constexpr int kDepthwisePositions = 4;

/// Computes kVectors vectors of channels at kDepthwisePositions positions, whose offsets in x are
/// `at`, and stores the first `count` positions. The last vector has `lanes` channels.
template <int kVectors, class Shape>
LLMC_INLINE void depthwise_block(const float* x, const int64_t* at, const float* w, float* y,
                                 int64_t count, size_t lanes, const Shape& s) {
  F32x8 sum[kDepthwisePositions][kVectors];
  for (int p = 0; p < kDepthwisePositions; ++p)
    for (int v = 0; v < kVectors; ++v) sum[p][v] = zero_f32();
  const auto load_vector = [&](const float* from, int v) {
    return v + 1 < kVectors || lanes == 8 ? load(from + v * 8) : load_partial(from + v * 8, lanes);
  };
  s.for_each_tap(0, s.depth, [&](int64_t k, int64_t offset) {
    F32x8 factor[kVectors];
    for (int v = 0; v < kVectors; ++v) factor[v] = load_vector(w + k * s.channels, v);
    for (int p = 0; p < kDepthwisePositions; ++p)
      for (int v = 0; v < kVectors; ++v)
        sum[p][v] = fma(factor[v], load_vector(x + at[p] + offset, v), sum[p][v]);
  });
  for (int p = 0; p < kDepthwisePositions && p < count; ++p)
    for (int v = 0; v < kVectors; ++v) {
      float* const out = y + p * s.channels + v * 8;
      if (v + 1 < kVectors || lanes == 8) {
        store(out, sum[p][v]);
      } else {
        store_partial(out, sum[p][v], lanes);
      }
    }
}

/// Computes ir::DepthwiseConv for the positions [begin, end) of all batches. x has strides, except
/// for the channels, which are adjacent; w[taps][channels] and y[batch][positions][channels] are
/// row-major. Each element of y is accumulated like those of conv().
template <class Positions, class Taps, class Steps, class TapSteps>
LLMC_NOINLINE inline void depthwise_conv(const float* x, const float* w, float* y, int64_t begin,
                                         int64_t end, const ConvSizes& sizes,
                                         const Positions& positions, const Taps& taps,
                                         const Steps& steps, const TapSteps& tap_steps) {
  const ConvShape<Positions, Taps, Steps, TapSteps> shape{sizes, positions, taps, steps, tap_steps};
  const int64_t channels = sizes.channels, all = shape.position_count();
  for (int64_t first = 0; first < channels; first += kDepthwiseChannels) {
    const int64_t rest = channels - first;
    const int64_t last = first + (rest < kDepthwiseChannels ? rest : kDepthwiseChannels);
    for (int64_t i = begin; i < end;) {
      const int64_t batch = i / all, batch_end = (batch + 1) * all < end ? (batch + 1) * all : end;
      auto cursor = shape.at_position(i % all);
      while (i < batch_end) {
        const int64_t count =
            batch_end - i < kDepthwisePositions ? batch_end - i : kDepthwisePositions;
        int64_t at[kDepthwisePositions];
        for (int64_t p = 0; p < kDepthwisePositions; ++p) {
          at[p] = p < count ? cursor.offset : at[p - 1];
          if (p < count && i + p + 1 < batch_end) shape.advance(cursor, 1);
        }
        const float* const from = x + batch * sizes.x_batch;
        float* const to = y + i * channels;
        int64_t c = first;
        for (; c + 16 <= last; c += 16)
          depthwise_block<2>(from + c, at, w + c, to + c, count, 8, shape);
        for (; c < last; c += 8)
          depthwise_block<1>(from + c, at, w + c, to + c, count,
                             last - c < 8 ? static_cast<size_t>(last - c) : 8, shape);
        i += count;
      }
    }
  }
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
