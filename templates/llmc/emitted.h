#pragma once

#include "llmc/kernels/stage.h"
#include "llmc/parts.h"

#if defined(LLMC_STAGE_TIMES)
extern "C" {
__attribute__((visibility("default"))) llmc::StageHook llmc_stage_hook = {};
}
#endif

/// What an emitted forward pass says besides kernel calls: where activations and weights are.
namespace llmc {
inline namespace LLMC_ISA {

/// f32 activations at `offset` bytes of scratch.
LLMC_INLINE float* activation(const Stage& stage, uint64_t offset) {
  return reinterpret_cast<float*>(stage.run->scratch + offset);
}
/// Packed rows at `offset` bytes of the weights.
LLMC_INLINE const unsigned char* packed(const Stage& stage, uint64_t offset) {
  return stage.run->weights + offset;
}
/// f32 values at `offset` bytes of the weights.
LLMC_INLINE const float* values(const Stage& stage, uint64_t offset) {
  return reinterpret_cast<const float*>(stage.run->weights + offset);
}
/// Elements of another type at `offset` bytes of scratch.
template <class T>
LLMC_INLINE T* scratch(const Stage& stage, uint64_t offset) {
  return reinterpret_cast<T*>(stage.run->scratch + offset);
}
/// Elements at `offset` bytes of the weights, as the model has them.
template <class T>
LLMC_INLINE const T* data(const Stage& stage, uint64_t offset) {
  return reinterpret_cast<const T*>(stage.run->weights + offset);
}
/// Marks a result that an index outside its tensor left undefined: the same bits on every target,
/// and NaN logits for the caller to see.
LLMC_INLINE void invalidate(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = __builtin_nanf("");
}
template <class T>
LLMC_INLINE void invalidate(T* values, size_t count) {
  __builtin_memset(values, 0, count * sizeof(T));
}

/// A stage of `part` has ended: nothing, unless times are taken.
LLMC_INLINE void finished([[maybe_unused]] Part part) {
#if defined(LLMC_STAGE_TIMES)
  if (llmc_stage_hook.end != nullptr) {
    llmc_stage_hook.end(llmc_stage_hook.user, static_cast<uint32_t>(part));
  }
#endif
}

}  // namespace LLMC_ISA
}  // namespace llmc
