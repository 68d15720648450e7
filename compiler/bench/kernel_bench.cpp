#include "compiler/bench/kernel_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "compiler/bench/bench.h"
#include "compiler/bench/gemm_operands.h"
#include "compiler/bench/kernel_emulated.h"
#include "compiler/bench/loaded_source.h"
#include "compiler/driver/toolchain.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/plan/weights.h"
#include "compiler/support/check.h"
#include "compiler/support/statistics.h"
#include "compiler/support/stopwatch.h"
#include "llmc/model.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxSide = 1u << 20, kMaxTokens = 4096;

using GemmFunction = void (*)(const llmc_run*, const float*, float*);

/// One variant of the kernel with one number of threads.
struct Candidate {
  KernelTimes* times;
  GemmFunction function;
  hosted::ThreadPool* pool;
};

double run_once(const Candidate& candidate, const GemmOperands& operands, std::uint64_t tokens) {
  llmc_run run = {};
  run.count = static_cast<std::uint32_t>(tokens);
  run.scratch = operands.work.get();
  run.weights = operands.weights.get();
  run.threads = candidate.times->threads;
  run.parallel_for = hosted::ThreadPool::run;
  run.user = candidate.pool;
  const Stopwatch watch;
  candidate.function(&run, operands.input(), operands.output());
  return watch.seconds();
}

/// Measures the times of one format and appends them to `results`.
Status bench_native(const KernelBenchOptions& options, WeightKind format,
                    const driver::Toolchain& toolchain, const driver::Progress& progress,
                    std::vector<KernelTimes>& results) {
  const emit::GemmKernel kernel = gemm_kernel(options, format);
  const std::string name(plan::to_string(format));
  std::vector<std::unique_ptr<LoadedSource>> libraries;
  const std::vector<KernelVariant> variants = kernel_variants(options);
  for (const KernelVariant& variant : variants) {
    driver::report(progress, "compile " + name, libraries.size(), variants.size());
    LLMC_TRY(const target::Target* const target, target::find(options.target, variant.level));
    LLMC_TRY(libraries.emplace_back(),
             LoadedSource::compile(toolchain, *target, emit::gemm_source(kernel, *target),
                                   emit::kGemmFunction, options.cflags, variant.header));
  }
  driver::report(progress, "weights " + name, 0, 0);
  std::vector<std::unique_ptr<hosted::ThreadPool>> pools;
  for (const std::uint32_t threads : options.threads) {
    auto pool = hosted::ThreadPool::create(threads);
    if (!pool.ok()) return failure(ErrorKind::kBadInput, pool.failure().message);
    pools.push_back(*std::move(pool));
  }
  LLMC_TRY(GemmOperands operands, GemmOperands::create(kernel));

  std::vector<KernelTimes> times;
  times.reserve(options.threads.size() * variants.size());
  std::vector<Candidate> candidates;
  for (std::size_t t = 0; t < options.threads.size(); ++t) {
    for (std::size_t l = 0; l < variants.size(); ++l) {
      times.push_back({.format = format,
                       .threads = options.threads[t],
                       .level = variants[l].level,
                       .tiles = variants[l].tiles,
                       .seconds = {},
                       .weight_bytes = kernel.weight_bytes()});
      candidates.push_back({&times.back(), libraries[l]->function<GemmFunction>(), pools[t].get()});
    }
  }
  // Run all candidates alternately, so that interference by other programs affects all of them.
  const std::uint64_t total = (options.repetitions + 1) * candidates.size();
  std::uint64_t done = 0;
  for (std::uint32_t repetition = 0; repetition <= options.repetitions; ++repetition) {
    for (const Candidate& candidate : candidates) {
      driver::report(progress, name, done++, total);
      if (repetition == 0) operands.poison_result();
      const double seconds = run_once(candidate, operands, options.shape.tokens);
      if (repetition == 0) {
        candidate.times->hash = operands.hash();
      } else {
        candidate.times->seconds.push_back(seconds);
      }
    }
  }
  driver::report(progress, name, total, total);
  results.insert(results.end(), times.begin(), times.end());
  return ok_status();
}

}  // namespace

