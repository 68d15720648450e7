#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "compiler/driver/toolchain.h"
#include "compiler/evaluate/identity.h"
#include "compiler/evaluate/logits.h"
#include "compiler/exec/runner_process.h"
#include "compiler/support/counted.h"
#include "compiler/support/file.h"
#include "compiler/target/device.h"
#include "compiler/target/target.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {
namespace {

struct IdentityCommand {
  std::vector<std::string> models;
  std::string formats = "q4m", targets, threads = "1,2,4", chunks = "1,7,32", levels = "3", cc;
  std::string devices = "none";
  std::vector<std::string> emulators, caches, cflags;
  std::uint32_t tokens = 64, steps = 64;
  bool no_cache = false;
  TableFormat format = TableFormat::kText;
};

using Emulators = std::map<std::string, std::string>;  // commands by target

/// Returns the requested targets; by default all targets that can be run, with a note about the
/// others. Fails if a target with a given emulator cannot be run.
Result<std::vector<std::string>> targets_of(const IdentityCommand& command,
                                            const Emulators& emulators, const Globals& globals) {
  std::vector<std::string> targets;
  if (!command.targets.empty()) {
    for (const std::string& name : split(command.targets)) {
      LLMC_TRY(const target::Target* const target, target::find(name));
      targets.emplace_back(target->name);
    }
    return targets;
  }
  LLMC_TRY(const driver::Toolchain toolchain, driver::find_toolchain(command.cc));
  for (const target::Target& target : target::all()) {
    const auto given = emulators.find(std::string(target.name));
    const bool wanted = given != emulators.end();
    const auto found =
        exec::find_working_emulator(toolchain, target, wanted ? given->second : std::string());
    if (found.ok()) {
      targets.emplace_back(target.name);
    } else if (wanted) {
      return found.error();
    } else {
      remark(globals, fmt::format("{} skipped: {}", target.name, found.error().first().message));
    }
  }
  return targets;
}

/// Parses values such as "arm64=qemu-aarch64 -cpu max". Returns the commands by target.
Result<Emulators> emulators_of(const std::vector<std::string>& given) {
  Emulators emulators;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || text.find_first_not_of(" \t\n", equals + 1) == text.npos)
      return usage_error("--emulator takes TARGET=COMMAND in this command",
                         "such as --emulator 'arm64=qemu-aarch64 -cpu max'");
    LLMC_TRY(const target::Target* const target, target::find(text.substr(0, equals)));
    emulators[std::string(target->name)] = text.substr(equals + 1);
  }
  return emulators;
}

Result<evaluate::IdentityOptions> options_of(const IdentityCommand& command,
                                             const Globals& globals) {
  evaluate::IdentityOptions options;
  for (const std::string& model : command.models) {
    LLMC_RETURN_IF_ERROR(refuse_bundle(model));
    std::error_code error;
    if (!std::filesystem::exists(model, error))
      return system_error(model, "open", error ? error.value() : ENOENT);
    options.models.emplace_back(model);
    note_model_file(globals, model);
  }
  options.formats.clear();
  for (const std::string& name : split(command.formats)) {
    LLMC_TRY(const passes::QuantScheme format, parse_quant(name));
    options.formats.push_back(format);
  }
  for (const std::string& text : command.caches) {
    LLMC_TRY(const KvFormats kv, plan::parse_kv_formats(text));
    options.caches.push_back(kv);
  }
  LLMC_TRY(options.opt_levels,
           parse_counts(command.levels, "--opt-level", target::kMaxOptLevel, 1));
  LLMC_TRY(options.threads, parse_counts(command.threads, "--threads", plan::kMaxThreads, 1));
  LLMC_TRY(options.chunks, parse_counts(command.chunks, "--chunk", plan::kMaxChunk, 1));
  options.devices.clear();
  for (const std::string& name : split(command.devices)) {
    if (name != "none" && target::find_device(name) == nullptr)
      return usage_error(fmt::format("there is no accelerator '{}'", printable(name, 40)),
                         "--accelerate takes none, " + target::device_names());
    options.devices.push_back(name == "none" ? "" : name);
  }
  LLMC_TRY(options.emulators, emulators_of(command.emulators));
  LLMC_TRY(options.targets, targets_of(command, options.emulators, globals));
  options.tokens = command.tokens;
  options.steps = command.steps;
  options.native.use_cache = !command.no_cache;
  options.native.compile.cc = command.cc;
  options.native.compile.cflags = command.cflags;
  return options;
}

