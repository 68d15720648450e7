#pragma once

#include "llmc/kernels/stage.h"

/// The KV cache: blocks of kBlockTokens tokens, which begin with the tokens themselves (the core's)
/// and hold every layer's keys and values (sizes.h).
///   keys    [kv_heads, block/8, padded dim, 8]   eight tokens side by side
///   values  [kv_heads, padded dim/8, block, 8]   eight dims side by side
namespace llmc {
inline namespace LLMC_ISA {

template <size_t kHeadsV, size_t kKvHeadsV, size_t kHeadDimV, size_t kBlockV, size_t kLayersV>
struct AttentionShape {
  static constexpr size_t kHeads = kHeadsV, kKvHeads = kKvHeadsV, kHeadDim = kHeadDimV;
  static constexpr size_t kBlockTokens = kBlockV, kLayers = kLayersV;
  static constexpr size_t kGroup = kHeads / kKvHeads;
  static constexpr size_t kPadded = padded_dim(kHeadDim);
  static_assert(kHeads % kKvHeads == 0, "every KV head serves the same number of heads");
  static_assert(kBlockTokens % kPanelRows == 0, "a block is whole groups of 8 tokens");
};

/// One layer of a sequence's cache, addressed by position.
template <class Shape>
struct KvLayer {
  unsigned char* const* blocks;
  size_t offset;  // of the layer in a block

  LLMC_INLINE float* part(size_t position, size_t which) const {
    constexpr size_t kPart = kv_part_bytes(Shape::kKvHeads, Shape::kHeadDim, Shape::kBlockTokens);
    unsigned char* block = blocks[position / Shape::kBlockTokens];
    return reinterpret_cast<float*>(block + offset + which * kPart);
  }
  /// Group of 8 keys that `position` is in: [padded dim][8].
  LLMC_INLINE float* keys(size_t head, size_t position) const {
    const size_t group = (position % Shape::kBlockTokens) / kPanelRows;
    return part(position, 0) +
           (head * (Shape::kBlockTokens / kPanelRows) + group) * Shape::kPadded * kPanelRows;
  }
  /// Values of dims 8*group .. +8 from `position` to its block's end: [tokens][8].
  LLMC_INLINE float* values(size_t head, size_t group, size_t position) const {
    return part(position, 1) +
           ((head * (Shape::kPadded / kPanelRows) + group) * Shape::kBlockTokens +
            position % Shape::kBlockTokens) *
               kPanelRows;
  }

  /// row: f32[padded dim] with zeros past head_dim.
  LLMC_INLINE void store_key(size_t head, size_t position, const float* row) const {
    float* group = keys(head, position) + position % kPanelRows;
    for (size_t d = 0; d < Shape::kPadded; ++d) group[d * kPanelRows] = row[d];
  }
  LLMC_INLINE void store_value(size_t head, size_t position, const float* row) const {
    for (size_t g = 0; g < Shape::kPadded / kPanelRows; ++g) {
      store(values(head, g, position), load(row + g * kPanelRows));
    }
  }
};

template <class Shape>
LLMC_INLINE KvLayer<Shape> kv_layer(unsigned char* const* blocks, size_t layer) {
  return {blocks,
          kv_tokens_bytes(Shape::kBlockTokens) +
              layer * kv_layer_bytes(Shape::kKvHeads, Shape::kHeadDim, Shape::kBlockTokens)};
}

/// k, v f32[tokens][kv_heads][head_dim] into the caches of their sequences.
template <class Shape>
inline void kv_store(const Stage& stage, size_t layer, const float* k, const float* v) {
  const llmc_run* run = stage.run;
  for_each_token(stage, [=](size_t t) {
    const llmc_segment& segment = segment_of(run, t);
    const KvLayer<Shape> cache = kv_layer<Shape>(segment.blocks, layer);
    const size_t position = segment.position + t - segment.row;
    float row[Shape::kPadded] = {};
    for (size_t h = 0; h < Shape::kKvHeads; ++h) {
      const size_t from = (t * Shape::kKvHeads + h) * Shape::kHeadDim;
      __builtin_memcpy(row, k + from, Shape::kHeadDim * sizeof(float));
      cache.store_key(h, position, row);
      __builtin_memcpy(row, v + from, Shape::kHeadDim * sizeof(float));
      cache.store_value(h, position, row);
    }
  });
}

}  // namespace LLMC_ISA
}  // namespace llmc
