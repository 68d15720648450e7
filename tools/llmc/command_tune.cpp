#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "compiler/bench/tune.h"
#include "compiler/support/file.h"
#include "tools/llmc/bench_kernel.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {
namespace {

struct TuneCommand {
  std::string target, cc, emulator, plugin, output;
  std::vector<std::string> cflags;
  std::uint32_t repetitions = 9;
  bool count = false;
  TableFormat format = TableFormat::kText;
};

std::string values_text(const bench::Tiles& tiles) {
  std::string text;
  for (const bench::TileConstant& tile : tiles)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", tile.name, tile.value);
  return text;
}

Json values_json(const bench::Tiles& tiles) {
  Json values = Json::object();
  for (const bench::TileConstant& tile : tiles) values[tile.name] = tile.value;
  return values;
}

Json to_json(const std::string& target, const bench::TuneReport& report) {
  Json kernels = Json::array();
  for (const bench::TunedKernel& kernel : report.kernels) {
    Json candidates = Json::array();
    for (const bench::TunedCandidate& candidate : kernel.candidates) {
      Json one{{"values", values_json(candidate.values)}};
      if (const auto& counts = candidate.times.instructions) {
        one["instructions"] = counts->all;
      } else {
        one["seconds"] = candidate.times.seconds;
        one["median_seconds"] = candidate.times.median_seconds();
      }
      candidates.push_back(std::move(one));
    }
    kernels.push_back(
        Json{{"kernel", kernel.what}, {"best", kernel.best}, {"candidates", candidates}});
  }
  return Json{{"target", target},
              {"emulator", report.emulator.empty() ? Json(nullptr) : Json(report.emulator)},
              {"changed", report.changed},
              {"tiles", values_json(report.tiles)},
              {"file", report.path},
              {"kernels", kernels}};
}

void print_kernel(const bench::TunedKernel& kernel, TableFormat format) {
  const bench::TunedCandidate& current = kernel.candidates.front();
  const bool counted = current.times.instructions.has_value();
  std::vector<Column> columns{{"tiles", Column::Align::kLeft}};
  if (counted)
    columns.push_back({"instructions"});
  else
    columns.insert(columns.end(), {{"min ms"}, {"median"}});
  columns.insert(columns.end(), {{"current : these"}, {"", Column::Align::kLeft}});
  Table table(format, columns);
  for (std::size_t i = 0; i < kernel.candidates.size(); ++i) {
    const auto& [values, times] = kernel.candidates[i];
    const char* const mark = i == kernel.best ? "best" : "";
    if (counted) {
      table.add({values_text(values), fmt::to_string(times.instructions->all),
                 fmt::format("{:.3f}", static_cast<double>(current.times.instructions->all) /
                                           static_cast<double>(times.instructions->all)),
                 mark});
      continue;
    }
    const double min = std::ranges::min(times.seconds);
    table.add({values_text(values), fmt::format("{:.3f}", min * 1e3),
               fmt::format("{:.3f}", times.median_seconds() * 1e3),
               fmt::format("{:.3f}", std::ranges::min(current.times.seconds) / min), mark});
  }
  print(fmt::format("{}\n\n{}\n", kernel.what, table.text()));
}

Result<int> tune(const TuneCommand& command, const Globals& globals) {
  LLMC_TRY(const auto target, checked_target(command.target));
  LLMC_RETURN_IF_ERROR(check_output_file("--header", command.output));
  bench::TuneOptions options;
  options.bench.target = target;
  options.bench.cc = command.cc;
  options.bench.cflags = command.cflags;
  options.bench.emulator = command.emulator;
  options.bench.plugin = command.plugin;
  options.bench.count = command.count;
  options.bench.repetitions = command.repetitions;
  Progress line(globals);
  LLMC_TRY(const auto report, bench::tune(options, progress_of(line)));
  line.clear();
  if (globals.json || command.format == TableFormat::kJson) {
    print_json(to_json(target, report));
  } else {
    for (const bench::TunedKernel& kernel : report.kernels) print_kernel(kernel, command.format);
    print(fmt::format("{}: {}\n", target, values_text(report.tiles)));
  }
  if (!command.output.empty()) LLMC_RETURN_IF_ERROR(replace_file(command.output, report.header));
  const std::string where =
      command.output.empty() ? "use --header FILE to write" : command.output + " has";
  note(globals,
       fmt::format("{}; {} the text of {}; build llmc again to use other numbers",
                   report.changed ? "better tiles were found"
                                  : fmt::format("the current tiles are the best, within {:g} %",
                                                100 * options.min_gain),
                   where, report.path));
  return 0;
}

}  // namespace

Action add_tune(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<TuneCommand>();
  app.add_option("--target", command->target,
                 "Target to tune, listed by llmc targets (default: best for this machine)")
      ->check(refuse_empty)
      ->type_name("NAME");
  app.add_option("--header", command->output,
                 "File for the tile header with the best tiles (default: print them)")
      ->type_name("FILE");
  add_whole_number(app, "-r,--repetitions", command->repetitions, 1, 1000,
                   "Runs per candidate, alternating (default: 9)");
  app.add_option("--cc", command->cc, "clang++ to use (default: $LLMC_CC, clang++-19, clang++)")
      ->type_name("PROGRAM");
  app.add_option("--cflag", command->cflags, "Additional clang argument; may be repeated")
      ->allow_extra_args(false)
      ->type_name("ARG");
  add_emulator(app, command->emulator);
  add_counting(app, command->count, command->plugin, "Options");
  return [command, &globals] { return tune(*command, globals); };
}

}  // namespace llmc::cli
