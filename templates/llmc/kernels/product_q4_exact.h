#pragma once

#include "llmc/kernels/product_q4.h"

/// Prompts over q4 weights where a superblock's products are summed in 32 bits as they are
/// (kExactPanels): a code times its scale is at most 225, a byte. Unpacking a superblock multiplies
/// the scales in, once for a strip of tokens, and the inner loop is nothing but dot products over
/// 256 k. |I1| <= 256 * 225 * 127 < 2^23, so nothing overflows; the fold is q4's own.
///
/// `Exact` is the SIMD header's ExactPanels. One kind has tiles of one panel (kPanels = 1):
///   kMinTokens                         tokens that min_sums() does at a time
///   unpack(codes, scales, out)         one block's bytes; scales: even_scales(p), odd_scales(p)
///   unpack_mins(mins, blocks, out)     64 bytes
///   Sums, prepare<kTokens>(sums, stride, blocks, out)    a tile's block sums of activations
///   Tile<kTokens>: begin(Sums), add_block(bytes, a), rows(t) -> I32x8
///   min_sums(mins, Sums, t, I32x8 (&)[kMinTokens])
/// The other unpacks kPanelGroup panels side by side, for registers and tiles wider than a panel,
/// and does all tokens of a strip itself (kPanels = kPanelGroup; simd/vnni_exact.h):
///   Group                              a superblock of them; scale and min are the rows' S and M
///   kVectors, unpack(supers, blocks, scale_offset, min_offset, vector, Group&)
///   multiply(Group, Activations, blocks, count, first, rows)
namespace llmc {
inline namespace LLMC_ISA {

struct ExactPanels;

/// One superblock of a panel.
struct alignas(64) Q4Exact {
  uint8_t codes[kSuper * kPanelRows];
  uint8_t mins[kBlocksPerSuper * kPanelRows];
};
/// Also asks for the superblock at `next`, which arrives while this one is being used.
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

/// The group of kTokens tokens from `token` on, one superblock of `panels` panels, added to
/// y[panels][y_stride] from [token] on.
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

template <class Exact, size_t kRest>
LLMC_INLINE void q4_exact_rest(size_t rest, const Q4Exact* unpacked, const uint8_t* panel,
                               size_t panel_bytes, size_t panels, size_t blocks, const Quantized& x,
                               size_t s, size_t token, float* y, size_t y_stride) {
  if (rest == kRest) {
    q4_exact_tiles<Exact, kRest>(unpacked, panel, panel_bytes, panels, blocks, x, s, token, y,
                                 y_stride);
  } else if constexpr (kRest > 1) {
    q4_exact_rest<Exact, kRest - 1>(rest, unpacked, panel, panel_bytes, panels, blocks, x, s, token,
                                    y, y_stride);
  }
}

/// As q4_panels_tokens, of `k` columns: one function for all matrices of a model.
template <class Exact>
LLMC_NOINLINE inline void q4_exact_group(const uint8_t* panel, size_t k, size_t panels,
                                         const Quantized x, size_t token, size_t count, float* y) {
  static_assert(Exact::kPanels == kPanelGroup, "a group is what is unpacked together");
  constexpr size_t kVectorPanels = kPanelGroup / Exact::kVectors;
  const size_t panel_bytes = q4_panel_bytes(k), supers = super_count(k);
  typename Exact::Group group;
  alignas(kAlignment) float spare[kTokenStrip * kPanelRows];
  const uint8_t* from[kPanelGroup];
  float* rows[kPanelGroup];
  for (size_t p = 0; p < kPanelGroup; ++p) {
    // A panel that is not there is the last one again, whose results nobody reads.
    const bool there = p < panels;
    from[p] = panel + (there ? p : panels - 1) * panel_bytes;
    rows[p] = there ? y + p * count * kPanelRows : spare;
    const Q4Fold fold = q4_fold(from[p]);
    store(group.scale + p * kPanelRows, fold.scale);
    store(group.min + p * kPanelRows, fold.min);
    from[p] += q4_super_offset(0);
  }
  for (size_t s = 0; s < supers; ++s) {
    const size_t blocks = blocks_in_super(k, s), bytes = q4_super_bytes(kBlocksPerSuper);
    for (size_t v = 0; v < Exact::kVectors; ++v) {
      Exact::unpack(from + v * kVectorPanels, blocks, q4_scale_offset(blocks),
                    q4_min_offset(blocks), v, group);
    }
    // The next superblocks arrive while this one is being used.
    for (size_t p = 0; p < kPanelGroup; ++p) {
      from[p] += s + 1 < supers ? bytes : panel_bytes * kPanelGroup - s * bytes;
      for (size_t i = 0; i < bytes; i += 64) prefetch(from[p] + i);
    }
    const size_t pairs = ceil_div(blocks, 2);
    const int16_t* sums = x.sums + (s * (kBlocksPerSuper / 2) * x.tokens + token) * 2;
    const auto pair = [&](size_t i) { return sums + (i < pairs ? i : 0) * x.tokens * 2; };
    const typename Exact::Activations a{activation_codes(x, s * kBlocksPerSuper, token),
                                        {pair(0), pair(1), pair(2), pair(3)},
                                        x.scales + s * x.tokens + token,
                                        x.tokens * kBlock};
    Exact::multiply(group, a, blocks, count, s == 0, rows);
  }
}

/// As q4_panels_tokens. `token` begins a group of tokens (quantize.h).
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
    size_t t = 0;
    for (; t + kTokenTile <= count; t += kTokenTile) {
      q4_exact_tiles<Exact, kTokenTile>(unpacked, panel, kPanelBytes, panels, blocks, x, s,
                                        token + t, y + t * kPanelRows, y_stride);
    }
    if (t < count) {
      q4_exact_rest<Exact, kTokenTile - 1>(count - t, unpacked, panel, kPanelBytes, panels, blocks,
                                           x, s, token + t, y + t * kPanelRows, y_stride);
    }
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