std::string column(const evaluate::IdentityCell& cell, bool with_level) {
  return fmt::format("{}{}{}{} {}t", cell.target,
                     with_level ? fmt::format(" O{}", cell.opt_level) : "",
                     cell.device.empty() ? "" : " ", cell.device, cell.threads);
}

/// Returns the hash for the first cell. For other cells, returns "same" or the different hash,
/// which is bold in Markdown.
std::string cell_text(const evaluate::IdentityCell& cell, const evaluate::IdentityCell& first,
                      TableFormat format) {
  const char* const mark = cell.difference && format == TableFormat::kMarkdown ? "**" : "";
  std::string text =
      &cell == &first || cell.difference ? fmt::format("{0}{1}{0}", mark, cell.hash) : "same";
  if (cell.nan_logits > 0) text += fmt::format(", {} NaN", cell.nan_logits);
  return text;
}

std::string explained(const evaluate::LogitDifference& d) {
  return fmt::format(
      "prompt in chunks of {}: logit {} after position {} is {:08x} ({:.9g}), not {:08x} ({:.9g})",
      d.chunk, d.logit, d.position, evaluate::logit_bits(d.actual), d.actual,
      evaluate::logit_bits(d.expected), d.expected);
}

Json to_json(const evaluate::IdentityOptions& options, const evaluate::IdentityReport& report) {
  Json rows = Json::array();
  for (const evaluate::IdentityRow& row : report.rows) {
    Json cells = Json::array();
    for (const evaluate::IdentityCell& cell : row.cells) {
      Json one{{"target", cell.target},    {"opt_level", cell.opt_level},
               {"threads", cell.threads},  {"hash", cell.hash},
               {"same", !cell.difference}, {"nan_logits", cell.nan_logits}};
      if (!cell.device.empty()) {
        one["device"] = cell.device;
        one["jobs"] = cell.jobs;
      }
      if (const auto& d = cell.difference) {
        one["difference"] = Json{{"chunk", d->chunk},
                                 {"position", d->position},
                                 {"logit", d->logit},
                                 {"expected_bits", evaluate::logit_bits(d->expected)},
                                 {"actual_bits", evaluate::logit_bits(d->actual)}};
      }
      cells.push_back(std::move(one));
    }
    rows.push_back(Json{{"model", row.model.string()},
                        {"quant", passes::quant_name(row.format)},
                        {"kv", plan::to_string(row.kv)},
                        {"cells", cells}});
  }
  return Json{{"ok", report.differences() == 0},
              {"tokens", options.tokens},
              {"steps", options.steps},
              {"chunks", options.chunks},
              {"rows", rows}};
}

/// Returns the name of a model's folder, or of a file with its folder, because file names are often
/// equal.
std::string model_name(const evaluate::IdentityRow& row) {
  const std::filesystem::path path = row.model.lexically_normal();
  std::error_code unknown;
  if (std::filesystem::is_regular_file(path, unknown) && path.has_parent_path())
    return printable((path.parent_path().filename() / path.filename()).string(), 60);
  return printable(last_component(path), 60);
}

/// Returns the formats of the weights and, unless it is f32, of the cache.
std::string formats_of(const evaluate::IdentityRow& row) {
  std::string text = passes::quant_name(row.format);
  if (row.kv != KvFormats{}) text += ", kv " + plan::to_string(row.kv);
  return text;
}

/// Prints each row when it is complete, because later rows may take an hour or fail.
class IdentityTable {
 public:
  IdentityTable(TableFormat format, bool with_level) : format_(format), with_level_(with_level) {}

  void add(const evaluate::IdentityRow& row) {
    if (!table_) begin(row);
    std::vector<std::string> cells{model_name(row), formats_of(row)};
    for (const evaluate::IdentityCell& cell : row.cells)
      cells.push_back(cell_text(cell, row.cells.front(), format_));
    print(table_->row(cells));
    std::fflush(stdout);
  }
  void print_differences(const evaluate::IdentityReport& report, const Globals& globals) const {
    for (const evaluate::IdentityRow& row : report.rows) {
      for (const evaluate::IdentityCell& cell : row.cells) {
        if (!cell.difference) continue;
        print_beside_table(format_, globals,
                           fmt::format("{} {}, {}: {}\n", model_name(row), formats_of(row),
                                       column(cell, with_level_), explained(*cell.difference)));
      }
    }
  }

