#include <fmt/format.h>

#include <memory>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/source.h"
#include "tools/llmc/bundle_text.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/grammar_options.h"
#include "tools/llmc/options.h"
#include "tools/llmc/plan_text.h"
#include "tools/llmc/system_prompt_options.h"

namespace llmc::cli {
namespace {

struct PlanCommand {
  ModelOptions model;
  FunctionOptions function;
  SystemPromptOptions system_prompt;
  std::string max_ram;
  GrammarOptions grammar;
};

/// kUsage for an option that cannot change a bundle.
Status check_bundle_options(const PlanCommand& command) {
  const bool given = command.function.function || !command.function.dims.empty() ||
                     command.grammar.given() || command.system_prompt.file_option->count() > 0 ||
                     command.system_prompt.tokens_option->count() > 0;
  if (!given) return ok_status();
  return usage_error(
      "--function, --dim, a grammar or a system prompt cannot change a compiled bundle",
      "remove the option, or compile the model again with it");
}

Result<int> plan(const PlanCommand& command, const Globals& globals) {
  LLMC_TRY(auto options, compile_options(command.model));
  if (driver::looks_like_bundle(command.model.model)) {
    LLMC_RETURN_IF_ERROR(check_bundle_options(command));
    LLMC_TRY(const auto limit, parse_bytes(command.max_ram, "--max-ram"));
    return show_bundle(command.model.model, /*files=*/false, limit, globals);
  }
  LLMC_RETURN_IF_ERROR(apply(command.function, options));
  LLMC_RETURN_IF_ERROR(apply(command.system_prompt, options));
  LLMC_TRY(const auto max_ram, parse_bytes(command.max_ram, "--max-ram"));
  LLMC_RETURN_IF_ERROR(take_grammar(command.grammar, options));

  LLMC_TRY(const auto chosen, chosen_targets(command.model));
  std::vector<std::string> targets;
  for (const ChosenTarget& target : chosen) targets.push_back(target.name);

  LLMC_RETURN_IF_ERROR(driver::check_options(options, targets));
  options.import.on_warning = warn_once(globals);
  Progress line(globals);
  LLMC_TRY(auto source, import_source(options, globals, line));
  if (source.is_function) note_without_effect(command.model, globals);
  LLMC_TRY(const auto planned,
           driver::plan_model(options, std::move(source), targets, progress_of(line)));
  line.clear();
  Json list = Json::array();
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const plan::Plan& plan = planned[i];
    if (globals.json) {
      list.push_back(Json::parse(plan::to_json(plan, {})));
      list.back()["target_reason"] = chosen[i].reason;
    } else {
      print((i == 0 ? "" : "\n") + target_line(*plan.options.target, chosen[i]) + plan_text(plan) +
            "\n");
    }
  }
  if (globals.json) print_json(list.size() == 1 ? list.front() : list);
  flush_stdout();  // before the notes, if both streams go to the same place
  note_warnings(globals, planned.front());
  if (command.model.quant_option->count() > 0)
    note_kept_codes(globals, plan::rounding_of(planned.front().program), command.model.quant);
  // Sizes over the budget are printed too, because the user has to reduce them.
  for (const plan::Plan& plan : planned) LLMC_RETURN_IF_ERROR(plan::check_budget(plan, max_ram));
  return 0;
}

}  // namespace

Action add_plan(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<PlanCommand>();
  add_model_options(app, command->model, ModelUse::kPlan);
  add_function_options(app, command->function);
  add_grammar_options(app, command->grammar);
  add_system_prompt_options(app, command->system_prompt);
  app.add_option("--max-ram", command->max_ram,
                 "Maximum arena size, such as 512K or 64M; exit code 5 above it")
      ->type_name("BYTES");
  return [command, &globals] { return plan(*command, globals); };
}

}  // namespace llmc::cli