std::vector<KernelVariant> kernel_variants(const KernelBenchOptions& options) {
  std::vector<KernelVariant> variants;
  for (const std::uint32_t level : options.levels) {
    if (options.tiles.empty()) variants.push_back({level, 0, nullptr});
    for (std::size_t i = 0; i < options.tiles.size(); ++i)
      variants.push_back({level, i, &options.tiles[i]});
  }
  return variants;
}

emit::GemmKernel gemm_kernel(const KernelBenchOptions& options, WeightKind format) {
  return {.kind = format,
          .rows = options.shape.rows,
          .columns = options.shape.columns,
          .tokens = options.shape.tokens,
          .threads = std::ranges::max(options.threads)};
}

Result<std::vector<WeightKind>> parse_kernel_formats(std::string_view text) {
  std::vector<WeightKind> formats;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto format = plan::parse_weight_format(word);
    if (!format) {
      return failure(ErrorKind::kUsage,
                     fmt::format("--format {}: unknown weight format", printable(text, 40)),
                     "give a comma-separated list of " + plan::weight_format_list(" and "));
    }
    const WeightKind kind = plan::weight_format_info(*format).kind;
    if (std::ranges::count(formats, kind) == 0) formats.push_back(kind);
    begin = end + 1;
  }
  return formats;
}

Result<GemmShape> parse_gemm_shape(std::string_view text) {
  std::uint64_t sides[3] = {};
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, sides[i]);
    const bool last = i == 2;
    if (error != std::errc{} || (last ? next != end : next == end || *next != 'x')) {
      return failure(ErrorKind::kUsage,
                     fmt::format("--shape {} is not a shape", printable(text, 60)),
                     "give ROWSxCOLUMNSxTOKENS without blanks, such as 11008x4096x128");
    }
    at = last ? next : next + 1;
  }
  const auto [rows, columns, tokens] = sides;
  if (rows == 0 || columns == 0 || tokens == 0 || rows > kMaxSide || columns > kMaxSide ||
      tokens > kMaxTokens) {
    return failure(
        ErrorKind::kUsage, fmt::format("--shape {} is out of range", printable(text, 60)),
        fmt::format("rows and columns are 1 to {}, tokens 1 to {}", kMaxSide, kMaxTokens));
  }
  return GemmShape{.rows = rows, .columns = columns, .tokens = tokens};
}

double KernelTimes::median_seconds() const {
  return median(seconds);
}

const KernelTimes* KernelBenchReport::find(WeightKind format, std::uint32_t threads,
                                           std::uint32_t level) const {
  const auto at = std::ranges::find_if(results, [&](const KernelTimes& times) {
    return times.format == format && times.threads == threads && times.level == level;
  });
  return at == results.end() ? nullptr : &*at;
}

std::pair<const KernelTimes*, const KernelTimes*> find_mismatch(const KernelBenchReport& report) {
  for (const KernelTimes& times : report.results) {
    for (const KernelTimes& other : report.results)
      if (times.format == other.format && times.hash != other.hash) return {&times, &other};
  }
  return {nullptr, nullptr};
}

Result<KernelBenchReport> bench_gemm(const KernelBenchOptions& options,
                                     const driver::Progress& progress) {
  LLMC_CHECK(!options.levels.empty() && !options.threads.empty() && !options.formats.empty());
  LLMC_TRY(const auto emulator, find_counting_emulator(options));
  if (emulator && options.threads != std::vector<std::uint32_t>{1}) {
    return failure(ErrorKind::kUsage, "under an emulator kernels run on one thread",
                   "remove --threads");
  }
  for (const WeightKind format : options.formats)
    LLMC_RETURN_IF_ERROR(check_memory(gemm_kernel(options, format)));
  LLMC_TRY(const driver::Toolchain toolchain, driver::find_toolchain(options.cc));
  KernelBenchReport report;
  if (emulator) report.emulator = emulator->emulator.text();
  for (const WeightKind format : options.formats) {
    LLMC_RETURN_IF_ERROR(
        emulator ? bench_emulated(options, *emulator, format, toolchain, progress, report.results)
                 : bench_native(options, format, toolchain, progress, report.results));
  }
  return report;
}

}  // namespace llmc::bench
