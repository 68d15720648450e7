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

/// Comparison of a kernel's optimisation levels.
namespace llmc::bench {

/// y[tokens][rows] = x[tokens][columns] . w[rows][columns]^T; for one token a matrix-vector
/// product.
struct GemmShape {
  std::uint64_t rows = 11008, columns = 4096, tokens = 128;

  double macs() const {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(tokens);
  }
};
/// Parses "11008x4096x128"; kUsage for other text and for sizes out of range.
Result<GemmShape> parse_gemm_shape(std::string_view text);

/// Parses "f32,q4"; kUsage for other text.
Result<std::vector<WeightKind>> parse_kernel_formats(std::string_view text);

/// Pseudorandom weights and x (llmc/quant/random.h): fill_weight() and mixed_float().
inline constexpr std::uint64_t kGemmWeightSeed = 1, kGemmInputSeed = 2;

struct KernelBenchOptions {
  GemmShape shape;
  std::vector<WeightKind> formats = {WeightKind::kF32, WeightKind::kQ4};
  std::string target = "avx2";
  std::vector<std::uint32_t> levels = {1, 2, 3};
  /// Texts that replace the target's tile header (Target::tiles), each measured at every level;
  /// empty: the target's own.
  std::vector<std::string> tiles = {};
  std::vector<std::uint32_t> threads = {1};
  std::uint32_t repetitions = 5;
  std::string cc;                   // as in CompileOptions
  std::vector<std::string> cflags;  // appended to clang's arguments
  std::string emulator;             // as in NativeOptions: always used unless empty
  /// Count executed instructions under an emulator even if this machine runs the target.
  bool count = false;
  std::string plugin;  // count.so of tools/instructions, for `emulator`; empty: searched
};

/// Instructions executed by one run of a kernel.
struct InstructionCounts {
  std::uint64_t all = 0, vector = 0, scalar_float = 0;
};

struct KernelTimes {
  WeightKind format = WeightKind::kQ4;
  std::uint32_t threads = 1, level = 3;
  std::size_t tiles = 0;             // index among the options' tiles
  std::vector<double> seconds = {};  // one per repetition, without the warm-up
  std::optional<InstructionCounts> instructions = std::nullopt;  // if set, there are no times
  std::uint64_t hash = 0;                                        // FNV-1a of the result's bytes
  std::uint64_t weight_bytes = 0;

  double median_seconds() const;
};

struct KernelBenchReport {
  /// By format, number of threads, level and tiles, in the order of the options.
  std::vector<KernelTimes> results;
  std::string emulator;  // for messages; empty: this machine ran the kernels

  /// The result of `format` with this level and number of threads, or nullptr.
  const KernelTimes* find(WeightKind format, std::uint32_t threads, std::uint32_t level) const;
};

/// The first two results of one format that differ in bits; null pointers if there are none.
std::pair<const KernelTimes*, const KernelTimes*> find_mismatch(const KernelBenchReport& report);

/// A variant of one format's kernel: a level with one of the tiles.
struct KernelVariant {
  std::uint32_t level = 3;
  std::size_t tiles = 0;
  const std::string* header = nullptr;  // the tiles' text; nullptr: the target's own
};
std::vector<KernelVariant> kernel_variants(const KernelBenchOptions& options);

/// The kernel of one format.
emit::GemmKernel gemm_kernel(const KernelBenchOptions& options, WeightKind format);

/// Compiles the kernel for every level and runs all levels and numbers of threads alternately,
/// `repetitions` times, on weights that are the same on every machine. Targets of other processors
/// run under an emulator, on one thread; with the plugin, executed instructions are counted once
/// instead. Errors: kUsage for more threads there, kUnsupported or kToolchain if the target cannot
/// be run, kOverBudget if the operands do not fit this machine's memory.
Result<KernelBenchReport> bench_gemm(const KernelBenchOptions& options,
                                     const driver::Progress& progress = {});

}  // namespace llmc::bench
