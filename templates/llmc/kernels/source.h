#pragma once

#include "llmc/kernels/kv.h"

/// The state of an encoded source, to which the decoder of an encoder-decoder attends. For each
/// layer and KV head, it has blocks of keys and values in the layout of the KV cache (kv.h), one
/// block for each tile of attention. The blocks of a head are contiguous, so attention reads them
/// sequentially. Rows after the last row of the source are undefined.
namespace llmc {
inline namespace LLMC_ISA {

/// Shape of the state. kMaxRows is the maximum number of rows of a source.
template <size_t kHeadsV, size_t kKvHeadsV, size_t kHeadDimV, size_t kMaxRowsV, size_t kLayersV,
          KvFormats kFormatsV = KvFormats{}>
struct SourceShape
    : AttentionShape<kHeadsV, kKvHeadsV, kHeadDimV, kAttentionTile, kLayersV, kFormatsV> {
  static constexpr bool kOfSource = true;
  static constexpr size_t kMaxRows = kMaxRowsV, kBlocks = ceil_div(kMaxRows, kAttentionTile);
  /// Size in bytes of one layer of the state.
  static constexpr size_t kLayerBytes =
      source_layer_bytes(kKvHeadsV, kHeadDimV, kMaxRows, kFormatsV);
};

template <class Shape>
LLMC_INLINE KvLayer<Shape> source_layer(const llmc_segment& segment, size_t layer) {
  return {&segment.source, layer * Shape::kLayerBytes};
}

/// Stores keys and values of a source, x f32[2][kv_heads][rows][head_dim], in `layer`, a layer of
/// its state. context.tokens is the number of rows of the source.
template <class Shape>
inline void source_store(const KernelContext& context, const float* x, unsigned char* layer) {
  const size_t rows = context.tokens;
  for_each_token(context, [=](size_t t) {
    unsigned char* const blocks = layer;
    const KvLayer<Shape> state{&blocks, 0};
    float row[Shape::kPadded] = {};
    for (size_t h = 0; h < Shape::kKvHeads; ++h) {
      constexpr size_t kBytes = Shape::kHeadDim * sizeof(float);
      const float* const key = x + (h * rows + t) * Shape::kHeadDim;
      __builtin_memcpy(row, key, kBytes);
      state.store_key(h, t, row);
      __builtin_memcpy(row, key + Shape::kKvHeads * rows * Shape::kHeadDim, kBytes);
      state.store_value(h, t, row);
    }
  });
}

}  // namespace LLMC_ISA
}  // namespace llmc
