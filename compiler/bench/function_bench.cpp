#include "compiler/bench/function_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/bench/bench.h"
#include "compiler/exec/function_library.h"
#include "compiler/support/median.h"

namespace llmc::bench {
namespace {

template <class T>
void append_bytes(std::vector<std::byte>& bytes, T value) {
  const auto* const from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

/// Data for an input; the same in every run.
ir::ConstantPtr made_up(const plan::Port& port, int integer_value) {
  const std::size_t width = ir::element_bytes(port.element);
  const std::size_t count = static_cast<std::size_t>(port.bytes()) / width;
  std::vector<std::byte> bytes;
  bytes.reserve(count * width);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
    switch (port.element) {
      case ir::ElementType::kF32:
        append_bytes(bytes, value);
        break;
      case ir::ElementType::kF64:
        append_bytes(bytes, static_cast<double>(value));
        break;
      case ir::ElementType::kF16:
        // Sign and fraction of a number from 0.5 on, below 1.
        append_bytes(bytes, static_cast<std::uint16_t>((state >> 16 & 0x83ffu) | 0x3800u));
        break;
      case ir::ElementType::kBF16:
        append_bytes(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
        break;
      default: {
        const std::int64_t integer = integer_value;  // little-endian, as all that llmc runs on
        const auto* const from = reinterpret_cast<const std::byte*>(&integer);
        bytes.insert(bytes.end(), from, from + width);
      }
    }
  }
  return ir::make_constant(port.element, plan::bounds(port.dims), std::move(bytes));
}

std::vector<ir::ConstantPtr> made_up(const std::vector<plan::Port>& ports, int integer_value) {
  std::vector<ir::ConstantPtr> inputs;
  for (const plan::Port& port : ports) inputs.push_back(made_up(port, integer_value));
  return inputs;
}

}  // namespace

double FunctionBenchReport::Test::median_seconds() const {
  return median(seconds);
}

double FunctionBenchReport::Test::deviation() const {
  if (seconds.size() < 2) return 0;
  const auto count = static_cast<double>(seconds.size());
  double mean = 0, squares = 0;
  for (const double s : seconds) mean += s / count;
  for (const double s : seconds) squares += (s - mean) * (s - mean);
  return std::sqrt(squares / (count - 1));
}

Result<FunctionBenchReport> bench_function(const FunctionBenchOptions& options,
                                           driver::Source source,
                                           const driver::Progress& progress) {
  driver::CompileOptions compile = options.compile;
  for (const std::uint32_t threads : options.threads)
    compile.threads_max = std::max(compile.threads_max, threads);
  // Says what keeps the graph from being compiled, and the sizes.
  const std::string targets[] = {compile.target};
  LLMC_TRY(const auto plans, driver::plan_model(compile, std::move(source), targets, progress));
  const plan::Plan& plan = plans.front();

  driver::report(progress, "compile", 0, 0);
  exec::FunctionLibrary::Outcome outcome;
  const exec::FunctionLibrary::Job job{.name = "model", .plan = &plan};
  LLMC_TRY(const auto library, exec::FunctionLibrary::compile(
                                   std::span(&job, 1), compile.target, compile.cflags, outcome,
                                   compile.opt_level, options.emulator, compile.cc));
  if (outcome[0]) return std::move(*outcome[0]).in_file(compile.model.string());

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
  for (const std::uint32_t threads : numbers) {
    if (threads > 1 && !result.emulator.empty())
      return usage_error(fmt::format("{} threads under an emulator", threads), "use --threads 1");
    const auto measure = [&] {
      return library->time(0, made_up(result.inputs, result.integer_value), options.repetitions,
                           threads);
    };
    auto seconds = measure();
    if (!seconds.ok() && seconds.error().first().kind == ErrorKind::kBadInput) {
      result.integer_value = 0;
      seconds = measure();
    }
    if (!seconds.ok()) return std::move(seconds).error().in_file(compile.model.string());
    result.tests.push_back({threads, *std::move(seconds)});
  }
  return result;
}

}  // namespace llmc::bench
