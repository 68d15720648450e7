#include "tools/llmc/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "compiler/bench/parallel_timer.h"
#include "runtime/hosted/huge_pages.h"

namespace llmc::cli {
namespace {

constexpr std::size_t kBufferBytes = 256u << 20;

using Words = std::uint64_t __attribute__((vector_size(64)));

/// Sums four streams in parallel with vectors, so that loads, not additions, determine the time,
/// even without optimization. `count`: a multiple of 32.
#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
std::uint64_t
sum(const std::uint64_t* data, std::size_t count) {
  const std::size_t part = count / 4;
  const auto* p0 = reinterpret_cast<const Words*>(data);
  const auto* p1 = reinterpret_cast<const Words*>(data + part);
  const auto* p2 = reinterpret_cast<const Words*>(data + 2 * part);
  const auto* p3 = reinterpret_cast<const Words*>(data + 3 * part);
  const Words* const end = p1;
  Words s0{}, s1{}, s2{}, s3{};
  constexpr std::ptrdiff_t kAhead = 2048 / sizeof(Words);
  while (p0 != end) {
    __builtin_prefetch(p0 + kAhead);
    __builtin_prefetch(p1 + kAhead);
    __builtin_prefetch(p2 + kAhead);
    __builtin_prefetch(p3 + kAhead);
    s0 += *p0++;
    s1 += *p1++;
    s2 += *p2++;
    s3 += *p3++;
  }
  s0 += s1 + s2 + s3;
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < sizeof(Words) / sizeof(std::uint64_t); ++i) result += s0[i];
  return result;
}

}  // namespace

std::vector<double> measure_read_bandwidth(std::uint32_t threads, std::uint32_t samples,
                                           bool huge_pages) {
  threads = std::max(threads, 1u);
  samples = std::max(samples, 1u);
  const auto buffer = hosted::Arena::allocate(kBufferBytes, huge_pages);
  if (!buffer) return {0.0};
  const std::size_t words = kBufferBytes / sizeof(std::uint64_t) / threads / 32 * 32;
  auto* const data = reinterpret_cast<std::uint64_t*>((*buffer).memory().data());

  std::atomic<std::uint64_t> sink{0};
  std::vector<char> touched(threads);
  std::vector<double> result = bench::parallel_seconds(threads, samples, [&](std::uint32_t index) {
    std::uint64_t* const part = data + index * words;
    if (touched[index] == 0)  // first touch by the thread that reads it
      std::memset(part, static_cast<int>(index + 1), words * sizeof(std::uint64_t));
    touched[index] = 1;
    sink += sum(part, words);
  });
  for (double& value : result)
    value = static_cast<double>(words * threads * sizeof(std::uint64_t)) / value;
  return result;
}

}  // namespace llmc::cli
