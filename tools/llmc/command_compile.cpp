#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/names.h"
#include "tools/llmc/build_options.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {
namespace {

struct CompileCommand : BuildOptions {
  std::optional<std::string> out;
  std::string dump_ir;
};

/// Writes a file NN-pass.ir after each pass and keeps the first failure.
class IrDump {
 public:
  explicit IrDump(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
  }
  void write(std::string_view pass, const std::string& text) {
    write_file(fmt::format("{:02}-{}.ir", count_++, pass), text);
  }
  void write_file(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file && failed_.empty()) failed_ = path.string();
  }
  const std::string& failed() const { return failed_; }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
  std::string failed_;
};

Status check_dump(const IrDump* dump) {
  if (dump == nullptr || dump->failed().empty()) return ok_status();
  return file_failure(ErrorKind::kBadInput, dump->failed(), "cannot be written",
                      "--dump-ir needs a writable folder");
}

/// The targets, their names, and the folder of the bundle of each.
struct Outputs {
  std::vector<ChosenTarget> chosen;
  std::vector<std::string> targets;
  std::vector<std::filesystem::path> folders;
};

/// Returns the folders of the bundles. -o is the bundle of a single target, or the parent folder of
/// NAME-TARGET for several; the default parent folder is the current one. Fails if a folder cannot
/// be a bundle's.
Result<Outputs> outputs_of(const CompileCommand& command, const driver::CompileOptions& options) {
  Outputs outputs;
  LLMC_TRY(outputs.chosen, chosen_targets(command.model));
  const bool several = outputs.chosen.size() > 1;
  if (several && command.out && driver::looks_like_bundle(*command.out)) {
    return usage_error(
        fmt::format("{} is a bundle, but with several targets -o is the parent folder of their "
                    "bundles",
                    printable(*command.out)),
        "give another folder");
  }
  const std::string name = options.name.empty() ? emit::derive_name(options.model) : options.name;
  const std::filesystem::path parent = command.out.value_or("");
  for (const ChosenTarget& target : outputs.chosen) {
    outputs.targets.push_back(target.name);
    outputs.folders.push_back(
        command.out && !several ? parent : parent / fmt::format("{}-{}", name, target.name));
  }
  for (const std::filesystem::path& folder : outputs.folders)
    LLMC_RETURN_IF_ERROR(driver::check_outside_bundles(folder));
  return outputs;
}

/// Fails with kUsage if a folder for shards is a bundle, or already contains more than `stages`
/// shards.
Status check_stage_folders(std::span<const std::filesystem::path> folders, std::uint32_t stages) {
  for (const std::filesystem::path& folder : folders) {
    std::error_code ignored;
    const auto next = folder / fmt::format("stage-{}", stages);
    if (driver::looks_like_bundle(folder))
      return usage_error(fmt::format("{} is a bundle, which the shards would not replace",
                                     printable(folder.string())),
                         "give another folder");
    if (std::filesystem::exists(next, ignored))
      return usage_error(
          fmt::format("{} is left from a model of more shards", printable(next.string())),
          "remove it, or give another folder");
  }
  return ok_status();
}

Json bundle_json(const driver::Bundle& bundle, const ChosenTarget& chosen) {
  return Json{{"folder", bundle.folder.string()},
              {"name", bundle.name},
              {"target", chosen.name},
              {"target_reason", chosen.reason},
              {"files", bundle.files},
              {"plan", plan_json(bundle.plan)}};
}

