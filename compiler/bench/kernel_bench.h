#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/emit/kernel_source.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Compares the optimization levels of a kernel by speed.
namespace llmc::bench {

/// The shape of a product y[tokens][rows] = x[tokens][columns] . w[rows][columns]^T. With one token
/// it is a matrix-vector product.
struct GemmShape {
  std::uint64_t rows = 11008, columns = 4096, tokens = 128;

  double macs() const {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(tokens);
  }
};
/// Parses "11008x4096x128". Fails with kUsage for other text and for sizes out of range.
Result<GemmShape> parse_gemm_shape(std::string_view text);

/// Parses a list of formats such as "f32,q4". Fails with kUsage for other text.
Result<std::vector<WeightKind>> parse_kernel_formats(std::string_view text);

/// Seeds of pseudorandom weights and x (llmc/quant/random.h: fill_weight() and random_float()).
inline constexpr std::uint64_t kGemmWeightSeed = 1, kGemmInputSeed = 2;

struct KernelBenchOptions {
  GemmShape shape;
  std::vector<WeightKind> formats = {WeightKind::kF32, WeightKind::kQ4};
  std::string target = "avx2";
  std::vector<std::uint32_t> levels = {1, 2, 3};
  /// Contents that replace the target's tile header (Target::tiles), each measured at every level;
  /// empty: the target's own header.
  std::vector<std::string> tiles = {};
  std::vector<std::uint32_t> threads = {1};
  std::uint32_t repetitions = 5;
  std::string cc;                   // as in CompileOptions
  std::vector<std::string> cflags;  // appended to clang's arguments
  std::string emulator;             // as in NativeOptions: used for any target unless empty
  /// Count executed instructions under an emulator, even if this machine can run the target.
  bool count = false;
  /// Path of tools/instructions' count.so, for `emulator` or LLMC_EMULATOR. Empty: if neither is
  /// set, search for the plugin and its qemu; otherwise measure time (an error with `count`).
  std::string plugin;
};

/// Numbers of instructions that one run of a kernel executes.
struct InstructionCounts {
  std::uint64_t all = 0, vector = 0, scalar_float = 0;
};

/// The measurement of one kernel variant.
struct KernelTimes {
  WeightKind format = WeightKind::kQ4;
  std::uint32_t threads = 1, level = 3;
  std::size_t tiles = 0;             // index in KernelBenchOptions::tiles
  std::vector<double> seconds = {};  // one per repetition; the warm-up run is not included
  std::optional<InstructionCounts> instructions = std::nullopt;  // if set, `seconds` is empty
  std::uint64_t hash = 0;  // FNV-1a of the bytes of the result
  std::uint64_t weight_bytes = 0;

  double median_seconds() const;
};

struct KernelBenchReport {
  /// In the order of the options: by format, number of threads, level and tiles.
  std::vector<KernelTimes> results;
  std::string emulator;  // for messages; empty: this machine ran the kernels

  /// Returns the first result of `format` with this level and number of threads; nullptr if there
  /// is none.
  const KernelTimes* find(WeightKind format, std::uint32_t threads, std::uint32_t level) const;
};

/// Returns the first two results of the same format whose bits differ; null pointers if there are
/// none.
std::pair<const KernelTimes*, const KernelTimes*> find_mismatch(const KernelBenchReport& report);

/// A variant of one format's kernel: an optimization level with one of the tile headers.
struct KernelVariant {
  std::uint32_t level = 3;
  std::size_t tiles = 0;
  const std::string* header = nullptr;  // content of the tile header; nullptr: the target's own
};
/// Returns each level with each tile header, by level.
std::vector<KernelVariant> kernel_variants(const KernelBenchOptions& options);

/// Returns the kernel of one format.
emit::GemmKernel gemm_kernel(const KernelBenchOptions& options, WeightKind format);

/// Compiles every variant of each format's kernel, and runs all variants of a format with all
/// numbers of threads alternately, `repetitions` times each after a warm-up. The weights are the
/// same on every machine. Code for other processors runs under an emulator, on one thread; with the
/// plugin, the executed instructions of one run are counted instead of time. Fails like
/// find_counting_emulator() and check_memory(), with kUsage for several threads under an emulator,
/// and with kUnsupported or kToolchain if the target's code cannot be run.
Result<KernelBenchReport> bench_gemm(const KernelBenchOptions& options,
                                     const driver::Progress& progress = {});

}  // namespace llmc::bench
