#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/bench/kernel_bench.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

/// Finding a target's tiles by trying them: how many tokens and panels a kernel computes together
/// changes its speed and never its bits.
namespace llmc::bench {

/// A number of a tile header (templates/llmc/tiles/TARGET.h): "kTokenTile", 6.
struct TileConstant {
  std::string name;
  std::uint32_t value = 0;
};
using Tiles = std::vector<TileConstant>;

/// The numbers of a tile header, in its order. kInternal when it has none.
Result<Tiles> parse_tiles(std::string_view header);
/// The header with other values; comments and order stay.
std::string with_tiles(std::string_view header, const Tiles& tiles);

struct TuneOptions {
  /// Target, toolchain, emulator, and how often each is run (KernelBenchOptions). Shapes, formats,
  /// levels and threads are set here.
  KernelBenchOptions bench;
  /// A choice has to be this much faster than today's numbers to take their place.
  double least_gain = 0.02;
};

/// One set of numbers that was tried, all at the same kernel.
struct TunedCandidate {
  Tiles values;  // of the kernel's numbers alone
  KernelTimes times;
};

/// A kernel, the numbers that matter to it, and what was tried.
struct TunedKernel {
  std::string what;                        // "q4, 128 tokens"
  std::vector<TunedCandidate> candidates;  // the first one: today's
  std::size_t best = 0;
};

struct TuneReport {
  std::vector<TunedKernel> kernels;
  Tiles tiles;         // all numbers of the target, the best ones
  std::string header;  // the tile header with them
  std::string path;    // where the repository keeps it
  std::string emulator;
  bool changed = false;
};

/// Measures each kernel with every set of its numbers in turn, in the same minutes, on one thread:
/// seconds, of which the least counts, or executed instructions where there is an emulator that
/// counts them. Sets that take more registers
/// than any machine has are left out. Errors: as bench_gemm, kMismatch when tiles change bits.
Result<TuneReport> tune(const TuneOptions& options, const driver::Progress& progress = {});

}  // namespace llmc::bench
