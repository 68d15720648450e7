#include <fmt/format.h>

#include <memory>
#include <utility>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/compile.h"
#include "tools/llmc/build_options.h"
#include "tools/llmc/bundle_text.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {
namespace {

/// kUsage for an option that cannot change a bundle.
Status check_bundle_options(const BuildOptions& command) {
  const bool given = command.function.function || !command.function.dims.empty() ||
                     command.grammar.given() || command.weights_option->count() > 0 ||
                     command.system_prompt.file_option->count() > 0 ||
                     command.system_prompt.tokens_option->count() > 0;
  if (!given) return ok_status();
  return usage_error(
      "--function, --dim, --weights, a grammar or a system prompt cannot change a compiled bundle",
      "remove the option, or compile the model again with it");
}

Result<int> plan(const BuildOptions& command, const Globals& globals) {
  if (driver::looks_like_bundle(command.model.model)) {
    LLMC_RETURN_IF_ERROR(compile_options(command.model));
    LLMC_RETURN_IF_ERROR(check_bundle_options(command));
    LLMC_TRY(const auto limit, parse_bytes(command.max_ram, "--max-ram"));
    return show_bundle(command.model.model, /*files=*/false, limit, globals);
  }
  LLMC_TRY(auto options, driver_options(command));
  // Sizes over the budget are printed too, because the user has to reduce them.
  const std::uint64_t max_ram = std::exchange(options.max_ram, 0);
  LLMC_TRY(const auto chosen, chosen_targets(command.model));
  std::vector<std::string> targets;
  for (const ChosenTarget& target : chosen) targets.push_back(target.name);

  LLMC_RETURN_IF_ERROR(driver::check_options(options, targets));
  Progress line(globals);
  LLMC_TRY(auto source, import_source(command, options, globals, line));
  LLMC_TRY(const auto planned,
           driver::plan_model(options, std::move(source), targets, progress_of(line)));
  line.clear();
  Json list = Json::array();
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const plan::Plan& plan = planned[i];
    if (globals.json) {
      list.push_back(plan_json(plan));
      list.back()["target_reason"] = chosen[i].reason;
    } else {
      print((i == 0 ? "" : "\n") + target_line(*plan.options.target, chosen[i]) + plan_text(plan) +
            "\n");
    }
  }
  if (globals.json) print_targets(list);
  flush_stdout();  // before the notes, if both streams go to the same place
  note_plan(command, planned.front(), globals);
  for (const plan::Plan& plan : planned) LLMC_RETURN_IF_ERROR(plan::check_budget(plan, max_ram));
  return 0;
}

}  // namespace

Action add_plan(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<BuildOptions>();
  add_build_options(app, *command, ModelUse::kPlan);
  return [command, &globals] { return plan(*command, globals); };
}

}  // namespace llmc::cli
