#pragma once

#include "llmc/kernels/stage.h"

/// Rotary position embedding (Su et al. 2021):  (x0, x1) -> (x0 cos - x1 sin, x1 cos + x0 sin),
/// each product and sum rounded. Pairs are (i, i + R/2), or (2i, 2i+1) if interleaved, where R is
/// the number of rotated dims (rotary_dim). The dims from R on do not change.
namespace llmc {
inline namespace LLMC_ISA {

/// The dims of a head that are rotated, and the source of their cosines and sines.
struct Rotation {
  size_t dims;               // R: the first R dims are rotated, the others do not change
  bool interleaved = false;  // pairs (2i, 2i+1)
  /// Whether cosines and sines come from a table of the model, f32[positions][R].
  bool by_position = false;
};

/// Positions of tokens that have one position each: their index in the sequence.
struct SequencePosition {
  static constexpr size_t kAxes = 1;
  static constexpr size_t axis_of(size_t) { return 0; }
  LLMC_INLINE static float position(const llmc_run* run, size_t t, size_t) {
    return static_cast<float>(position_of(run, t));
  }
};

/// Positions of tokens that have one position on each of kCount axes. The angle of pair i is
/// computed from the position on axis kAxisOf[i].
template <size_t kCount, uint8_t... kAxisOf>
struct PositionAxes {
  static constexpr size_t kAxes = kCount;
  static constexpr size_t axis_of(size_t pair) { return kPairs[pair]; }
  LLMC_INLINE static float position(const llmc_run* run, size_t t, size_t axis) {
    const llmc_segment& segment = segment_of(run, t);
    const uint32_t after = run->positions == nullptr
                               ? static_cast<uint32_t>(t) - segment.row
                               : static_cast<uint32_t>(run->positions[t * kCount + axis]);
    return static_cast<float>(segment.rotary_position + after);
  }

 private:
  static constexpr uint8_t kPairs[] = {kAxisOf...};
};

/// Writes to table[t] the cosines of R/2 angles, then their sines, where angle = float(position) *
/// frequency.
template <size_t kRotary, class Positions = SequencePosition>
inline void rope_angles(const KernelContext& context, const float* frequencies, float* table) {
  const llmc_run* run = context.run;
  for_each_token(context, [=](size_t t) {
    float* row = table + t * kRotary;
    float at[Positions::kAxes];
    for (size_t a = 0; a < Positions::kAxes; ++a) at[a] = Positions::position(run, t, a);
    for (size_t i = 0; i < kRotary / 2; ++i) {
      const SinCos value = sincos(at[Positions::axis_of(i)] * frequencies[i]);
      row[i] = value.cos;
      row[kRotary / 2 + i] = value.sin;
    }
  });
}

/// Returns the R/2 cosines and R/2 sines of row t from the table of rope_angles(), or from the
/// model's table f32[positions][R], indexed by position.
template <Rotation kRotation>
LLMC_INLINE const float* angles_of(const llmc_run* run, const float* table, size_t t) {
  return table + (kRotation.by_position ? position_of(run, t) : t) * kRotation.dims;
}

/// Rotates one head of one token in place; `angles` is the row of angles_of().
template <Rotation kRotation>
LLMC_INLINE void rope_row(float* x, const float* __restrict angles) {
  constexpr bool kInterleaved = kRotation.interleaved;
  constexpr size_t kHalf = kRotation.dims / 2;
  for (size_t i = 0; i < kHalf; ++i) {
    float& first = x[kInterleaved ? 2 * i : i];
    float& second = x[kInterleaved ? 2 * i + 1 : i + kHalf];
    const float cos = angles[i], sin = angles[kHalf + i];
    const float a = first, b = second;
    first = a * cos - b * sin;
    second = b * cos + a * sin;
  }
}

/// Rotates x f32[tokens][heads][head_dim] to y, which may be x.
template <size_t kHeads, size_t kHeadDim, Rotation kRotation>
inline void rope(const KernelContext& context, const float* x, const float* table, float* y) {
  const llmc_run* run = context.run;
  for_each_token(context, [=](size_t t) {
    float* row = y + t * kHeads * kHeadDim;
    if (x != y) __builtin_memcpy(row, x + t * kHeads * kHeadDim, kHeads * kHeadDim * sizeof(float));
    const float* angles = angles_of<kRotation>(run, table, t);
    for (size_t h = 0; h < kHeads; ++h) {
      rope_row<kRotation>(row + h * kHeadDim, angles);
    }
  });
}

}  // namespace LLMC_ISA
}  // namespace llmc
