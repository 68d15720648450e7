#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/bench/kernel_bench.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"

/// Search of a target's best tiles by measurement. The numbers of tokens and panels that a kernel
/// computes together affect its speed, never its results.
namespace llmc::bench {

/// A constant of a tile header (templates/llmc/tiles/TARGET.h), such as kTokenTile = 6.
struct TileConstant {
  std::string name;
  std::uint32_t value = 0;
};
using Tiles = std::vector<TileConstant>;

/// The constants of a tile header, in its order. kInternal if there are none.
Result<Tiles> parse_tiles(std::string_view header);
/// The header with other values and unchanged comments and order.
std::string with_tiles(std::string_view header, const Tiles& tiles);

struct TuneOptions {
  /// Target, toolchain, emulator and number of repetitions (KernelBenchOptions). Shapes, formats,
  /// levels and threads are overwritten.
  KernelBenchOptions bench;
  /// Minimum relative gain at which new values replace the current ones.
  double min_gain = 0.02;
};

/// One measured combination of a kernel's numbers.
struct TunedCandidate {
  Tiles values;  // of the kernel's numbers only
  KernelTimes times;
};

/// A kernel, its numbers and the measured candidates.
struct TunedKernel {
  std::string what;                        // "q4, 128 tokens"
  std::vector<TunedCandidate> candidates;  // the first one has the current values
  std::size_t best = 0;
};

struct TuneReport {
  std::vector<TunedKernel> kernels;
  Tiles tiles;         // the best values of all numbers of the target
  std::string header;  // the tile header with these values
  std::string path;    // of the header in the repository
  std::string emulator;
  bool changed = false;
};

/// Measures each kernel with every combination of its numbers, alternately, on one thread: the
/// minimum time, or executed instructions under an emulator that counts them. Combinations that
/// need more registers than any machine has are skipped. Errors: as bench_gemm; kMismatch if tiles
/// change results.
Result<TuneReport> tune(const TuneOptions& options, const driver::Progress& progress = {});

}  // namespace llmc::bench
