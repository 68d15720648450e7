#pragma once

#include "llmc/kernels/kv.h"

/// Converts tokens of a block to and from the format of saved states. In this format, each token
/// has for each layer its keys [kv_heads][head_dim], then its values. If keys or values are codes,
/// the codes of each head are followed by their scale (keys: scale and midpoint). The format does
/// not depend on the block size or on the slot of a token in its block.
namespace llmc {
inline namespace LLMC_ISA {

/// Calls f(stored, record, bytes) for every contiguous piece of `count` tokens from slot `first`
/// on: its address in the block, its offset in the bytes of the saved tokens, and its size in
/// bytes. The loops are not unrolled, which would cost tens of kilobytes of code for a rare
/// operation.
template <class Shape, class F>
inline void for_kv_pieces(unsigned char* block, uint32_t first, uint32_t count, F f) {
  constexpr size_t kDim = Shape::kHeadDim;
  size_t record = 0;
  for (size_t slot = first; slot < first + count; ++slot) {
    for (size_t layer = 0; layer < Shape::kLayers; ++layer) {
      const KvLayer<Shape> cache = kv_layer<Shape>(&block, layer);
      for (size_t h = 0; h < Shape::kKvHeads; ++h) {
        constexpr size_t kBytes = KvLayer<Shape>::Keys::kBytes;
        unsigned char* const keys = cache.keys(h, slot) + slot % kPanelRows * kBytes;
#pragma clang loop unroll(disable) vectorize(disable)
        for (size_t d = 0; d < kDim; ++d, record += kBytes)
          f(keys + d * kPanelRows * kBytes, record, kBytes);
        if constexpr (kv_has_scale(Shape::kFormats.keys)) {
          float* const scales = cache.key_scales(h, slot) + slot % kPanelRows;
          for (size_t i = 0; i < 2; ++i, record += sizeof(float))
            f(scales + i * kPanelRows, record, sizeof(float));
        }
      }
      for (size_t h = 0; h < Shape::kKvHeads; ++h) {
        constexpr size_t kEight = kPanelRows * KvLayer<Shape>::Values::kBytes;
#pragma clang loop unroll(disable) vectorize(disable)
        for (size_t g = 0; g < kDim / kPanelRows; ++g, record += kEight)
          f(cache.values(h, g, slot), record, kEight);
        if constexpr (kDim % kPanelRows != 0) {
          constexpr size_t kBytes = kDim % kPanelRows * KvLayer<Shape>::Values::kBytes;
          f(cache.values(h, kDim / kPanelRows, slot), record, kBytes);
          record += kBytes;
        }
        if constexpr (kv_has_scale(Shape::kFormats.values)) {
          f(cache.value_scales(h, slot), record, sizeof(float));
          record += sizeof(float);
        }
      }
    }
  }
}

template <class Shape>
inline void kv_save(const unsigned char* block, uint32_t first, uint32_t count, unsigned char* to) {
  for_kv_pieces<Shape>(const_cast<unsigned char*>(block), first, count,
                       [=](const void* stored, size_t record, size_t bytes)
                           LLMC_INLINE_LAMBDA { __builtin_memcpy(to + record, stored, bytes); });
}

/// Copies `count` saved tokens to the slots from `first` on. Clears the padding dims, which a saved
/// state does not contain but kernels read.
template <class Shape>
inline void kv_load(unsigned char* block, uint32_t first, uint32_t count,
                    const unsigned char* from) {
  const float zeros[Shape::kPadded] = {};
  for (size_t layer = 0; layer < Shape::kLayers; ++layer) {
    const KvLayer<Shape> cache = kv_layer<Shape>(&block, layer);
    for (size_t slot = first; slot < first + count; ++slot) {
      for (size_t h = 0; h < Shape::kKvHeads; ++h) {
        cache.store_key(h, slot, zeros);
        cache.store_value(h, slot, zeros);
      }
    }
  }
  for_kv_pieces<Shape>(block, first, count,
                       [=](void* stored, size_t record, size_t bytes)
                           LLMC_INLINE_LAMBDA { __builtin_memcpy(stored, from + record, bytes); });
}

}  // namespace LLMC_ISA
}  // namespace llmc
