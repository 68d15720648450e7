#include <fmt/format.h>

#include <memory>

#include "compiler/driver/compile.h"
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

int plan(const PlanCommand& command, const Globals& globals) {
  auto options = compile_options(command.model);
  if (!options.ok()) return fail(options.error());
  if (const Status status = apply(command.function, *options); !status.ok())
    return fail(status.error());
  if (const Status status = apply(command.system_prompt, *options); !status.ok())
    return fail(status.error());
  const auto max_ram = parse_bytes(command.max_ram, "--max-ram");
  if (!max_ram.ok()) return fail(max_ram.error());
  if (const Status given = take_grammar(command.grammar, *options); !given.ok())
    return fail(given.error());

  // The sizes are shown even when they are over the budget: they are what the user has to change.
  Progress line(globals);
  const auto function = driver::is_function(*options);
  if (!function.ok()) return fail(function.error());
  if (*function) {
    const auto planned = driver::plan_function(*options, progress_of(line));
    line.clear();
    if (!planned.ok()) return fail(planned.error());
    if (globals.json) {
      print_json(Json::parse(plan::to_json(*planned)));
    } else {
      print(plan_text(*planned) + "\n");
    }
    const Status kept = plan::check_budget(*planned, *max_ram);
    return kept.ok() ? 0 : fail(kept.error());
  }
  const auto planned = driver::plan_model(*options, progress_of(line));
  line.clear();
  if (!planned.ok()) return fail(planned.error());
  if (globals.json) {
    print_json(Json::parse(plan::to_json(*planned, {})));
  } else {
    print(plan_text(*planned) + "\n");
  }
  flush_stdout();  // before the notes, where both go to one place
  note_warnings(globals, *planned);
  const Status kept = plan::check_budget(*planned, *max_ram);
  return kept.ok() ? 0 : fail(kept.error());
}

}  // namespace

Action add_plan(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<PlanCommand>();
  add_model_options(app, command->model, ModelUse::kPlan);
  add_function_options(app, command->function);
  add_grammar_options(app, command->grammar);
  add_system_prompt_options(app, command->system_prompt);
  app.add_option("--max-ram", command->max_ram,
                 "Fail with exit code 5 above this, such as 512K or 64M")
      ->type_name("BYTES");
  return [command, &globals] { return plan(*command, globals); };
}

}  // namespace llmc::cli
