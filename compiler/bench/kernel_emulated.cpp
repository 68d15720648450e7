#include "compiler/bench/kernel_emulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>

#include "compiler/exec/runner_process.h"
#include "compiler/plan/weights.h"
#include "compiler/support/file.h"
#include "compiler/support/stopwatch.h"
#include "compiler/support/temporary_directory.h"
#include "llmc/llmc.h"

namespace llmc::bench {
namespace {

namespace fs = std::filesystem;

/// Returns the folder with the plugin and a qemu that supports plugins; empty if there is none.
fs::path plugin_folder(const target::Target& target) {
  if (target.emulator.empty()) return {};
  std::error_code ignored;
  for (const fs::path& folder : exec::cross_folders()) {
    const fs::path plugins = folder / "plugins";
    if (fs::exists(plugins / "count.so", ignored) && fs::exists(plugins / target.emulator, ignored))
      return plugins;
  }
  return {};
}

/// Returns a path escaped for qemu's option -plugin, whose fields are separated by commas.
std::string escaped_path(const fs::path& path) {
  std::string word = path.string();
  for (std::size_t at = 0; (at = word.find(',', at)) != word.npos; at += 2) word.insert(at, 1, ',');
  return word;
}

/// A program that contains one variant of the kernel.
struct Program {
  KernelTimes* times;
  fs::path path;
};

Status make_program(const driver::Toolchain& toolchain, const target::Target& target,
                    const emit::GemmKernel& kernel, const std::string* tiles,
                    const std::vector<std::string>& cflags, const fs::path& program) {
  LLMC_TRY(const TemporaryDirectory folder, TemporaryDirectory::create());
  LLMC_RETURN_IF_ERROR(
      write_kernel_sources(folder.path(), emit::gemm_runner_source(kernel, target)));
  if (tiles != nullptr) LLMC_RETURN_IF_ERROR(write_tiles(folder.path(), target, *tiles));
  LLMC_RETURN_IF_ERROR(driver::compile_source(toolchain, folder.path(),
                                              driver::model_arguments(target, "gemm", cflags),
                                              "gemm.cpp", "gemm.o"));
  return exec::link_function_runner(toolchain, target, folder.path() / "gemm.o", program);
}

/// A running Program that has loaded the weights.
class Running {
 public:
  static Result<Running> start(const exec::Emulator& emulator, const fs::path& program,
                               const fs::path& weights) {
    Running running;
    LLMC_TRY(running.process_, exec::RunnerProcess::start_functions(emulator, program, weights));
    return running;
  }

  /// Runs the kernel `times` times and stores the result in operands.y.
  Status run(const emit::GemmKernel& kernel, const GemmOperands& operands, std::uint32_t times) {
    const std::uint64_t x_bytes = operands.x_floats * sizeof(float);
    const std::uint64_t y_bytes = operands.y_floats * sizeof(float);
    const runner::Call call{0, kernel.work_bytes(), 2, 1};
    const std::uint64_t sizes[] = {x_bytes, sizeof times, y_bytes};
    const exec::RunnerProcess::Bytes parts[] = {
        std::as_bytes(std::span(&call, 1)), std::as_bytes(std::span(sizes)),
        std::as_bytes(std::span(operands.input(), operands.x_floats)),
        std::as_bytes(std::span(&times, 1))};
    LLMC_TRY(const auto reply, process_->request(runner::Request::kCall, 0, parts, y_bytes));
    LLMC_RETURN_IF_ERROR(check(reply));
    if (reply.data.size() != y_bytes)
      return failure(ErrorKind::kToolchain, "the emulated kernel returned no result", "");
    std::memcpy(operands.output(), reply.data.data(), y_bytes);
    return ok_status();
  }

  Status finish() { return process_->finish(); }

