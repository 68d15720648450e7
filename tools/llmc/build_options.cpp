#include "tools/llmc/build_options.h"

#include "tools/llmc/plan_text.h"

namespace llmc::cli {

namespace {

constexpr std::uint32_t kMaxStages = 1024;

}  // namespace

void add_build_options(CLI::App& app, BuildOptions& options, ModelUse use) {
  add_model_options(app, options.model, use);
  add_function_options(app, options.function);
  add_grammar_options(app, options.grammar);
  add_system_prompt_options(app, options.system_prompt);
  options.weights_option =
      app.add_option(
             "--weights", options.weights,
             "Storage of weights, embed: in the library, file: NAME.weights.bin (default: embed)")
          ->check(CLI::IsMember({"embed", "file"}))
          ->type_name("PLACE");
  options.model.decoder_only.push_back(
      add_whole_number(app, "--stages", options.stages, 2, kMaxStages,
                       "Cut the model into N libraries of consecutive layers, for N machines"));
  app.add_option("--max-ram", options.max_ram,
                 "Maximum arena size, such as 512K or 64M; exit code 5 above it")
      ->type_name("BYTES");
}

Result<driver::CompileOptions> driver_options(const BuildOptions& options) {
  LLMC_TRY(driver::CompileOptions compile, compile_options(options.model));
  LLMC_RETURN_IF_ERROR(apply(options.function, compile));
  LLMC_RETURN_IF_ERROR(apply(options.system_prompt, compile));
  LLMC_TRY(compile.max_ram, parse_bytes(options.max_ram, "--max-ram"));
  compile.weights =
      options.weights == "file" ? driver::WeightsStorage::kFile : driver::WeightsStorage::kEmbed;
  LLMC_TRY(compile.grammar, grammar_source(options.grammar));
  return compile;
}

Result<driver::Source> import_source(const BuildOptions& options, driver::CompileOptions& compile,
                                     const Globals& globals, Progress& line) {
  compile.import.on_warning = warn_once(globals);
  note_model_file(globals, options.model.model);
  LLMC_TRY(driver::Source source, driver::read_source(compile, progress_of(line)));
  if (source.is_function) note_without_effect(options.model, globals);
  return source;
}

void note_plan(const BuildOptions& options, const plan::Plan& plan, const Globals& globals) {
  note_warnings(globals, plan);
  if (options.model.quant_option->count() > 0)
    note_kept_codes(globals, plan::rounding_of(plan.program), options.model.quant);
}

void print_targets(const Json& list) {
  print_json(list.size() == 1 ? list.front() : list);
}

}  // namespace llmc::cli
