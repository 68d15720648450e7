#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace llmc::bench {

/// Returns the CPU time of this thread in seconds; time in which other programs run is excluded.
double now();

/// Reads `bytes` bytes from `data` (aligned to 64) as `streams` equal parts in parallel, with
/// prefetches; each part is rounded down to a multiple of 256 bytes. Returns a checksum of the
/// bytes that were read.
std::uint64_t read_all(const unsigned char* data, std::size_t bytes, std::size_t streams);

/// Runs the inner sequence of the q4 kernels for `blocks` blocks of 32 elements of k, with every
/// operand in a register, and returns the number of multiply-adds. AVX2: 8 rows and 6 tokens;
/// for each token 8 vpmaddubsw, 7 vpaddw, 1 vpmaddwd and 1 vpaddd. AVX-512: 24 sums of 16 rows; for
/// each sum 8 vpdpbusd.
double q4_sequence(std::size_t blocks);

/// Runs vfmadd on 12 independent registers `steps` times; each step is 96 multiply-adds.
float fma_sequence(std::size_t steps);

/// Returns the seconds of the fastest of `repeats` calls of each function. The functions are called
/// in turn, so that disturbances by other programs affect all of them.
template <class... Runs>
std::array<double, sizeof...(Runs)> fastest_of(int repeats, Runs... runs) {
  std::array<double, sizeof...(Runs)> best;
  best.fill(1e30);
  for (int i = 0; i < repeats; ++i) {
    std::size_t at = 0;
    const auto measure = [&](auto& run) {
      const double start = now();
      run();
      const double seconds = now() - start;
      if (seconds < best[at]) best[at] = seconds;
      ++at;
    };
    (measure(runs), ...);
  }
  return best;
}

}  // namespace llmc::bench
