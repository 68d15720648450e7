#pragma once

#include "llmc/kernels/functions.h"
#include "llmc/kernels/kv.h"
#include "llmc/kernels/norm.h"
#include "llmc/kernels/rope.h"

/// Epilogues of linear(): operations on the product before it is stored. An epilogue defines how
/// many panels it needs at the same time (a unit), and processes one unit of one token:
///
///     finish(run, unit, tile, panel_stride, token)
///
/// where the 8 results of each panel of the unit are at tile, tile + panel_stride, …. `bias`,
/// f32[packed rows] in packed-row order or nullptr, is added to the product first.
namespace llmc {
inline namespace LLMC_ISA {

/// Returns v + bias, or v if there is no bias, so that a zero keeps its sign.
LLMC_INLINE F32x8 add_bias(F32x8 v, const float* bias, size_t panel) {
  return bias == nullptr ? v : v + load(bias + panel * kPanelRows);
}

/// y[t][n] = Fn(v)
template <size_t N, class Fn = Identity>
struct Store {
  static constexpr size_t kUnitPanels = 1;
  float* y;
  const float* bias = nullptr;

  LLMC_INLINE void finish(const llmc_run*, size_t unit, const float* tile, size_t,
                          size_t token) const {
    store_row<N>(y + token * N, unit * kPanelRows, Fn::apply(add_bias(load(tile), bias, unit)));
  }
};

/// y[t][n] = x[t][n] + Fn(v); y may be x.
template <size_t N, class Fn = Identity>
struct AddStore {
  static constexpr size_t kUnitPanels = 1;
  float* y;
  const float* x;
  const float* bias = nullptr;

  LLMC_INLINE void finish(const llmc_run*, size_t unit, const float* tile, size_t,
                          size_t token) const {
    const size_t row = token * N, n = unit * kPanelRows;
    const F32x8 v = Fn::apply(add_bias(load(tile), bias, unit));
    store_row<N>(y + row, n, load_row<N>(x + row, n) + v);
  }
};

/// x[t][n] += Fn(v)
template <size_t N, class Fn = Identity>
struct AddTo {
  static constexpr size_t kUnitPanels = 1;
  float* x;
  const float* bias = nullptr;

  LLMC_INLINE void finish(const llmc_run* run, size_t unit, const float* tile, size_t panel_stride,
                          size_t token) const {
    AddStore<N, Fn>{x, x, bias}.finish(run, unit, tile, panel_stride, token);
  }
};

/// y[t][i] = Fn(gate) * up; panels alternate gate, up (packed_gated_rows).
template <size_t I, class Fn>
struct Gated {
  static constexpr size_t kUnitPanels = gated_unit_panels();
  float* y;
  const float* bias = nullptr;

  LLMC_INLINE void finish(const llmc_run*, size_t unit, const float* tile, size_t panel_stride,
                          size_t token) const {
    const F32x8 gate = add_bias(load(tile), bias, 2 * unit);
    const F32x8 up = add_bias(load(tile + panel_stride), bias, 2 * unit + 1);
    store_row<I>(y + token * I, unit * kPanelRows, Fn::apply(gate) * up);
  }
};

/// Forces the compiler to reload an array of kCount floats from memory. Otherwise, where the floats
/// of a head are rotated, clang 19 moves them between vector registers with shuffles, which it may
/// compile incorrectly for LASX (docs/kernels.md).
template <size_t kCount>
LLMC_INLINE void keep_in_memory(float* row) {
  asm volatile("" : "+m"(*reinterpret_cast<float(*)[kCount]>(row)));
}

/// An AttentionShape, and the rotation of its q and k heads.
template <class Shape, Rotation kRotationV = Rotation{.dims = Shape::kHeadDim}>
struct QkvConfig : Shape {
  static constexpr Rotation kRotation = kRotationV;
};

/// Rotates q heads and stores them in q f32[tokens][heads][head_dim]. Rotates k heads, and stores k
/// and v heads in layer `layer` of the sequences' caches. A unit is a head. `rope` is the table of
/// cosines and sines of these tokens, f32[tokens][rotation.dims], or, if by_position is set, of all
/// positions; nullptr for no rotation.
template <class Config>
struct QkvRope {
  static constexpr size_t kUnitPanels = qkv_unit_panels(Config::kHeadDim);
  float* q;
  size_t layer;
  const float* rope = nullptr;
  const float* bias = nullptr;

  LLMC_INLINE void finish(const llmc_run* run, size_t unit, const float* tile, size_t panel_stride,
                          size_t token) const {
    float row[Config::kPadded];
    load_head(unit, tile, panel_stride, row);
    store_head(run, unit, row, token);
  }

  /// Loads a head of the product, f32[padded dim], and adds its bias.
  LLMC_INLINE void load_head(size_t unit, const float* tile, size_t panel_stride,
                             float* row) const {
    for (size_t p = 0; p < kUnitPanels; ++p) {
      store(row + p * kPanelRows,
            add_bias(load(tile + p * panel_stride), bias, unit * kUnitPanels + p));
    }
  }
  /// Rotates a head and stores it in q or in the cache.
  LLMC_INLINE void store_head(const llmc_run* run, size_t unit, float* row, size_t token) const {
    constexpr size_t kHeads = Config::kHeads, kKvHeads = Config::kKvHeads;
    keep_in_memory<Config::kPadded>(row);
    if (rope != nullptr && unit < kHeads + kKvHeads) {
      rope_row<Config::kRotation>(row, angles_of<Config::kRotation>(run, rope, token));
    }
    if (unit < kHeads) {
      __builtin_memcpy(q + (token * kHeads + unit) * Config::kHeadDim, row,
                       Config::kHeadDim * sizeof(float));
      return;
    }
    const llmc_segment& segment = segment_of(run, token);
    const KvLayer<Config> cache = kv_layer<Config>(segment.blocks, layer);
    const size_t position = segment.position + token - segment.row;
    if (unit < kHeads + kKvHeads) {
      cache.store_key(unit - kHeads, position, row);
    } else {
      cache.store_value(unit - kHeads - kKvHeads, position, row);
    }
  }
};

/// Like QkvRope, with an RMS norm of each q and k head before its rotation (Henry et al. 2020). The
/// weights are f32[head_dim].
template <class Config>
struct QkvNormRope {
  static constexpr size_t kUnitPanels = QkvRope<Config>::kUnitPanels;
  QkvRope<Config> qkv;
  const float* q_norm;
  const float* k_norm;
  float eps;

  LLMC_INLINE void finish(const llmc_run* run, size_t unit, const float* tile, size_t panel_stride,
                          size_t token) const {
    float row[Config::kPadded];
    qkv.load_head(unit, tile, panel_stride, row);
    if (unit < Config::kHeads + Config::kKvHeads) {
      const float* weight = unit < Config::kHeads ? q_norm : k_norm;
      rms_norm_row<Config::kHeadDim>(row, weight, eps, row);
    }
    qkv.store_head(run, unit, row, token);
  }
};

/// Applies an epilogue to the rows of a product, f32[tokens][N] in packed-row order, that was
/// stored with Store<N>. The result has the same bits as that of linear() with the epilogue.
template <size_t N, class Epilogue>
inline void finish_rows(const KernelContext& context, const float* product,
                        const Epilogue& epilogue) {
  constexpr size_t kUnitRows = Epilogue::kUnitPanels * kPanelRows;
  static_assert(N % kUnitRows == 0, "packed rows do not fit the epilogue");
  const llmc_run* const run = context.run;
  for_each_token(context, [=](size_t token) {
    for (size_t unit = 0; unit < N / kUnitRows; ++unit)
      epilogue.finish(run, unit, product + token * N + unit * kUnitRows, kPanelRows, token);
  });
}

}  // namespace LLMC_ISA
}  // namespace llmc
