#include "tools/llmc/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "compiler/driver/together.h"

namespace llmc::cli {
namespace {

constexpr std::size_t kBufferBytes = 256u << 20;

/// Sums a buffer in four chains, so that loads and not additions are what takes time. Vectorised by
/// the compiler for the widest set the machine has.
#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
std::uint64_t
sum(const std::uint64_t* data, std::size_t count) {
  std::uint64_t total[32] = {};
  for (std::size_t i = 0; i + 32 <= count; i += 32)
    for (std::size_t j = 0; j < 32; ++j) total[j] += data[i + j];
  std::uint64_t result = 0;
  for (std::uint64_t t : total) result += t;
  return result;
}

}  // namespace

std::vector<double> measure_read_bandwidth(std::uint32_t threads, std::uint32_t samples) {
  threads = std::max(threads, 1u);
  samples = std::max(samples, 1u);
  void* memory =
      mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {0.0};
  const std::size_t words = kBufferBytes / sizeof(std::uint64_t) / threads;
  auto* const data = static_cast<std::uint64_t*>(memory);

  std::atomic<std::uint64_t> sink{0};
  std::vector<char> touched(threads);
  std::vector<double> result = driver::seconds_together(threads, samples, [&](std::uint32_t index) {
    std::uint64_t* const part = data + index * words;
    if (touched[index] == 0)  // by the thread that reads it
      std::memset(part, static_cast<int>(index + 1), words * sizeof(std::uint64_t));
    touched[index] = 1;
    sink += sum(part, words);
  });
  for (double& value : result)
    value = static_cast<double>(words * threads * sizeof(std::uint64_t)) / value;
  munmap(memory, kBufferBytes);
  return result;
}

}  // namespace llmc::cli
