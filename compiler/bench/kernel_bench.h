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

/// One kernel alone at several levels of optimisation, side by side.
namespace llmc::bench {

/// y[tokens][rows] = x[tokens][columns] . w[rows][columns]^T; one token: a matrix by a vector.
struct GemmShape {
  std::uint64_t rows = 11008, columns = 4096, tokens = 128;

  double macs() const {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(tokens);
  }
};
/// "11008x4096x128"; kUsage for anything else, and for more than a benchmark should take.
Result<GemmShape> parse_gemm_shape(std::string_view text);

/// The formats of weights there are kernels of: f32, f16, q8, q6, q4.
std::string_view kernel_format_name(WeightKind format);
/// "f32,q4" -> formats; kUsage for anything else.
Result<std::vector<WeightKind>> parse_kernel_formats(std::string_view text);

/// What weights and x are filled with (llmc/quant/random.h): fill_weight() and mixed_float().
inline constexpr std::uint64_t kGemmWeightSeed = 1, kGemmInputSeed = 2;

struct KernelBenchOptions {
  GemmShape shape;
  std::vector<WeightKind> formats = {WeightKind::kF32, WeightKind::kQ4};
  std::string target = "avx2";
  std::vector<std::uint32_t> levels = {1, 2, 3};
  /// Texts to take the place of the target's tile header (Target::tiles), all at each of the
  /// levels; empty: its own.
  std::vector<std::string> tiles = {};
  std::vector<std::uint32_t> threads = {1};
  std::uint32_t repetitions = 5;
  std::string cc;                   // as in CompileOptions
  std::vector<std::string> cflags;  // appended to clang's arguments
  std::string emulator;             // as in NativeOptions: always used when not empty
  /// Count executed instructions under an emulator even where this machine runs the target.
  bool count = false;
  std::string plugin;  // tools/instructions' count.so, for `emulator`; empty: what is found
};

/// Executed by one run of a kernel.
struct InstructionCounts {
  std::uint64_t all = 0, vector = 0, scalar_float = 0;
};

struct KernelTimes {
  WeightKind format = WeightKind::kQ4;
  std::uint32_t threads = 1, level = 3;
  std::size_t tiles = 0;             // index among the options' tiles
  std::vector<double> seconds = {};  // one per repetition; a warm-up before them does not count
  std::optional<InstructionCounts> instructions = std::nullopt;  // then there are no times
  std::uint64_t hash = 0;                                        // FNV-1a of the result's bytes
  std::uint64_t weight_bytes = 0;

  double median_seconds() const;
};

struct KernelBenchReport {
  /// By format, number of threads, level and tiles, in the order they were asked for.
  std::vector<KernelTimes> results;
  std::string emulator;  // what ran it, for messages; empty: this machine

  /// The result of `format` at that level with as many threads, or nullptr.
  const KernelTimes* find(WeightKind format, std::uint32_t threads, std::uint32_t level) const;
};

/// The first two results of one format that are not the same bits, or nullptr.
std::pair<const KernelTimes*, const KernelTimes*> different_bits(const KernelBenchReport& report);

/// What one format is compiled as: each level with each of the tiles.
struct KernelVariant {
  std::uint32_t level = 3;
  std::size_t tiles = 0;
  const std::string* header = nullptr;  // the tiles' text; nullptr: the target's own
};
std::vector<KernelVariant> kernel_variants(const KernelBenchOptions& options);

/// The kernel of one format.
emit::GemmKernel gemm_kernel(const KernelBenchOptions& options, WeightKind format);

/// Compiles the kernel for every level, fills the weights with numbers that are the same
/// everywhere, and runs all levels and numbers of threads in turn, `repetitions` times. A target of
/// another processor runs under an emulator, on one thread; with the plugin that counts
/// instructions these are the result, and there is nothing to repeat. Errors: kUsage for more
/// threads there, kUnsupported or kToolchain when nothing runs the target, kOverBudget when the
/// operands do not fit this machine's memory.
Result<KernelBenchReport> bench_gemm(const KernelBenchOptions& options,
                                     const driver::Progress& progress = {});

}  // namespace llmc::bench
