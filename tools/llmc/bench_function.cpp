#include "tools/llmc/bench_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/bench/function_bench.h"
#include "compiler/support/counted.h"

namespace llmc::cli {
namespace {

/// Fails with kUsage for an option that does not apply to functions. Compilation options for
/// decoders are accepted here; note_without_effect() warns about them.
Status check_function_options(const CLI::App& app, const ModelOptions& model) {
  constexpr std::string_view kTaken[] = {
      "MODEL",      "--target",   "--opt-level",   "--cc",      "--cflag",      "--sysroot",
      "--emulator", "--dim",      "--repetitions", "--output",  "--json",       "--quiet",
      "--verbose",  "--function", "--quant",       "--threads", "--threads-max"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::ranges::count(kTaken, name) != 0 ||
        std::ranges::count(model.decoder_only, option) != 0)
      continue;
    return usage_error(
        fmt::format("{} does not apply to a function: its graph runs as a whole", name),
        fmt::format("remove {}; docs/functions.md explains functions", name));
  }
  return ok_status();
}

std::string inputs_text(const bench::FunctionBenchReport& report) {
  std::string text;
  for (const plan::Port& port : report.inputs)
    text += fmt::format("{}{} {}[{}]", text.empty() ? "" : ", ", printable(port.name, 40),
                        ir::to_string(port.element), fmt::join(plan::bounds(port.dims), ", "));
  return text;
}

Json function_json(const std::string& model, const bench::FunctionBenchReport& report) {
  Json inputs = Json::array();
  for (const plan::Port& port : report.inputs)
    inputs.push_back(Json{{"name", port.name},
                          {"type", ir::to_string(port.element)},
                          {"dims", plan::bounds(port.dims)}});
  Json results = Json::array();
  for (const bench::FunctionBenchReport::Test& test : report.tests) {
    const auto [shortest, longest] = std::ranges::minmax(test.seconds);
    results.push_back(Json{{"test", "run"},
                           {"threads", test.threads},
                           {"median_seconds", test.median_seconds()},
                           {"least_seconds", shortest},
                           {"most_seconds", longest},
                           {"deviation_seconds", test.deviation()},
                           {"runs_per_second", 1 / test.median_seconds()},
                           {"seconds", test.seconds}});
  }
  return Json{{"model", model},
              {"kind", "function"},
              {"target", report.target},
              {"opt_level", report.opt_level},
              {"emulator", report.emulator.empty() ? Json(nullptr) : Json(report.emulator)},
              {"weight_bytes", report.weights_bytes},
              {"arena_bytes", report.arena_bytes},
              {"inputs", std::move(inputs)},
              {"integer_value", report.max_integer},
              {"results", std::move(results)}};
}

}  // namespace

Result<int> bench_function(const CLI::App& app, const ModelOptions& model_options,
                           const exec::NativeOptions& native, driver::Source source,
                           const FunctionBench& options, const Globals& globals) {
  LLMC_RETURN_IF_ERROR(check_function_options(app, model_options));
  note_without_effect(model_options, globals);
  bench::FunctionBenchOptions bench{.compile = native.compile, .emulator = native.emulator};
  if (options.repetitions) bench.repetitions = *options.repetitions;
  bench.threads = options.threads;
  Progress line(globals);
  LLMC_TRY(const auto report, bench::bench_function(bench, std::move(source), progress_of(line)));
  line.clear();
  const std::string model = native.compile.model.string();
  if (globals.json || options.format == TableFormat::kJson) {
    print_json(function_json(model, report));
    return 0;
  }
  const auto ms = [](double seconds) { return fmt::format("{:.4f}", seconds * 1e3); };
  Table table(options.format, {{"test", Column::Align::kLeft},
                               {"threads"},
                               {"ms"},
                               {.title = "from", .csv_title = "from ms"},
                               {.title = "to", .csv_title = "to ms"},
                               {.title = "deviation", .csv_title = "deviation ms"},
                               {"runs/s"}});
  for (const bench::FunctionBenchReport::Test& test : report.tests) {
    const auto [shortest, longest] = std::ranges::minmax(test.seconds);
    table.add({"run", fmt::to_string(test.threads), ms(test.median_seconds()), ms(shortest),
               ms(longest), ms(test.deviation()),
               fmt::format("{:.1f}", 1 / test.median_seconds())});
  }
  print(table.text());
  std::string about = fmt::format(
      "{} ({}): a function of {}; constants {}, arena {}\nmedian, fastest and slowest of {}; "
      "floats in (-1, 1), integers and bools {}",
      printable(model), report.target, inputs_text(report), human_bytes(report.weights_bytes),
      human_bytes(report.arena_bytes), counted(bench.repetitions, "run"),
      report.max_integer == 0 ? "0" : "0 and 1");
  if (!report.emulator.empty())
    about += fmt::format(
        "\nunder {}: includes the time to send inputs and outputs; not representative of the "
        "processor",
        report.emulator);
  note(globals, about);
  return 0;
}

}  // namespace llmc::cli
