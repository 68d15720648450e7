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
/// report(user, result) for each. All are the same source, compiled for a target and a level
/// (without a number: 3) as an emitted library is; the build names them with LLMC_KERNEL_BITS.
/// Levels 1 and 2 run every kernel for some of level 3's numbers of tokens and threads.
using LlmcKernelBitsFunction = void(unsigned char* memory,
                                    void (*report)(void*, const LlmcKernelBits*), void* user);
LlmcKernelBitsFunction llmc_kernel_bits_generic, llmc_kernel_bits_generic_1, llmc_kernel_bits_avx2,
    llmc_kernel_bits_avx2_2, llmc_kernel_bits_avxvnni, llmc_kernel_bits_avx512,
    llmc_kernel_bits_avx512_2, llmc_kernel_bits_amx;
}

inline constexpr size_t kLlmcBitsMemory = size_t{64} << 20;
