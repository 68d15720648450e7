#pragma once

#include <stddef.h>
#include <stdint.h>

/// One result of the seeded runs: what was computed and FNV-1a of its bytes.
struct LlmcKernelBits {
  const char* name;
  size_t tokens, threads;
  uint64_t hash;
};

extern "C" {
/// Runs every kernel on seeded inputs in `memory` (64-byte aligned, kLlmcBitsMemory bytes), calls
/// report(user, result) for each. The two are the same source compiled for two targets, as an
/// emitted library is.
void llmc_kernel_bits_generic(unsigned char* memory, void (*report)(void*, const LlmcKernelBits*),
                              void* user);
void llmc_kernel_bits_avx2(unsigned char* memory, void (*report)(void*, const LlmcKernelBits*),
                           void* user);
}

inline constexpr size_t kLlmcBitsMemory = size_t{64} << 20;
