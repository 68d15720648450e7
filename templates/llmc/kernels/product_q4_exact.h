#pragma once

#include "llmc/kernels/product_q4.h"

/// Products of q4 weights with several tokens, with exact 32-bit sums per superblock
/// (kExactPanels). A code times its scale is at most 225 and fits in a byte. Unpacking a superblock
/// multiplies its codes by the scales, once for a strip of tokens, so that the inner loop consists
/// only of dot products over 256 elements. |I1| <= 256 * 225 * 127 < 2^23, so nothing overflows.
/// The superblocks are accumulated as in product_q4.h.
///
/// `Exact` is the SIMD header's ExactPanels. One kind has tiles of one panel (kPanels = 1):
///
///     kMinTokens                         tokens that min_sums() processes at a time
///     unpack(codes, scales, out)         one block's bytes; scales: even_scales(p), odd_scales(p)
///     unpack_mins(mins, blocks, out)     the mins of a superblock, 64 bytes
///     Sums, prepare<kTokens>(sums, stride, blocks, out)    a tile's block sums of activations
///     Tile<kTokens>: begin(Sums), add_block(bytes, a), rows(t) -> I32x8
///     min_sums(mins, Sums, t, I32x8 (&)[kMinTokens])
///
/// The other kind unpacks kPanelGroup adjacent panels together, for registers and tiles wider than
/// a panel (kPanels = kPanelGroup; simd/vnni_exact.h):
///
///     run(Q4ExactSource, count, rows)        products of all superblocks with a strip of tokens
///     run_few(Q4ExactSource, count, rows)    the same for few tokens (product_few.h)
namespace llmc {
inline namespace LLMC_ISA {

struct ExactPanels;

/// One unpacked superblock of a panel: codes times scales, and mins.
struct alignas(64) Q4Exact {
  uint8_t codes[kSuper * kPanelRows];
  uint8_t mins[kBlocksPerSuper * kPanelRows];
};
/// Unpacks a superblock and prefetches the one at `next`.
template <class Exact>
LLMC_INLINE void q4_exact_unpack(const uint8_t* super, size_t blocks, const uint8_t* next,
                                 Q4Exact& out) {
  const uint8_t* scales = super + q4_scale_offset(blocks);
  for (size_t b = 0; b < blocks; b += 2) {
    const uint8_t* codes = super + b * kQ4BlockCodeBytes;
    uint8_t* bytes = out.codes + b * kBlock * kPanelRows;
    for (size_t i = 0; i < 4; ++i) prefetch(next + b * kQ4BlockCodeBytes + i * 64);
    Exact::unpack(codes, Exact::even_scales(scales), bytes);
    if (b + 1 < blocks) {
      Exact::unpack(codes + kQ4BlockCodeBytes, Exact::odd_scales(scales),
                    bytes + kBlock * kPanelRows);
    }
    scales += kPanelRows;
  }
  prefetch(next + q4_scale_offset(kBlocksPerSuper));
  prefetch(next + q4_scale_offset(kBlocksPerSuper) + 64);
  Exact::unpack_mins(super + q4_min_offset(blocks), blocks, out.mins);
}

/// Adds the products of one superblock of `panels` panels with the group of kTokens tokens from
/// `token` on to y[panels][kTokens][8], where panels are y_stride floats apart.
template <class Exact, size_t kTokens>
LLMC_INLINE void q4_exact_tiles(const Q4Exact* unpacked, const uint8_t* panel, size_t panel_bytes,
                                size_t panels, size_t blocks, const Quantized& x, size_t s,
                                size_t token, float* y, size_t y_stride) {
  const size_t stride = x.tokens * kBlock;
  typename Exact::Sums sums;
  Exact::template prepare<kTokens>(x.sums + (s * (kBlocksPerSuper / 2) * x.tokens + token) * 2,
                                   x.tokens * 2, blocks, sums);
  const float* scales = x.scales + s * x.tokens + token;
  for (size_t p = 0; p < panels; ++p) {
    const uint8_t* codes = unpacked[p].codes;
    const int8_t* a = x.codes + (s * kBlocksPerSuper * x.tokens + token) * kBlock;
    typename Exact::template Tile<kTokens> tile;
    tile.begin(sums);
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks; ++b) {
      tile.add_block(codes, a);
      codes += kPanelRows * kBlock;
      a += stride;
    }
    const Q4Fold fold = q4_fold(panel + p * panel_bytes);
    float* out = y + p * y_stride;
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; t += Exact::kMinTokens) {
      I32x8 i2[Exact::kMinTokens];
      Exact::min_sums(unpacked[p].mins, sums, t, i2);
#pragma clang loop unroll(full)
      for (size_t i = 0; i < Exact::kMinTokens && t + i < kTokens; ++i) {
        float* at = out + (t + i) * kPanelRows;
        store(at, fold(load(at), scales[t + i], tile.rows(t + i), i2[i]));
      }
    }
  }
}

/// Up to kPanelGroup panels of `k` columns and their activations. Missing panels are replaced by
/// the last one, whose extra results are ignored. Superblocks are prefetched `ahead` superblocks in
/// advance, after the end of a panel those of the panel `step` bytes after it.
template <class Exact>
class Q4ExactSource {
 public:
  alignas(kAlignment) float scale[kPanelGroup * kPanelRows];  // S and M of the rows
  alignas(kAlignment) float min[kPanelGroup * kPanelRows];

