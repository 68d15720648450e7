#pragma once

#include "llmc/kernels/stage.h"

#if defined(LLMC_STAGE_TIMES)
#include "llmc/stage_times.h"
#endif

/// Helpers of an emitted forward pass: addresses of activations and weights.
namespace llmc {
inline namespace LLMC_ISA {

/// Returns the f32 activations at `offset` bytes of scratch.
LLMC_INLINE float* activation(const KernelContext& context, uint64_t offset) {
  return reinterpret_cast<float*>(context.run->scratch + offset);
}
/// Returns the packed rows at `offset` bytes of the weights.
LLMC_INLINE const unsigned char* packed(const KernelContext& context, uint64_t offset) {
  return context.run->weights + offset;
}
/// Returns the f32 values at `offset` bytes of the weights.
LLMC_INLINE const float* values(const KernelContext& context, uint64_t offset) {
  return reinterpret_cast<const float*>(context.run->weights + offset);
}
/// Returns the elements of type T at `offset` bytes of scratch.
template <class T>
LLMC_INLINE T* scratch(const KernelContext& context, uint64_t offset) {
  return reinterpret_cast<T*>(context.run->scratch + offset);
}
/// Returns the elements at `offset` bytes of the weights, in the model's type T.
template <class T>
LLMC_INLINE const T* data(const KernelContext& context, uint64_t offset) {
  return reinterpret_cast<const T*>(context.run->weights + offset);
}
/// Sets a result that is undefined, because an index was out of range, to NaN (float) or 0 (other
/// types). The bits are then the same on every target, and logits computed from NaN are NaN.
LLMC_INLINE void invalidate(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = __builtin_nanf("");
}
template <class T>
LLMC_INLINE void invalidate(T* values, size_t count) {
  __builtin_memset(values, 0, count * sizeof(T));
}

}  // namespace LLMC_ISA
}  // namespace llmc
