#pragma once

#include "llmc/kernels/kv_codes.h"
#include "llmc/kernels/stage.h"

/// The KV cache: blocks of kBlockTokens tokens. A block begins with the token ids and mirostat's
/// states (used by the core), followed by every layer's keys and values, each in its own format
/// (sizes.h, quant/kv.h).
///
///     keys    [kv_heads, block/8, padded dim, 8]   eight tokens adjacent
///     values  [kv_heads, padded dim/8, block, 8]   eight dims adjacent
///
/// K and V of a stored token do not depend on later tokens of its sequence, except in models whose
/// rotation depends on the length of the text (llmc_segment.last). Slots of tokens that are not
/// stored yet are undefined.
namespace llmc {
inline namespace LLMC_ISA {

template <size_t kHeadsV, size_t kKvHeadsV, size_t kHeadDimV, size_t kBlockV, size_t kLayersV,
          KvFormats kFormatsV = KvFormats{}>
struct AttentionShape {
  static constexpr size_t kHeads = kHeadsV, kKvHeads = kKvHeadsV, kHeadDim = kHeadDimV;
  static constexpr size_t kBlockTokens = kBlockV, kLayers = kLayersV;
  static constexpr size_t kGroup = kHeads / kKvHeads;
  static constexpr size_t kPadded = padded_dim(kHeadDim);
  static constexpr KvFormats kFormats = kFormatsV;
  static constexpr bool kOfSource = false;
  static_assert(kHeads % kKvHeads == 0, "every KV head serves the same number of heads");
  static_assert(kBlockTokens % kPanelRows == 0, "a block is whole groups of 8 tokens");
};

/// One layer of a sequence's cache, addressed by position. For a source (source.h), *blocks is the
/// state of the source, in which the blocks of each KV head are contiguous.
template <class Shape>
struct KvLayer {
  static constexpr KvFormat kKeys = Shape::kFormats.keys, kValues = Shape::kFormats.values;
  using Keys = KvNumbers<kKeys>;
  using Values = KvNumbers<kValues>;
  static constexpr size_t kBlockHeads = Shape::kOfSource ? 1 : Shape::kKvHeads;
  static constexpr size_t kKeyBytes =
      kv_key_bytes(kKeys, kBlockHeads, Shape::kHeadDim, Shape::kBlockTokens);
  /// Size of this layer's part of a block; for a source, whose blocks belong to one head, the size
  /// of a block.
  static constexpr size_t kPartBytes =
      kv_layer_bytes(kBlockHeads, Shape::kHeadDim, Shape::kBlockTokens, Shape::kFormats);
  /// Size of the values without scales, and of the padding after their scales.
  static constexpr size_t kCodeBytes =
      kBlockHeads * Shape::kPadded * Shape::kBlockTokens * Values::kBytes;
  static constexpr size_t kPaddingBytes =
      kv_has_scale(kValues)
          ? kPartBytes - kKeyBytes - kCodeBytes - kBlockHeads * Shape::kBlockTokens * sizeof(float)
          : 0;

  unsigned char* const* blocks;
  size_t offset;  // offset of the layer in a block, in bytes

  /// Returns this layer's part of the block that contains `position` (and, for a source, belongs to
  /// `head`): keys, then values.
  LLMC_INLINE unsigned char* part(size_t head, size_t position) const {
    const size_t block = position / Shape::kBlockTokens;
    if constexpr (Shape::kOfSource)
      return *blocks + offset + (head * Shape::kBlocks + block) * kPartBytes;
    return blocks[block] + offset;
  }
  /// Returns the index of `head` among the heads in a block.
  static LLMC_INLINE size_t in_block(size_t head) { return Shape::kOfSource ? 0 : head; }
  /// Returns the group of 8 keys that contains `position`: [padded dim][8].
  LLMC_INLINE unsigned char* keys(size_t head, size_t position) const {
    const size_t group = (position % Shape::kBlockTokens) / kPanelRows;
    return part(head, position) + (in_block(head) * (Shape::kBlockTokens / kPanelRows) + group) *
                                      kv_key_group_bytes(kKeys, Shape::kHeadDim);
  }
  /// If keys are codes, returns the scale f32[8] and midpoint f32[8] of the group of `position`.
  LLMC_INLINE float* key_scales(size_t head, size_t position) const {
    return reinterpret_cast<float*>(keys(head, position) +
                                    Shape::kPadded * kPanelRows * Keys::kBytes);
  }
  /// Returns the values of the 8 dims from 8*group on, for the tokens from `position` to the end of
  /// its block: [tokens][8].
  LLMC_INLINE unsigned char* values(size_t head, size_t group, size_t position) const {
    return part(head, position) + kKeyBytes +
           ((in_block(head) * (Shape::kPadded / kPanelRows) + group) * Shape::kBlockTokens +
            position % Shape::kBlockTokens) *
               kPanelRows * Values::kBytes;
  }
  /// If values are codes, returns the scales of the tokens from `position` to the end of its block:
  /// f32[tokens].
  LLMC_INLINE float* value_scales(size_t head, size_t position) const {
    return reinterpret_cast<float*>(part(head, position) + kKeyBytes + kCodeBytes) +
           in_block(head) * Shape::kBlockTokens + position % Shape::kBlockTokens;
  }

  /// Stores a key, f32[padded dim] with zeros from head_dim on.
  LLMC_INLINE void store_key(size_t head, size_t position, const float* row) const {
    alignas(kAlignment) unsigned char numbers[Shape::kPadded * Keys::kBytes];
    if constexpr (kKeys == KvFormat::kInt8) {
      const KvScale scale = quantize_keys<Shape::kHeadDim>(row, numbers);
      float* scales = key_scales(head, position) + position % kPanelRows;
      scales[0] = scale.scale;
      scales[kPanelRows] = scale.midpoint;
    } else {
      store_numbers<kKeys, Shape::kPadded>(row, numbers);
    }
    unsigned char* group = keys(head, position) + position % kPanelRows * Keys::kBytes;
    for (size_t d = 0; d < Shape::kPadded; ++d) {
      __builtin_memcpy(group + d * kPanelRows * Keys::kBytes, numbers + d * Keys::kBytes,
                       Keys::kBytes);
    }
  }
  LLMC_INLINE void store_value(size_t head, size_t position, const float* row) const {
    alignas(kAlignment) unsigned char numbers[Shape::kPadded * Values::kBytes];
    if constexpr (kv_has_scale(kValues)) {
      *value_scales(head, position) = quantize_values<kValues, Shape::kHeadDim>(row, numbers);
      // Clear the padding of the scales, so that equal tokens give equal blocks.
      if (kPaddingBytes > 0 && in_block(head) == 0 && position % Shape::kBlockTokens == 0) {
        __builtin_memset(part(head, position) + kPartBytes - kPaddingBytes, 0, kPaddingBytes);
      }
    } else {
      store_numbers<kValues, Shape::kPadded>(row, numbers);
    }
    constexpr size_t kEight = kPanelRows * Values::kBytes;
    for (size_t g = 0; g < Shape::kPadded / kPanelRows; ++g) {
      __builtin_memcpy(values(head, g, position), numbers + g * kEight, kEight);
    }
  }
};

template <class Shape>
LLMC_INLINE KvLayer<Shape> kv_layer(unsigned char* const* blocks, size_t layer) {
  return {blocks, kv_tokens_bytes(Shape::kBlockTokens) + layer * KvLayer<Shape>::kPartBytes};
}

/// Stores k and v, f32[tokens][kv_heads][head_dim], in the caches of their sequences.
template <class Shape>
inline void kv_store(const KernelContext& context, size_t layer, const float* k, const float* v) {
  const llmc_run* run = context.run;
  for_each_token(context, [=](size_t t) {
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