 private:
  static Status check(const exec::RunnerProcess::Reply& reply) {
    if (reply.status == LLMC_OK) return ok_status();
    return failure(reply.status == LLMC_ERROR_CPU ? ErrorKind::kUnsupported : ErrorKind::kBadInput,
                   printable(reply.message()), "");
  }
  std::unique_ptr<exec::RunnerProcess> process_;
};

/// Reads the line "total" of the file that the plugin writes.
Result<InstructionCounts> read_counts(const fs::path& file) {
  LLMC_TRY(const std::string text, read_file(file));
  const std::size_t at = text.rfind("total\t");
  InstructionCounts counts;
  if (at != text.npos && std::sscanf(text.c_str() + at, "total\t%lu\t%lu\t%lu", &counts.all,
                                     &counts.vector, &counts.scalar_float) == 3)
    return counts;
  return failure(ErrorKind::kToolchain, "the counting plugin wrote no total",
                 "build it again by tools/instructions/setup.sh");
}

/// Returns the number of instructions of a whole process that runs the kernel `times` times.
Result<InstructionCounts> count(const CountingEmulator& counting, const emit::GemmKernel& kernel,
                                GemmOperands& operands, const fs::path& program,
                                const fs::path& weights, std::uint32_t times) {
  LLMC_TRY(const TemporaryDirectory folder, TemporaryDirectory::create());
  const fs::path out = folder.path() / "counts";
  exec::Emulator emulator = counting.emulator;
  emulator.command.emplace_back("-plugin");
  emulator.command.push_back(
      fmt::format("{},out={}", escaped_path(counting.plugin), escaped_path(out)));
  LLMC_TRY(Running running, Running::start(emulator, program, weights));
  operands.poison_result();
  LLMC_RETURN_IF_ERROR(running.run(kernel, operands, times));
  LLMC_RETURN_IF_ERROR(running.finish());
  return read_counts(out);
}

}  // namespace

Result<std::optional<CountingEmulator>> find_counting_emulator(const KernelBenchOptions& options) {
  // An emulator that supports the highest level also runs the others.
  LLMC_TRY(const target::Target* const target,
           target::find(options.target, std::ranges::max(options.levels)));
  const bool here = options.emulator.empty() && !options.count && target::runs_here(*target);
  if (here) return std::optional<CountingEmulator>();
  CountingEmulator result;
  result.plugin = options.plugin;
  const bool named = !options.emulator.empty() ||
                     (!exec::emulator_of_environment().empty() && !target::runs_here(*target));
  if (!named && result.plugin.empty()) {
    const fs::path folder = plugin_folder(*target);
    if (!folder.empty()) {
      result.plugin = folder / "count.so";
      result.emulator.command = {(folder / target->emulator).string(), "-cpu",
                                 std::string(target->emulated_cpu)};
      return std::optional(std::move(result));
    }
  }
  if (options.count && result.plugin.empty()) {
    return failure(ErrorKind::kToolchain, "no plugin found to count instructions",
                   "build it by tools/instructions/setup.sh, or give --plugin for --emulator or "
                   "LLMC_EMULATOR");
  }
  LLMC_TRY(std::optional<exec::Emulator> emulator, exec::find_emulator(*target, options.emulator));
  if (!emulator) {
    return failure(ErrorKind::kUsage, "--plugin needs an emulator",
                   "give an emulator with plugin support by --emulator");
  }
  result.emulator = *std::move(emulator);
  return std::optional(std::move(result));
}

Status bench_emulated(const KernelBenchOptions& options, const CountingEmulator& counting,
                      WeightKind format, const driver::Toolchain& toolchain,
                      const driver::Progress& progress, std::vector<KernelTimes>& results) {
  const emit::GemmKernel kernel = gemm_kernel(options, format);
  const std::string name(plan::to_string(format));
  LLMC_TRY(const TemporaryDirectory folder, TemporaryDirectory::create());
  std::vector<KernelTimes> times;
  const std::vector<KernelVariant> variants = kernel_variants(options);
  times.reserve(variants.size());
  std::vector<Program> programs;
  for (const KernelVariant& variant : variants) {
    driver::report(progress, "compile " + name, programs.size(), variants.size());
    LLMC_TRY(const target::Target* const target, target::find(options.target, variant.level));
    times.push_back({.format = format,
                     .threads = 1,
                     .level = variant.level,
                     .tiles = variant.tiles,
                     .seconds = {},
                     .weight_bytes = kernel.weight_bytes()});
    programs.push_back(
        {&times.back(), folder.path() / fmt::format("{}_{}", variant.level, variant.tiles)});
    LLMC_RETURN_IF_ERROR(make_program(toolchain, *target, kernel, variant.header, options.cflags,
                                      programs.back().path));
  }
  driver::report(progress, "weights " + name, 0, 0);
  LLMC_TRY(GemmOperands operands, GemmOperands::create(kernel));
  const fs::path weights = folder.path() / "weights";
  LLMC_RETURN_IF_ERROR(
      write_file(weights, std::as_bytes(std::span(operands.weights.get(), operands.weight_bytes))));

  if (!counting.plugin.empty()) {
    std::uint64_t done = 0;
    for (const Program& program : programs) {
      // Run once and twice: the difference excludes start-up and communication.
      driver::report(progress, "count " + name, done++, 2 * programs.size());
      LLMC_TRY(const InstructionCounts once,
               count(counting, kernel, operands, program.path, weights, 1));
      program.times->hash = operands.hash();
      driver::report(progress, "count " + name, done++, 2 * programs.size());
      LLMC_TRY(const InstructionCounts twice,
               count(counting, kernel, operands, program.path, weights, 2));
      program.times->instructions = InstructionCounts{
          twice.all - once.all, twice.vector - once.vector, twice.scalar_float - once.scalar_float};
    }
  } else {
    std::vector<Running> running;
    for (const Program& program : programs) {
      LLMC_TRY(Running process, Running::start(counting.emulator, program.path, weights));
      running.push_back(std::move(process));
    }
    const std::uint64_t total = (options.repetitions + 1) * programs.size();
    std::uint64_t done = 0;
    for (std::uint32_t repetition = 0; repetition <= options.repetitions; ++repetition) {
      for (std::size_t i = 0; i < programs.size(); ++i) {
        driver::report(progress, name, done++, total);
        operands.poison_result();
        const Stopwatch watch;
        LLMC_RETURN_IF_ERROR(running[i].run(kernel, operands, 1));
        const double seconds = watch.seconds();
        if (repetition == 0) {
          programs[i].times->hash = operands.hash();
        } else {
          programs[i].times->seconds.push_back(seconds);
        }
      }
    }
  }
  results.insert(results.end(), times.begin(), times.end());
  return ok_status();
}

}  // namespace llmc::bench