  LLMC_INLINE Q4ExactSource(const PanelStreams& panels, size_t step, size_t ahead, size_t k,
                            const Quantized& x, size_t token)
      : panels_(panels), step_(step), ahead_(ahead), k_(k), x_(x), token_(token) {
    for (size_t p = 0; p < kPanelGroup; ++p) {
      const Q4Fold fold = q4_fold(at(p));
      store(scale + p * kPanelRows, fold.scale);
      store(min + p * kPanelRows, fold.min);
    }
  }
  LLMC_INLINE size_t supers() const { return super_count(k_); }
  LLMC_INLINE size_t blocks(size_t s) const { return blocks_in_super(k_, s); }
  LLMC_INLINE auto weights(size_t s) const {
    typename Exact::Weights weights;
    weights.blocks = blocks(s);
    weights.scale_offset = q4_scale_offset(weights.blocks);
    weights.min_offset = q4_min_offset(weights.blocks);
    const StreamPlace ahead = stream_place(s + ahead_, supers());
    for (size_t p = 0; p < kPanelGroup; ++p) {
      weights.supers[p] = at(p) + q4_super_offset(s);
      weights.next[p] = at(p) + ahead.panels * step_ + q4_super_offset(ahead.super);
    }
    return weights;
  }
  LLMC_INLINE auto activations(size_t s) const {
    const size_t block = s * kBlocksPerSuper, pairs = ceil_div(blocks(s), 2);
    typename Exact::Activations a;
    a.codes = activation_codes(x_, block, token_);
    a.block_stride = x_.tokens * kBlock * kActivationBlocks;
    a.scales = x_.scales + s * x_.tokens + token_;
    for (size_t pair = 0; pair < kBlocksPerSuper / 2; ++pair) {
      const size_t there = pair < pairs ? pair : 0;
      a.sums[pair] = x_.sums + ((block / 2 + there) * x_.tokens + token_) * 2;
    }
    return a;
  }

 private:
  LLMC_INLINE const uint8_t* at(size_t p) const {
    return panels_.panel(p < panels_.count ? p : panels_.count - 1);
  }
  const PanelStreams panels_;
  size_t step_, ahead_, k_;
  const Quantized& x_;
  size_t token_;
};

/// Does the same as q4_panels_tokens() for panels of `k` columns. `k` is a function argument, so
/// that all matrices of a model share the code.
template <class Exact>
LLMC_NOINLINE inline void q4_exact_group(const uint8_t* panel, size_t k, size_t panels,
                                         const Quantized x, size_t token, size_t count, float* y) {
  static_assert(Exact::kPanels == kPanelGroup, "a group is what is unpacked together");
  alignas(kAlignment) float spare[kTokenStrip * kPanelRows];
  float* rows[kPanelGroup];
  for (size_t p = 0; p < kPanelGroup; ++p) {
    rows[p] = p < panels ? y + p * count * kPanelRows : spare;
  }
  const size_t panel_bytes = q4_panel_bytes(k);
  Exact::run(
      Q4ExactSource<Exact>({panel, panel_bytes, panels}, kPanelGroup * panel_bytes, 1, k, x, token),
      count, rows);
}

/// Does the same for q4 as few_products() (product_few.h).
template <class Exact>
LLMC_NOINLINE inline void q4_exact_few(const PanelStreams streams, size_t k, const Quantized x,
                                       size_t token, size_t count, float* y, size_t y_stride) {
  static_assert(kPanelGroup == kStreams, "streams are unpacked together");
  alignas(kAlignment) float spare[kFewRows * kPanelRows];
  float* rows[kStreams];
  for (size_t p = 0; p < kStreams; ++p) rows[p] = p < streams.count ? y + p * y_stride : spare;
  Exact::run_few(Q4ExactSource<Exact>(streams, q4_panel_bytes(k), kFewSupersAhead, k, x, token),
                 count, rows);
}

/// Does the same as q4_panels_tokens(). `token` must be the first of a group of tokens
/// (quantize.h).
template <class Exact, size_t K>
LLMC_NOINLINE inline void q4_exact_panels_tokens(const uint8_t* panel, size_t panels,
                                                 const Quantized x, size_t token, size_t count,
                                                 float* y) {
  constexpr size_t kPanelBytes = q4_panel_bytes(K);
  const size_t y_stride = count * kPanelRows;
  for (size_t i = 0; i < panels * y_stride; i += kPanelRows) store(y + i, zero_f32());
  Q4Exact unpacked[kPanelGroup];
  for (size_t s = 0; s < super_count(K); ++s) {
    const uint8_t* super = panel + q4_super_offset(s);
    const size_t blocks = blocks_in_super(K, s);
    const uint8_t* next =
        s + 1 < super_count(K) ? panel + q4_super_offset(s + 1) : panel + kPanelGroup * kPanelBytes;
    for (size_t p = 0; p < panels; ++p) {
      q4_exact_unpack<Exact>(super + p * kPanelBytes, blocks, next + p * kPanelBytes, unpacked[p]);
    }
    each_strip_tile<kTokenTile>(count, [&]<size_t kTokens>(size_t t) LLMC_INLINE_LAMBDA {
      q4_exact_tiles<Exact, kTokens>(unpacked, panel, kPanelBytes, panels, blocks, x, s, token + t,
                                     y + t * kPanelRows, y_stride);
    });
  }
}

template <class Exact, size_t K>
LLMC_INLINE void q4_exact_tokens(const uint8_t* panel, size_t panels, const Quantized& x,
                                 size_t token, size_t count, float* y) {
  if constexpr (Exact::kPanels > 1) {
    q4_exact_group<Exact>(panel, K, panels, x, token, count, y);
  } else {
    q4_exact_panels_tokens<Exact, K>(panel, panels, x, token, count, y);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc
