#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace llmc::bench {

/// Seconds this thread has run: what other programs take away does not count.
double now();

/// Reads `bytes` (64-byte aligned) as `streams` equal prefetched parts side by side; returns
/// something that depends on all of them.
std::uint64_t read_all(const unsigned char* data, std::size_t bytes, std::size_t streams);

/// The q4 inner sequence with every operand in a register, `blocks` blocks of 32 k; returns its
/// multiply-adds. AVX2: for 6 tokens and 8 rows 8 vpmaddubsw, 7 vpaddw, vpmaddwd, vpaddd. AVX-512:
/// for 24 sums of 16 rows 8 vpdpbusd.
double q4_sequence(std::size_t blocks);

/// vfmadd on 12 independent registers, `steps` times: 96 multiply-adds each.
float fma_sequence(std::size_t steps);

/// Seconds of the fastest of `repeats` calls of each, taken in turn, so that all meet the same
/// quiet moments of the machine.
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
