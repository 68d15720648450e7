#include "tools/llmc/bench_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/bench/function_bench.h"
#include "compiler/support/counted.h"

namespace llmc::cli {
namespace {

/// Fails with kUsage for an option that does not apply to functions. Compilation options for
/// decoders are accepted here; note_without_effect() warns about them.
Status check_function_options(const CLI::App& app, const ModelOptions& model) {
  constexpr std::string_view kTaken[] = {
      "MODEL",      "--target",   "--opt-level",   "--cc",      "--cflag",       "--sysroot",
      "--emulator", "--dim",      "--repetitions", "--output",  "--json",        "--quiet",
      "--verbose",  "--function", "--quant",       "--threads", "--threads-max", "--layers"};
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

/// Stages that differ only in their weights and operands: those of equal layers.
struct StageGroup {
  std::string what;
  std::size_t stages = 0;
  std::vector<double> seconds;  // one for each test
  double multiply_adds = 0;
};

/// Returns the groups, sorted by their time in the last test, longest first.
std::vector<StageGroup> groups_of(const bench::FunctionBenchReport& report) {
  std::vector<StageGroup> groups;
  for (std::size_t i = 0; i < report.stages.size(); ++i) {
    const bench::FunctionBenchReport::Stage& stage = report.stages[i];
    auto group = std::ranges::find(groups, stage.what, &StageGroup::what);
    if (group == groups.end()) {
      groups.push_back({.what = stage.what, .seconds = std::vector<double>(report.tests.size())});
      group = groups.end() - 1;
    }
    ++group->stages;
    group->multiply_adds += static_cast<double>(stage.multiply_adds);
    for (std::size_t t = 0; t < report.tests.size(); ++t)
      group->seconds[t] += report.tests[t].stage_seconds[i];
  }
  std::ranges::sort(groups, std::greater{},
                    [](const StageGroup& group) { return group.seconds.back(); });
  return groups;
}

/// Returns the table of stages, a row for each group and number of threads.
Table stages_table(const bench::FunctionBenchReport& report, TableFormat format) {
  Table table(
      format,
      {{"stages", Column::Align::kLeft}, {"number"}, {"threads"}, {"ms"}, {"%"}, {"GMAC/s"}});
  const std::vector<StageGroup> groups = groups_of(report);
  for (std::size_t t = 0; t < report.tests.size(); ++t) {
    const std::vector<double>& all = report.tests[t].stage_seconds;
    const double total = std::reduce(all.begin(), all.end());
    for (const StageGroup& group : groups) {
      const double seconds = group.seconds[t];
      table.add({group.what, fmt::to_string(group.stages), fmt::to_string(report.tests[t].threads),
                 fmt::format("{:.4f}", seconds * 1e3), fmt::format("{:.1f}", 100 * seconds / total),
                 group.multiply_adds > 0 && seconds > 0
                     ? fmt::format("{:.1f}", group.multiply_adds / seconds * 1e-9)
                     : std::string()});
    }
  }
  return table;
}

Json stages_json(const bench::FunctionBenchReport& report,
                 const bench::FunctionBenchReport::Test& test) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < report.stages.size(); ++i) {
    const bench::FunctionBenchReport::Stage& stage = report.stages[i];
    stages.push_back(Json{{"stage", stage.what},
                          {"file", stage.origin.file},
                          {"node", stage.origin.node},
                          {"multiply_adds", stage.multiply_adds},
                          {"seconds", test.stage_seconds[i]}});
  }
  return stages;
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
    Json row{{"test", "run"},
             {"threads", test.threads},
             {"median_seconds", test.median_seconds()},
             {"least_seconds", shortest},
             {"most_seconds", longest},
             {"deviation_seconds", test.deviation()},
             {"runs_per_second", 1 / test.median_seconds()},
             {"seconds", test.seconds}};
    if (!report.stages.empty()) row["stages"] = stages_json(report, test);
    results.push_back(std::move(row));
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
  bench.layers = options.layers;
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
  if (options.layers) print("\n" + stages_table(report, options.format).text());
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
  if (options.layers)
    about +=
        "\nstages: the run with the median total of a second build that measures them; equal "
        "stages of all layers are one row";
  note(globals, about);
  return 0;
}

}  // namespace llmc::cli
