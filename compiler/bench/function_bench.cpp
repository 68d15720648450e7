#include "compiler/bench/function_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bench/bench.h"
#include "compiler/bench/stage_times.h"
#include "compiler/exec/emulator.h"
#include "compiler/exec/function_library.h"
#include "compiler/exec/random_inputs.h"
#include "compiler/plan/parts.h"
#include "compiler/support/statistics.h"

namespace llmc::bench {

double FunctionBenchReport::Test::median_seconds() const {
  return median(seconds);
}

double FunctionBenchReport::Test::deviation() const {
  return sample_deviation(seconds);
}

namespace {

FunctionBenchReport::Stage described(const plan::Program& program, const plan::Stage& stage) {
  FunctionBenchReport::Stage result{.what = stage.comment,
                                    .origin = stage.origin,
                                    .multiply_adds = plan::run_multiply_adds(program, stage)};
  if (const auto* linear = std::get_if<plan::LinearStage>(&stage.op))
    result.what =
        program.weights[linear->weight.index].format_name() + " " + std::move(result.what);
  return result;
}

}  // namespace

Result<FunctionBenchReport> bench_function(const FunctionBenchOptions& options,
                                           driver::Source source,
                                           const driver::Progress& progress) {
  driver::CompileOptions compile = options.compile;
  for (const std::uint32_t threads : options.threads)
    compile.threads_max = std::max(compile.threads_max, threads);
  if (options.layers) {
    LLMC_TRY(const auto* target, target::find(compile.target, compile.opt_level));
    LLMC_TRY(const auto emulator, exec::find_emulator(*target, options.emulator));
    if (emulator) return stage_times_under(emulator->text());
  }
  LLMC_TRY(const auto library,
           exec::FunctionLibrary::compile(compile, std::move(source), options.emulator, progress));
  const plan::Plan& plan = library->plan(0);
  driver::report(progress, "run", 0, 0);
  FunctionBenchReport result;
  result.inputs = plan.program.inputs;
  result.weights_bytes = plan.weights_bytes;
  result.arena_bytes = plan.arena_bytes;
  result.target = plan.options.target->name;
  result.opt_level = plan.options.target->opt_level;
  result.emulator = library->emulator();
  std::vector<std::uint32_t> numbers = options.threads;
  if (numbers.empty()) numbers.push_back(1);
  if (options.threads.empty() && result.emulator.empty() && compile.threads_max > 1)
    numbers.push_back(2);
  if (const std::uint32_t most = std::ranges::max(numbers); most > 1 && !result.emulator.empty())
    return usage_error(fmt::format("{} threads under an emulator", most), "use --threads 1");
  const auto first = exec::run_with_random_inputs(*library, 0);
  if (!first.ok()) return Error(first.error()).in_file(compile.model.string());
  result.max_integer = first->max_integer;
  std::unique_ptr<exec::FunctionLibrary> timed;
  if (options.layers) {
    driver::report(progress, "compile with times", 0, 0);
    LLMC_TRY(timed, exec::FunctionLibrary::compile(compile, plan, options.emulator,
                                                   /*stage_times=*/true));
    for (const plan::Stage& stage : plan.program.forward)
      result.stages.push_back(described(plan.program, stage));
  }
  for (const std::uint32_t threads : numbers) {
    auto seconds = library->time(0, first->inputs, options.repetitions, threads);
    if (!seconds.ok()) return std::move(seconds).error().in_file(compile.model.string());
    FunctionBenchReport::Test& test = result.tests.emplace_back(threads, *std::move(seconds));
    if (timed) {
      LLMC_TRY(test.stage_seconds,
               timed->stage_seconds(0, first->inputs, options.repetitions, threads));
    }
  }
  return result;
}

}  // namespace llmc::bench
