#pragma once

#include <cstddef>
#include <cstdint>

namespace llmc::bench {

/// Seconds this thread has run: what other programs take away does not count.
double now();

/// Reads `bytes` (a multiple of 64 KB) as four prefetched streams, the fastest plain read found
/// here; returns something that depends on all of them.
std::uint64_t read_all(const unsigned char* data, std::size_t bytes);

/// The q4 inner sequence with every operand in a register, `blocks` times for 6 tokens and 8 rows:
/// 8 vpmaddubsw, 7 vpaddw, vpmaddwd, vpaddd, which is 256 multiply-adds for each token.
std::uint64_t q4_sequence(std::size_t blocks);

/// vfmadd on 12 independent registers, `steps` times: 96 multiply-adds each.
float fma_sequence(std::size_t steps);

/// Seconds of the fastest of `repeats` calls of each, taken in turn, so that both meet the same
/// quiet moments of the machine.
struct Pair {
  double first, second;
};
template <class First, class Second>
Pair fastest_of(int repeats, First first, Second second) {
  Pair best{1e30, 1e30};
  for (int i = 0; i < repeats; ++i) {
    const double start = now();
    first();
    const double middle = now();
    second();
    const double end = now();
    if (middle - start < best.first) best.first = middle - start;
    if (end - middle < best.second) best.second = end - middle;
  }
  return best;
}

}  // namespace llmc::bench
