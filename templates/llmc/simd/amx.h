#pragma once

#include "llmc/tiles/amx.h"

namespace llmc {
inline namespace LLMC_ISA {

// Tile size of run_few() (simd/vnni_exact.h).
inline constexpr size_t kVnniTokens = kFewTokens, kVnniVectors = 2;
inline constexpr size_t kActivationBlocks = LLMC_OPT_LEVEL == 3 ? 2 : 1;  // a tile row is 64 bytes

}  // namespace LLMC_ISA
}  // namespace llmc

#define LLMC_EXTENDS_AVX512
#include "llmc/simd/avx512.h"
#include "llmc/sizes.h"

/// The operations of simd/vec.h for AMX-INT8: the operations of AVX-512, but exact panels
/// (kernels/product_q4_exact.h) are matrix products in tiles of 16 rows of 64 bytes.
/// ExactPanels::run() configures the tiles when it begins and releases them before it returns.
namespace llmc {
inline namespace LLMC_ISA {

/// Computes squares of 32 tokens by 32 rows. The sums of a square are 2 x 2 tiles, whose operands
/// are 2 tiles of activations (16 tokens by 64 elements along K) and 2 tiles of weights (64
/// elements by 16 rows, where 4 elements of a row are adjacent). While the tile unit computes a
/// square, the vector units accumulate the previous square.
///
/// A tile product occupies one of the two ports that execute 64-byte vector instructions. Tile
/// products and vector instructions therefore hardly run in parallel, and the number of vector
/// instructions matters. To reduce it, results stay row-major until all superblocks are done, and
/// each loaded sum of activations is used for 32 rows.
struct ExactPanels : VnniPanels<VnniVector> {
  using V = VnniVector;
  static constexpr size_t kTileTokens = 16, kTileRows = 16, kRows = 2 * kTileRows;
  static_assert(kVectors == 2, "a square has two tiles of rows");

  template <class Source>
  static LLMC_INLINE void run(const Source& source, size_t count, float* const* rows) {
    Group group;
    Mins mins[2];
    Square squares[2];
    alignas(64) float y[kTokenStrip][kRows];
    for (size_t t = 0; t < count; ++t) {
      for (size_t r = 0; r < kRows; r += 8) store(y[t] + r, zero_f32());
    }
    const Fold<Source> fold{source, y};
    configure(count < kTileTokens ? count : kTileTokens);
    const size_t tiles = (count + kTileTokens - 1) / kTileTokens;
    size_t next = 0;
    for (size_t s = 0; s < source.supers(); ++s) {
      const ExactActivations x = source.activations(s);
      const ExactWeights weights = source.weights(s);
      const size_t steps = (weights.blocks + 1) / 2;
      unpack_codes(weights, group);
      unpack_mins(weights, mins[s % 2]);
      for (size_t tile = 0; tile < tiles; tile += 2) {
        Square& square = squares[next];
        const Square& before = squares[1 - next];
        const bool two = tile + 1 < tiles;
        square.begin(mins[s % 2], x, count, tile, two);
        zero();
        const int8_t* a = x.codes + square.token[0] * kTokenBytes;
        const size_t second = (square.token[1] - square.token[0]) * kTokenBytes;
        for (size_t step = 0; step < steps; ++step, a += x.block_stride) {
          _tile_loadd(6, group.codes[0][step * 16], 64);
          _tile_loadd(4, a, kTokenBytes);
          _tile_dpbsud(0, 4, 6);
          _tile_loadd(7, group.codes[1][step * 16], 64);
          _tile_dpbsud(1, 4, 7);
          fold(before, step, 0);
          if (two) {
            _tile_loadd(5, a + second, kTokenBytes);
            _tile_dpbsud(2, 5, 6);
            _tile_dpbsud(3, 5, 7);
          }
          fold(before, step, 1);
        }
        for (size_t part = steps; part < kParts; ++part) fold(before, part);
        square.store(two);
        next = 1 - next;
      }
    }
    for (size_t part = 0; part < kParts; ++part) fold(squares[1 - next], part);
    _tile_release();
    for (size_t p = 0; p < kPanels; ++p) {
      for (size_t t = 0; t < count; ++t) store(rows[p] + t * 8, load(y[t] + p * 8));
    }
  }

 private:
  /// Number of parts into which the tokens of a tile are divided. The tokens of a part are
  /// accumulated together.
  static constexpr size_t kParts = 4;

  /// Sums of two tiles of tokens by 32 rows.
  struct alignas(64) Square {
    int32_t sums[2][2][kTileTokens][kTileRows];  // [tile of tokens][vector]
    const Mins* mins;
    ExactActivations x;
    size_t token[2];                              // first token of each tile
    size_t begins[2] = {0, 0}, ends[2] = {0, 0};  // range of its tokens that no other tile contains

    LLMC_INLINE void begin(const Mins& of, const ExactActivations& activations, size_t count,
                           size_t tile, bool two) {
      mins = &of;
      x = activations;
      for (size_t i = 0; i < 2; ++i) {
        // The last tile begins earlier, so that it ends with the last token and all tiles have the
        // same size.
        const size_t at = (tile + i) * kTileTokens;
        const size_t over = count < kTileTokens         ? 0
                            : at + kTileTokens <= count ? 0
                                                        : at + kTileTokens - count;
        token[i] = at - over;
        begins[i] = over;
        ends[i] = i == 1 && !two ? 0 : count < kTileTokens ? count : kTileTokens;
      }
    }
    LLMC_INLINE void store(bool two) {
      _tile_stored(0, sums[0][0], sizeof sums[0][0][0]);
      _tile_stored(1, sums[0][1], sizeof sums[0][0][0]);
      if (two) {
        _tile_stored(2, sums[1][0], sizeof sums[0][0][0]);
        _tile_stored(3, sums[1][1], sizeof sums[0][0][0]);
      }
    }
  };

  /// Adds a square's sums to y[token][32], like Q4Fold (kernels/product_q4.h).
  template <class Source>
  struct Fold {
    static constexpr size_t kTokens = kTileTokens / kParts;
    const Source& source;
    float (*y)[kRows];

    LLMC_INLINE void operator()(const Square& square, size_t part) const {
      for (size_t tile = 0; tile < 2; ++tile) (*this)(square, part, tile);
    }
    LLMC_INLINE void operator()(const Square& square, size_t part, size_t tile) const {
      const size_t begin = part * kTokens;
      if (square.begins[tile] <= begin && begin + kTokens <= square.ends[tile]) [[likely]] {
        some<kTokens>(square, tile, begin);
      } else {
#pragma clang loop unroll(disable)
        for (size_t t = begin; t < begin + kTokens; ++t) {
          if (t >= square.begins[tile] && t < square.ends[tile]) some<1>(square, tile, t);
        }
      }
    }
    template <size_t kCount>
    LLMC_INLINE void some(const Square& square, size_t tile, size_t t) const {
      const ExactActivations& x = square.x;
      const size_t token = square.token[tile] + t;
      __m512i mins[2][kCount];
#pragma clang loop unroll(full)
      for (size_t i = 0; i < kCount; ++i) mins[0][i] = mins[1][i] = V::zero();
#pragma clang loop unroll(full)
      for (size_t pair = 0; pair < 4; ++pair) {
        const __m512i low = V::load(square.mins->pairs[0][pair]);
        const __m512i high = V::load(square.mins->pairs[1][pair]);
#pragma clang loop unroll(full)
        for (size_t i = 0; i < kCount; ++i) {
          const __m512i sums = V::splat4(x.sums[pair] + (token + i) * 2);
          mins[0][i] = V::dot_pairs(mins[0][i], low, sums);
          mins[1][i] = V::dot_pairs(mins[1][i], high, sums);
        }
      }
#pragma clang loop unroll(full)
      for (size_t v = 0; v < 2; ++v) {
        const __m512 scale = V::load_floats(source.scale + v * kTileRows);
        const __m512 min = V::load_floats(source.min + v * kTileRows);
#pragma clang loop unroll(full)
        for (size_t i = 0; i < kCount; ++i) {
          float* const at = y[token + i] + v * kTileRows;
          const __m512i sum = _mm512_load_si512(square.sums[tile][v][t + i]);
          _mm512_store_ps(
              at, V::fold(V::load_floats(at), scale, min, x.scales[token + i], sum, mins[v][i]));
        }
      }
    }
  };

  static LLMC_INLINE void zero() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  /// Tiles 0 to 5 have one row per token. Tiles 6 and 7 have one row for every 4 of 64 elements
  /// along K.
  static LLMC_INLINE void configure(size_t tokens) {
    alignas(64) struct {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {};
    } shapes;
    for (size_t i = 0; i < 8; ++i) shapes.rows[i] = static_cast<uint8_t>(i < 6 ? tokens : 16);
    _tile_loadconfig(&shapes);
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc
