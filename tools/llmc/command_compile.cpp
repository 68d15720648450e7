#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "compiler/driver/compile.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/grammar_options.h"
#include "tools/llmc/options.h"
#include "tools/llmc/plan_text.h"
#include "tools/llmc/system_prompt_options.h"

namespace llmc::cli {
namespace {

struct CompileCommand {
  ModelOptions model;
  FunctionOptions function;
  SystemPromptOptions system_prompt;
  std::string out;
  std::string weights = "embed";
  std::string dump_ir;
  std::string max_ram;
  GrammarOptions grammar;
};

/// Writes NN-pass.ir files as passes run. Keeps the first failure for the end.
class IrDump {
 public:
  explicit IrDump(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
  }
  void write(std::string_view pass, const std::string& text) {
    const auto path = folder_ / fmt::format("{:02}-{}.ir", count_++, pass);
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
  return Diagnostic{.kind = ErrorKind::kBadInput,
                    .file = dump->failed(),
                    .message = "could not be written",
                    .hint = "--dump-ir takes a folder that can be written"};
}

int compile_function(const driver::CompileOptions& options, const Globals& globals, Progress& line,
                     const IrDump* dump) {
  const auto bundle = driver::compile_function(options, progress_of(line));
  line.clear();
  if (!bundle.ok()) return fail(bundle.error());
  if (const Status dumped = check_dump(dump); !dumped.ok()) return fail(dumped.error());
  if (globals.json) {
    print_json(Json{{"folder", bundle->folder.string()},
                    {"name", bundle->name},
                    {"target", options.target},
                    {"files", bundle->files},
                    {"plan", Json::parse(plan::to_json(bundle->plan))}});
    return 0;
  }
  note(globals, plan_text(bundle->plan));
  print(fmt::format("{}\n", bundle->folder.string()));
  return 0;
}

int compile(const CompileCommand& command, const Globals& globals) {
  auto options = compile_options(command.model);
  if (!options.ok()) return fail(options.error());
  if (const Status status = apply(command.function, *options); !status.ok())
    return fail(status.error());
  if (const Status status = apply(command.system_prompt, *options); !status.ok())
    return fail(status.error());
  options->out_dir = command.out;
  options->weights =
      command.weights == "file" ? driver::WeightsPlace::kFile : driver::WeightsPlace::kEmbed;
  auto max_ram = parse_bytes(command.max_ram, "--max-ram");
  if (!max_ram.ok()) return fail(max_ram.error());
  options->max_ram = *max_ram;
  if (const Status given = take_grammar(command.grammar, *options); !given.ok())
    return fail(given.error());

  std::unique_ptr<IrDump> dump;
  if (!command.dump_ir.empty()) dump = std::make_unique<IrDump>(command.dump_ir);
  options->want_ir = dump != nullptr;
  Progress line(globals);
  options->on_pass = [&](std::string_view pass, double seconds, const std::string& text) {
    if (dump) dump->write(pass, text);
    if (globals.verbose > 1) note(globals, fmt::format("{:8.1f} ms  pass {}", seconds * 1e3, pass));
  };

  const auto function = driver::is_function(*options);
  if (!function.ok()) return fail(function.error());
  if (*function) return compile_function(*options, globals, line, dump.get());
  const auto bundle = driver::compile_model(*options, progress_of(line));
  line.clear();
  if (!bundle.ok()) return fail(bundle.error());
  if (const Status dumped = check_dump(dump.get()); !dumped.ok()) return fail(dumped.error());
  if (globals.verbose > 0)
    for (const auto& [phase, seconds] : bundle->times)
      note(globals, fmt::format("{:8.2f} s   {}", seconds, phase));

  note_warnings(globals, bundle->plan);
  if (globals.json) {
    Json files = Json::array();
    for (const std::string& file : bundle->files) files.push_back(file);
    print_json(Json{{"folder", bundle->folder.string()},
                    {"name", bundle->name},
                    {"target", options->target},
                    {"files", files},
                    {"plan", Json::parse(plan::to_json(bundle->plan, {}))}});
    return 0;
  }
  note(globals, plan_text(bundle->plan));
  if (const std::string& why = bundle->plan.options.tokenizer_refused; !why.empty())
    note(globals, "the bundle has no tokenizer: " + why);
  print(fmt::format("{}\n", bundle->folder.string()));
  return 0;
}

}  // namespace

Action add_compile(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<CompileCommand>();
  add_model_options(app, command->model, ModelUse::kCompile);
  add_function_options(app, command->function);
  add_grammar_options(app, command->grammar);
  add_system_prompt_options(app, command->system_prompt);
  app.add_option("-o,--output", command->out, "Folder of the bundle; an earlier bundle is replaced")
      ->required()
      ->type_name("FOLDER");
  app.add_option("--name", command->model.compile.name,
                 "Prefix of every C name (default: from MODEL)")
      ->type_name("NAME");
  app.add_option("--weights", command->weights,
                 "embed: inside the library; file: NAME.weights.bin (default: embed)")
      ->check(CLI::IsMember({"embed", "file"}))
      ->type_name("PLACE");
  app.add_option("--max-ram", command->max_ram,
                 "Fail with exit code 5 above this, such as 512K or 64M")
      ->type_name("BYTES");
  app.add_option("--dump-ir", command->dump_ir, "Folder for the graph after every pass")
      ->type_name("FOLDER");
  return [command, &globals] { return compile(*command, globals); };
}

}  // namespace llmc::cli