/// Compiles a model, or one of its shards, for all targets. Adds the bundles to `list`.
Status compile_source(const CompileCommand& command, const driver::CompileOptions& options,
                      driver::Source source, const Outputs& outputs, const Globals& globals,
                      Progress& line, const IrDump* dump, Json& list) {
  const double import_seconds = source.import_seconds;
  LLMC_TRY(const auto bundles, driver::compile_model(options, std::move(source), outputs.targets,
                                                     outputs.folders, progress_of(line)));
  line.clear();
  LLMC_RETURN_IF_ERROR(check_dump(dump));
  if (globals.verbose > 0) note(globals, fmt::format("{:8.2f} s   {}", import_seconds, "import"));
  note_plan(command, bundles.front().plan, globals);
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    const driver::Bundle& bundle = bundles[i];
    const ChosenTarget& chosen = outputs.chosen[i];
    if (globals.verbose > 0)
      for (const auto& [phase, seconds] : bundle.times)
        note(globals, fmt::format("{:8.2f} s   {}", seconds, phase));
    if (globals.json) {
      list.push_back(bundle_json(bundle, chosen));
      continue;
    }
    note(globals, target_line(*bundle.plan.options.target, chosen) + plan_text(bundle.plan));
    print(fmt::format("{}\n", bundle.folder.string()));
    flush_stdout();
  }
  return ok_status();
}

Result<int> compile(const CompileCommand& command, const Globals& globals) {
  LLMC_TRY(auto options, driver_options(command));
  LLMC_TRY(auto outputs, outputs_of(command, options));

  std::unique_ptr<IrDump> dump;
  if (!command.dump_ir.empty()) dump = std::make_unique<IrDump>(command.dump_ir);
  options.want_ir = dump != nullptr;
  Progress line(globals);
  options.on_pass = [&](std::string_view pass, double seconds, const std::string& text) {
    if (dump) dump->write(pass, text);
    if (globals.verbose > 1) note(globals, fmt::format("{:8.1f} ms  pass {}", seconds * 1e3, pass));
  };

  if (dump)
    options.on_text = [&](const std::string& file, const std::string& text) {
      dump->write_file(file, text);
    };

  LLMC_RETURN_IF_ERROR(driver::check_options(options, outputs.targets));
  LLMC_RETURN_IF_ERROR(driver::find_toolchain(options.cc));
  LLMC_TRY(auto source, import_source(command, options, globals, line));
  LLMC_TRY(const auto stages,
           stages_of(command, options, source, outputs.targets, options.max_ram, line));
  const auto count = static_cast<std::uint32_t>(stages.size());
  if (command.stages == "auto") options.max_ram = 0;  // already checked
  if (command.stages == "auto" && count == 1)
    remark(globals, "one machine has room for the model: it is not cut into shards");
  if (count > 1) LLMC_RETURN_IF_ERROR(check_stage_folders(outputs.folders, count));
  Json list = Json::array();
  const std::vector<std::filesystem::path> folders = outputs.folders;
  for (std::uint32_t stage = 0; stage < count; ++stage) {
    options.shard = stages[stage];
    for (std::size_t i = 0; count > 1 && i < folders.size(); ++i)
      outputs.folders[i] = folders[i] / fmt::format("stage-{}", stage);
    const bool last = stage + 1 == count;
    LLMC_RETURN_IF_ERROR(compile_source(command, options, last ? std::move(source) : source,
                                        outputs, globals, line, dump.get(), list));
  }
  if (globals.json) print_targets(list);
  return 0;
}

}  // namespace

Action add_compile(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<CompileCommand>();
  app.add_option(
         "-o,--output", command->out,
         "Folder of the bundle (default: ./NAME-TARGET); with several targets, parent folder of "
         "NAME-TARGET for each. Replaces an earlier bundle, but no other folder")
      ->type_name("FOLDER");
  app.add_option("--name", command->model.compile.name,
                 "Prefix of every C name (default: from MODEL)")
      ->check(refuse_empty)
      ->type_name("NAME");
  add_build_options(app, *command, ModelUse::kCompile);
  app.add_option("--dump-ir", command->dump_ir, "Folder for dumps of the graph after each pass")
      ->type_name("FOLDER");
  return [command, &globals] { return compile(*command, globals); };
}

}  // namespace llmc::cli
