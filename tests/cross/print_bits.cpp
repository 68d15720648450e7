#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/kernels/bits.h"

/// Prints every result of the seeded kernel runs on a line: hash, tokens, threads, name. Runs on
/// the machine, or under the emulator, that the bits are compiled for.
extern "C" LlmcKernelBitsFunction llmc_kernel_bits_here;

int main() {
  unsigned char* const memory =
      static_cast<unsigned char*>(std::aligned_alloc(64, kLlmcBitsMemory));
  if (memory == nullptr) return 1;
  std::memset(memory, 0xff, kLlmcBitsMemory);
  llmc_kernel_bits_here(
      memory,
      [](void*, const LlmcKernelBits* result) {
        std::printf("%016" PRIx64 " %zu %zu %s\n", result->hash, result->tokens, result->threads,
                    result->name);
      },
      nullptr);
  std::free(memory);
  return 0;
}
