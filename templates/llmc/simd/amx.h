#pragma once

#include "llmc/simd/avx512.h"

/// The vocabulary of simd/vec.h on AMX-INT8: AVX-512's, and exact panels as products of matrices in
/// tiles of 16 rows of 64 bytes. AMX-TILE's state is the task's: configured before its first tile,
/// released behind its last.
namespace llmc {
inline namespace LLMC_ISA {

/// Sums of 32 tokens by 32 rows: 2 x 2 tiles, whose operands are 2 tiles of activations (16 tokens
/// by 64 k) and 2 of weights (64 k by 16 rows, 4 k of each together). The unit that multiplies
/// works beside the vectors' ones, so while it does 64 k of such a square, these fold a quarter of
/// the square before it and unpack a part of the next superblock.
struct ExactPanels : VnniPanels<VnniVector> {
  using V = VnniVector;
  static constexpr size_t kTileTokens = 16, kTileRows = 16;

  template <class Source>
  static LLMC_INLINE void run(const Source& source, size_t count, float* const* rows) {
    if (count <= V::kTileTokens) {
      VnniPanels::run(source, count, rows);
      return;
    }
    Group groups[2];
    Square squares[2];
    configure(count < kTileTokens ? count : kTileTokens);
    const size_t tiles = (count + kTileTokens - 1) / kTileTokens, supers = source.supers();
    unpack(source.weights(0), groups[0]);
    size_t next = 0;
    const Fold<Source> fold{source, rows};
    for (size_t s = 0; s < supers; ++s) {
      const ExactActivations x = source.activations(s);
      const Group& group = groups[s % 2];
      const size_t steps = (source.blocks(s) + 1) / 2;
      // What the unpacking of the next superblock is spread over.
      const size_t slots = (tiles + 1) / 2 * steps, blocks = s + 1 < supers ? 8 : 0;
      const ExactWeights weights = source.weights(s + 1 < supers ? s + 1 : s);
      size_t slot = 0;
      for (size_t tile = 0; tile < tiles; tile += 2) {
        Square& square = squares[next];
        const Square& before = squares[1 - next];
        const bool two = tile + 1 < tiles;
        square.begin(group, x, s == 0, count, tile, two);
        zero();
        for (size_t step = 0; step < steps; ++step, ++slot) {
          const size_t part = 4 * step / steps, end = 4 * (step + 1) / steps;
          // Loads, products and folds in turns, so that each unit finds work within the processor's
          // window.
          const int8_t* const a = x.codes + step * x.block_stride;
          _tile_loadd(6, group.codes[0][step * 16], 64);
          _tile_loadd(4, a + square.token[0] * kTokenBytes, kTokenBytes);
          _tile_dpbsud(0, 4, 6);
          fold(before, part, 0, 0);
          _tile_loadd(7, group.codes[1][step * 16], 64);
          _tile_dpbsud(1, 4, 7);
          fold(before, part, 0, 1);
          if (two) {
            _tile_loadd(5, a + square.token[1] * kTokenBytes, kTokenBytes);
            _tile_dpbsud(2, 5, 6);
          }
          fold(before, part, 1, 0);
          if (two) _tile_dpbsud(3, 5, 7);
          fold(before, part, 1, 1);
          for (size_t i = part + 1; i < end; ++i) fold(before, i);
          for (size_t b = blocks * slot / slots; b < blocks * (slot + 1) / slots; ++b) {
            unpack_block(weights, b, groups[(s + 1) % 2]);
          }
        }
        square.store(two);
        next = 1 - next;
      }
      if (blocks > 0) unpack_mins(weights, groups[(s + 1) % 2]);
    }
    for (size_t i = 0; i < 4; ++i) fold(squares[1 - next], i);
    _tile_release();
  }

 private:
  /// Sums of two tiles of tokens by 32 rows.
  struct alignas(64) Square {
    int32_t sums[2][2][kTileTokens][kTileRows];  // [tile of tokens][vector]
    const Group* group;
    ExactActivations x;
    bool first;
    size_t token[2];                     // of each tile
    size_t begins[2], ends[2] = {0, 0};  // those of its tokens that no other tile has

    LLMC_INLINE void begin(const Group& of, const ExactActivations& activations, bool nothing_there,
                           size_t count, size_t tile, bool two) {
      group = &of;
      x = activations;
      first = nothing_there;
      for (size_t i = 0; i < 2; ++i) {
        // The last tile ends with the last token, so that all have the same size.
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

  /// Quarter `part` of a square's tokens, added to the rows.
  template <class Source>
  struct Fold {
    const Source& source;
    float* const* rows;

    LLMC_INLINE void operator()(const Square& square, size_t part) const {
      for (size_t i = 0; i < 4; ++i) (*this)(square, part, i / 2, i % 2);
    }
    /// One vector of rows, tokens of one tile.
    LLMC_INLINE void operator()(const Square& square, size_t part, size_t tile, size_t v) const {
      constexpr size_t kTokens = kTileTokens / 4;
      const size_t begin = part * kTokens;
      const auto tokens = [&]<size_t kCount>(size_t t) LLMC_INLINE_LAMBDA {
        VnniPanels::fold<kCount>(rows + v * 2, square.token[tile] + t, square.group->mins[v],
                                 source.scale + v * kTileRows, source.min + v * kTileRows, square.x,
                                 square.first, [&](size_t i) LLMC_INLINE_LAMBDA {
                                   return _mm512_load_si512(square.sums[tile][v][t + i]);
                                 });
      };
      if (square.begins[tile] <= begin && begin + kTokens <= square.ends[tile]) {
        tokens.template operator()<kTokens>(begin);
      } else {
#pragma clang loop unroll(disable)
        for (size_t t = begin; t < begin + kTokens; ++t) {
          if (t >= square.begins[tile] && t < square.ends[tile]) tokens.template operator()<1>(t);
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
  /// Tiles 0 to 5 have a row for each token, 6 and 7 one for each 4 of 64 k.
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
