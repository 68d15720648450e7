#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/bench/kernel_bench.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

/// Finds a target's best tile sizes by measurement. Tile sizes are the numbers of tokens and panels
/// that a kernel computes together. They affect its speed but not its results.
namespace llmc::bench {

/// A constant of a tile header (templates/llmc/tiles/TARGET.h), such as kTokenTile = 6.
struct TileConstant {
  std::string name;
  std::uint32_t value = 0;
};
using Tiles = std::vector<TileConstant>;

/// Returns the constants of a tile header, in order. Fails with kInternal if there are none.
Result<Tiles> parse_tiles(std::string_view header);
/// Returns the header with the values of `tiles`; comments and order are unchanged.
std::string with_tiles(std::string_view header, const Tiles& tiles);

struct TuneOptions {
  /// Target, toolchain, emulator and number of repetitions. The shapes, formats, levels and threads
  /// in it are ignored, and `tiles` must be empty.
  KernelBenchOptions bench;
  /// Minimum relative gain for which new values replace the current ones.
  double min_gain = 0.02;
};

/// One combination of a kernel's tile constants and its measurement.
struct TunedCandidate {
  Tiles values;  // constants of the kernel only
  KernelTimes times;
};

/// A kernel and its measured candidates.
struct TunedKernel {
  std::string what;                        // "q4, a prompt of 100 tokens"
  std::vector<TunedCandidate> candidates;  // the first has the current values
  std::size_t best = 0;
};

struct TuneReport {
  std::vector<TunedKernel> kernels;
  Tiles tiles;         // the best values of all constants of the target
  std::string header;  // the tile header with these values
  std::string path;    // path of the header in the repository
  std::string emulator;
  bool changed = false;
};

/// Measures each kernel with every combination of candidate values for its tile constants,
/// alternately and on one thread. Compares the minimum time or, under an emulator that counts them,
/// the executed instructions. Skips combinations that need more registers than any machine has.
/// Fails like bench_gemm(), with kMismatch if tile sizes change results, and with kInternal if the
/// target has no tile header.
Result<TuneReport> tune(const TuneOptions& options, const driver::Progress& progress = {});

}  // namespace llmc::bench