 private:
  void begin(const evaluate::IdentityRow& row) {
    using Align = Column::Align;
    constexpr std::size_t kModel = 24, kFormats = 12, kHash = 16;
    std::vector<Column> columns{{"model", Align::kLeft, kModel},
                                {"weights", Align::kLeft, kFormats}};
    for (const evaluate::IdentityCell& cell : row.cells) {
      const bool first = &cell == &row.cells.front();
      columns.push_back({column(cell, with_level_), Align::kLeft, first ? kHash : 0});
    }
    table_.emplace(format_, std::move(columns));
    print(table_->head());
  }

  const TableFormat format_;
  const bool with_level_;
  std::optional<Table> table_;
};

Result<int> identity(const IdentityCommand& command, const Globals& globals) {
  LLMC_TRY(const auto options, options_of(command, globals));
  if (options.targets.empty())
    return usage_error("no target runs on this machine",
                       "`llmc targets --cc` prints the reasons; tools/cross.sh fetches emulators");
  Progress line(globals);
  const bool json = globals.json || command.format == TableFormat::kJson;
  IdentityTable table(command.format,
                      options.opt_levels != std::vector<std::uint32_t>{target::kMaxOptLevel});
  const auto row_done = [&, first = true](const evaluate::IdentityRow& row) mutable {
    line.clear();
    if (first) {
      note(globals,
           fmt::format(
               "{} in chunks of {}, then {}; hash of the bits of all logits after each token",
               counted(options.tokens, "prompt token"), command.chunks,
               counted(options.steps, "greedy step")));
    }
    first = false;
    if (!json) table.add(row);
  };
  LLMC_TRY(const auto report, evaluate::measure_identity(options, progress_of(line), row_done));
  line.clear();
  if (json) {
    print_json(to_json(options, report));
  } else {
    table.print_differences(report, globals);
  }
  if (report.differences() == 0) return 0;
  std::size_t cells = 0;
  for (const evaluate::IdentityRow& row : report.rows) cells += row.cells.size();
  return failure(
      ErrorKind::kMismatch,
      fmt::format("{} of {} cells differ from the first of their row", report.differences(), cells),
      "a kernel does not follow the order of operations in docs/numerics.md");
}

}  // namespace

Action add_identity(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<IdentityCommand>();
  app.add_option("MODEL", command->models, "Folders of models, or .onnx files")
      ->required()
      ->type_name("");
  app.add_option("--quant", command->formats, "Weight formats (default: q4m)")->type_name("LIST");
  app.add_option("--kv", command->caches,
                 "KV cache format; may be repeated (default: f16; with f32 weights, "
                 "f32)")
      ->allow_extra_args(false)
      ->type_name("FORMAT");
  app.add_option("--targets", command->targets,
                 "Targets, the first one is the reference (default: all that run here, natively or "
                 "under an emulator)")
      ->check(refuse_empty)
      ->type_name("LIST");
  app.add_option("--opt-level", command->levels, "Optimization levels (default: 3)")
      ->type_name("LIST");
  app.add_option("--accelerate", command->devices,
                 fmt::format("Accelerators for prompts: none, {} (default: none); emulated targets "
                             "compute their regions on the CPU",
                             target::device_names()))
      ->type_name("LIST");
  app.add_option("-t,--threads", command->threads, "Numbers of threads (default: 1,2,4)")
      ->type_name("LIST");
  app.add_option("--chunk", command->chunks,
                 "Chunk sizes in tokens, all checked within a cell (default: 1,7,32)")
      ->type_name("LIST");
  add_token_count(app, "--tokens", command->tokens, 1, plan::kMaxContext / 2,
                  "Length of the prompt, a fixed sequence, in tokens (default: 64)");
  add_token_count(app, "--steps", command->steps, 0, plan::kMaxContext / 2,
                  "Greedy steps after the prompt (default: 64)");
  app.add_option("--emulator", command->emulators, "Emulator of a target; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TARGET=COMMAND");
  app.add_option("--cc", command->cc, "clang++ to use (default: $LLMC_CC, clang++-19, clang++)")
      ->type_name("PROGRAM");
  app.add_option("--cflag", command->cflags, "Additional clang argument; may be repeated")
      ->allow_extra_args(false)
      ->type_name("ARG");
  app.add_flag("--no-cache", command->no_cache, "Do not use the cache of compiled models");
  add_table_format(app, command->format);
  return [command, &globals] { return identity(*command, globals); };
}

}  // namespace llmc::cli
