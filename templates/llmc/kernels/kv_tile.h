#pragma once

#include "llmc/kernels/kv.h"

/// Tiles: views of the 64 tokens of the cache that one step of attention processes. A column is the
/// index of a token in its tile. `Keys` and `Values` define the number format (KvNumbers); keys(),
/// values() and contiguous_tokens() define the addresses.
namespace llmc {
inline namespace LLMC_ISA {

/// Columns [begin, end) of a tile, for example those that a query sees.
struct Columns {
  size_t begin, end;
};
/// The tile that will be read next: 64 columns from `token` on, of the same head or the next one.
struct NextTile {
  size_t head = 0, token = 0;
  size_t begin = 0, count = 0;  // columns [begin, count) will be read, in whole groups of 8
  /// Whether the loops over the current tile can prefetch the next tile. For this, both tiles must
  /// be visible from their first column on and have the same block layout.
  bool in_steps = false;
};
/// The 64 keys and values of a head from `token` on, read directly from the cache.
template <class ShapeV>
struct CachedTile {
  using Shape = ShapeV;
  using Keys = typename KvLayer<Shape>::Keys;
  using Values = typename KvLayer<Shape>::Values;
  static constexpr bool kScaledKeys = kv_has_scale(Shape::kFormats.keys);
  static constexpr bool kScaledValues = kv_has_scale(Shape::kFormats.values);
  KvLayer<Shape> cache;
  size_t head, token;  // `token` is a multiple of 64
  NextTile next;

  /// Returns the group of 8 keys from `column` on, a multiple of 8: [padded dim][8].
  LLMC_INLINE const unsigned char* keys(size_t column) const {
    return cache.keys(head, token + column);
  }
  /// Returns the values of the 8 dims from 8*group on: [tokens][8], for `column` and the following
  /// columns. contiguous_tokens(column) is the number of tokens that are contiguous from `column`
  /// on.
  LLMC_INLINE const unsigned char* values(size_t group, size_t column) const {
    return cache.values(head, group, token + column);
  }
  LLMC_INLINE size_t contiguous_tokens(size_t column) const {
    return Shape::kBlockTokens - (token + column) % Shape::kBlockTokens;
  }
  /// Returns the number of columns of the next tile, from `column` on, that the loops over this
  /// tile prefetch. The four next_ functions below return their addresses.
  LLMC_INLINE size_t next_count(size_t column) const {
    return next.in_steps && column < next.count ? next.count - column : 0;
  }
  LLMC_INLINE const unsigned char* next_keys(size_t column) const {
    return cache.keys(next.head, next.token + column);
  }
  LLMC_INLINE const unsigned char* next_values(size_t group, size_t column) const {
    return cache.values(next.head, group, next.token + column);
  }
  LLMC_INLINE const float* next_key_scales(size_t column) const {
    return cache.key_scales(next.head, next.token + column);
  }
  LLMC_INLINE const float* next_value_scales(size_t column) const {
    return cache.value_scales(next.head, next.token + column);
  }
  /// Returns the scale f32[8] and midpoint f32[8] of the group of 8 keys from `column` on.
  LLMC_INLINE const float* key_scales(size_t column) const {
    return cache.key_scales(head, token + column);
  }
  /// Returns the scales f32[8] of the values of 8 tokens from `column` on, a multiple of 8.
  LLMC_INLINE const float* value_scales(size_t column) const {
    return cache.value_scales(head, token + column);
  }
};
/// A copy of a tile as floats, in a worker's memory of attention_widened_bytes(). Numbers that
/// several row tiles read are thus converted only once. Codes are not multiplied by their scales,
/// which are read from the cache.
template <class ShapeV>
struct WidenedTile {
  using Shape = ShapeV;
  using Keys = KvNumbers<KvFormat::kF32>;
  using Values = KvNumbers<KvFormat::kF32>;
  static constexpr bool kScaledKeys = CachedTile<Shape>::kScaledKeys;
  static constexpr bool kScaledValues = CachedTile<Shape>::kScaledValues;
  CachedTile<Shape> cached;
  unsigned char* memory;  // keys [8][padded dim][8], then values [padded dim / 8][64][8]

  LLMC_INLINE unsigned char* keys(size_t column) const {
    return memory + column * Shape::kPadded * sizeof(float);
  }
  LLMC_INLINE unsigned char* values(size_t group, size_t column) const {
    constexpr size_t kKeyBytes = kAttentionTile * Shape::kPadded * sizeof(float);
    return memory + kKeyBytes + (group * kAttentionTile + column) * kPanelRows * sizeof(float);
  }
  LLMC_INLINE size_t contiguous_tokens(size_t column) const { return kAttentionTile - column; }
  LLMC_INLINE const float* key_scales(size_t column) const { return cached.key_scales(column); }
  LLMC_INLINE const float* value_scales(size_t column) const { return cached.value_scales(column); }
};

/// Converts the given columns of the cached tile of `to` to floats, in whole groups of 8.
template <class Shape>
LLMC_NOINLINE inline void widen(const WidenedTile<Shape>& to, Columns columns) {
  using Keys = typename CachedTile<Shape>::Keys;
  using Values = typename CachedTile<Shape>::Values;
  for (size_t c = columns.begin / kPanelRows * kPanelRows; c < columns.end; c += kPanelRows) {
    const unsigned char* keys = to.cached.keys(c);
    float* wide = reinterpret_cast<float*>(to.keys(c));
    for (size_t d = 0; d < Shape::kPadded; ++d) {
      store(wide + d * kPanelRows, Keys::load(keys + d * kPanelRows * Keys::kBytes));
    }
    for (size_t g = 0; g < Shape::kPadded / kPanelRows; ++g) {
      const unsigned char* values = to.cached.values(g, c);
      wide = reinterpret_cast<float*>(to.values(g, c));
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kPanelRows; ++t) {
        store(wide + t * kPanelRows, Values::load(values + t * kPanelRows * Values::kBytes));
      }
    }
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
