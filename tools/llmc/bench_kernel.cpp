#include "tools/llmc/bench_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bench/kernel_bench.h"
#include "compiler/plan/weights.h"
#include "compiler/support/counted.h"
#include "compiler/target/target.h"
#include "tools/llmc/numbers.h"

namespace llmc::cli {
namespace {

Result<bench::KernelBenchOptions> bench_options(const KernelOptions& options,
                                                const ModelOptions& model, const KernelRun& run) {
  bench::KernelBenchOptions result;
  LLMC_TRY(result.shape, bench::parse_gemm_shape(options.shape));
  LLMC_TRY(result.formats, bench::parse_kernel_formats(options.formats));
  LLMC_TRY(result.target, checked_target(model.target));
  result.cc = model.compile.cc;
  result.cflags = model.compile.cflags;
  result.repetitions = run.repetitions;
  result.emulator = model.emulator;
  result.count = options.count;
  result.plugin = options.plugin;
  LLMC_TRY(result.levels, parse_counts(run.levels, "--opt-level", target::kMaxOptLevel, 1));
  for (const std::uint32_t level : result.levels)
    LLMC_RETURN_IF_ERROR(target::find(result.target, level));
  LLMC_TRY(result.threads, parse_counts(run.threads, "--threads", plan::kMaxThreads, 1));
  return result;
}

/// Returns the speed-up over the lower `level` with the same format and threads; 0 if that level
/// was not run.
double ratio(const bench::KernelBenchReport& report, const bench::KernelTimes& times,
             std::uint32_t level) {
  const bench::KernelTimes* const other = report.find(times.format, times.threads, level);
  if (other == nullptr || level >= times.level) return 0;
  if (times.instructions) {
    return static_cast<double>(other->instructions->all) /
           static_cast<double>(times.instructions->all);
  }
  return other->median_seconds() / times.median_seconds();
}

Json json_of(const bench::KernelBenchOptions& options, const bench::KernelBenchReport& report) {
  Json rows = Json::array();
  for (const bench::KernelTimes& times : report.results) {
    Json row{{"format", plan::to_string(times.format)},
             {"threads", times.threads},
             {"opt_level", times.level},
             {"weight_bytes", times.weight_bytes},
             {"result_hash", fmt::format("{:016x}", times.hash)}};
    if (times.instructions) {
      row["instructions"] = times.instructions->all;
      row["vector_instructions"] = times.instructions->vector;
      row["scalar_float_instructions"] = times.instructions->scalar_float;
    } else {
      row["seconds"] = times.seconds;
      row["median_seconds"] = times.median_seconds();
      row["gmac_per_second"] = options.shape.macs() / times.median_seconds() * 1e-9;
    }
    for (const std::uint32_t level : {1u, 2u}) {
      if (const double factor = ratio(report, times, level); factor > 0)
        row[fmt::format("times_level_{}", level)] = factor;
    }
    rows.push_back(std::move(row));
  }
  return Json{{"kernel", "gemm"},
              {"target", options.target},
              {"rows", options.shape.rows},
              {"columns", options.shape.columns},
              {"tokens", options.shape.tokens},
              {"emulator", report.emulator.empty() ? Json(nullptr) : Json(report.emulator)},
              {"results", rows}};
}

Table kernel_table(const bench::KernelBenchOptions& options, const bench::KernelBenchReport& report,
                   TableFormat format) {
  const bool counted = report.results.front().instructions.has_value();
  const auto left = [](const char* title) { return Column{title, Column::Align::kLeft}; };
  std::vector<Column> columns{left("weights")};
  if (counted)
    columns.insert(
        columns.end(),
        {{"level"}, {"instructions"}, {.title = "vector", .unit = "%"}, {"per 1000 MAC"}});
  else
    columns.insert(columns.end(), {{"threads"},
                                   {"level"},
                                   {"ms"},
                                   {.title = "from", .csv_title = "from ms"},
                                   {.title = "to", .csv_title = "to ms"},
                                   {"GMAC/s"}});
  columns.insert(columns.end(), {{"level 1 x"}, {"level 2 x"}, left("result")});
  Table table(format, columns);
  for (const bench::KernelTimes& times : report.results) {
    const auto factor = [&](std::uint32_t level) {
      const double value = ratio(report, times, level);
      return value > 0 ? fmt::format("{:.2f}", value) : std::string();
    };
    std::vector<std::string> cells{std::string(plan::to_string(times.format))};
    if (counted) {
      const auto& [all, vector, scalar_float] = *times.instructions;
      cells.insert(
          cells.end(),
          {fmt::to_string(times.level), fmt::to_string(all),
           fmt::format("{:.0f}", 100 * static_cast<double>(vector) / static_cast<double>(all)),
           fmt::format("{:.1f}", 1e3 * static_cast<double>(all) / options.shape.macs())});
    } else {
      const auto [min, max] = std::ranges::minmax(times.seconds);
      const double median = times.median_seconds();
      cells.insert(cells.end(), {fmt::to_string(times.threads), fmt::to_string(times.level),
                                 fmt::format("{:.3f}", median * 1e3),
                                 fmt::format("{:.3f}", min * 1e3), fmt::format("{:.3f}", max * 1e3),
                                 fmt::format("{:.2f}", options.shape.macs() / median * 1e-9)});
    }
    cells.insert(cells.end(), {factor(1), factor(2), fmt::format("{:016x}", times.hash)});
    table.add(std::move(cells));
  }
  return table;
}

std::string explanation(const bench::KernelBenchOptions& options,
                        const bench::KernelBenchReport& report) {
  const auto& [rows, columns, tokens] = options.shape;
  const std::string what =
      fmt::format("gemm {}x{}x{} on {}", rows, columns, tokens, options.target);
  if (report.results.front().instructions)
    return fmt::format("{}: instructions of one run under {}", what, report.emulator);
  const std::string how = fmt::format(
      "medians of {}, alternating between the rows of a format; 1 GMAC/s is "
      "2 GFLOPS",
      counted(options.repetitions, "run"));
  if (report.emulator.empty()) return fmt::format("{}: {}", what, how);
  return fmt::format(
      "{} under {}: {}\ntimes under emulation are not representative of the processor; "
      "docs/performance.md counts instructions",
      what, report.emulator, how);
}

}  // namespace

void add_kernel_options(CLI::App& app, KernelOptions& options) {
  app.add_option("--kernel", options.kernel,
                 "Kernel to measure instead of a model, at each --opt-level: gemm")
      ->check(CLI::IsMember({"gemm"}))
      ->type_name("KERNEL")
      ->group("Kernels");
  app.add_option("--format", options.formats, "Weight formats of the kernel (default: f32,q4)")
      ->type_name("LIST")
      ->group("Kernels");
  app.add_option("--shape", options.shape,
                 "Size of the product: rows x columns x tokens; 1 token: matrix-vector (default: "
                 "11008x4096x128)")
      ->type_name("SHAPE")
      ->group("Kernels");
  add_counting(app, options.count, options.plugin, "Kernels");
}

void add_counting(CLI::App& app, bool& count, std::string& plugin, const std::string& group) {
  app.add_flag("--count", count,
               "Count executed instructions under an emulator, even for targets that run here")
      ->group(group);
  app.add_option(
         "--plugin", plugin,
         "qemu plugin count.so, built by tools/instructions/setup.sh, for --count (default: "
         "search for it)")
      ->type_name("FILE")
      ->group(group);
}

Result<int> bench_kernel(const KernelOptions& kernel, const ModelOptions& model,
                         const KernelRun& run, const Globals& globals) {
  LLMC_TRY(const auto options, bench_options(kernel, model, run));
  const auto found = target::find(options.target, std::ranges::max(options.levels));
  const bool emulated =
      !options.emulator.empty() || options.count || (found.ok() && !target::runs_here(**found));
  // An emulator executes a few hundred million multiply-adds per second.
  constexpr double kManyMacs = 5e8;
  if (emulated && options.shape.macs() > kManyMacs) {
    note(globals,
         fmt::format("{:.1f} billion multiply-adds take minutes per level under an emulator; a "
                     "smaller --shape, such as 1024x1024x32, has the same ratios",
                     options.shape.macs() * 1e-9));
  }
  Progress line(globals);
  LLMC_TRY(const auto report, bench::bench_gemm(options, progress_of(line)));
  line.clear();
  if (run.format == TableFormat::kJson) {
    print_json(json_of(options, report));
  } else {
    print(kernel_table(options, report, run.format).text());
    note(globals, explanation(options, report));
  }
  const auto [one, other] = bench::find_mismatch(report);
  if (one == nullptr) return 0;
  return failure(ErrorKind::kMismatch,
                 fmt::format("results of {} differ between level {} with {} and level {} with {}",
                             plan::to_string(one->format), other->level,
                             counted(other->threads, "thread"), one->level, one->threads),
                 "this is a bug in llmc; please report it with the table");
}

}  // namespace llmc::cli
