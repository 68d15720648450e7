#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/compile.h"
#include "compiler/plan/schedule.h"
#include "compiler/support/file.h"
#include "tools/llmc/accelerator_text.h"
#include "tools/llmc/build_options.h"
#include "tools/llmc/bundle_text.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {
namespace {

struct PlanCommand {
  BuildOptions build;
  std::uint32_t timeline_tokens = 0;  // length of the prompt; 0: no timeline
  std::string svg;
};

/// Prints the schedule of a prompt, or adds its numbers to `json`.
Status show_timeline(const PlanCommand& command, const plan::Plan& plan, Json* json) {
  if (!plan.partition)
    return usage_error("--timeline needs a decoder that is compiled with --accelerate",
                       "add --accelerate simulated");
  if (command.timeline_tokens > plan.options.ctx)
    return usage_error(fmt::format("a prompt of {} tokens does not fit the context of {}",
                                   command.timeline_tokens, plan.options.ctx),
                       fmt::format("--ctx {}", command.timeline_tokens));
  const plan::Schedule schedule = plan::simulate(plan, command.timeline_tokens);
  if (json == nullptr) {
    print(schedule_text(schedule));
  } else {
    (*json)["timeline"] = schedule_json(schedule);
  }
  if (command.svg.empty()) return ok_status();
  return write_file(command.svg, plan::timeline_svg(schedule));
}

Result<int> plan(const PlanCommand& plan_command, const Globals& globals) {
  const BuildOptions& command = plan_command.build;
  const bool timeline = plan_command.timeline_tokens > 0;
  if (!plan_command.svg.empty() && !timeline)
    return usage_error("--timeline-svg needs --timeline", "add --timeline 1024");
  if (!plan_command.svg.empty() &&
      (command.model.target.find(',') != std::string::npos || !command.stages.empty()))
    return usage_error("--timeline-svg draws one plan", "give one target, without --stages");
  LLMC_RETURN_IF_ERROR(check_output_file("--timeline-svg", plan_command.svg));
  if (driver::looks_like_bundle(command.model.model)) {
    LLMC_RETURN_IF_ERROR(compile_options(command.model));
    if (timeline)
      return usage_error("--timeline needs the model, not a bundle",
                         "give the path that was compiled");
    LLMC_TRY(const auto limit, parse_bytes(command.max_ram, "--max-ram"));
    return show_bundle(command.model.model, /*files=*/false, limit, globals);
  }
  LLMC_TRY(auto options, driver_options(command));
  if (timeline && options.accelerate.empty())
    return usage_error("--timeline needs --accelerate", "add --accelerate simulated");
  // Print sizes even if they exceed the budget, because the user has to reduce them.
  const std::uint64_t max_ram = std::exchange(options.max_ram, 0);
  LLMC_TRY(const auto chosen, chosen_targets(command.model));
  std::vector<std::string> targets;
  for (const ChosenTarget& target : chosen) targets.push_back(target.name);

  LLMC_RETURN_IF_ERROR(driver::check_options(options, targets));
  Progress line(globals);
  LLMC_TRY(const auto source, import_source(command, options, globals, line));
  LLMC_TRY(const auto stages, stages_of(command, options, source, targets, max_ram, line));
  // With "auto", stages_of() has already checked the limit, including the weights.
  const std::uint64_t arena_limit = command.stages == "auto" ? 0 : max_ram;
  Json list = Json::array();
  std::vector<plan::Plan> planned;
  for (const plan::ShardOption& stage : stages) {
    options.shard = stage;
    LLMC_TRY(auto plans, driver::plan_model(options, source, targets, progress_of(line)));
    line.clear();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const plan::Plan& plan = plans[i];
      if (globals.json) {
        list.push_back(plan_json(plan));
        list.back()["target_reason"] = chosen[i].reason;
        if (timeline) LLMC_RETURN_IF_ERROR(show_timeline(plan_command, plan, &list.back()));
      } else {
        print((planned.empty() && i == 0 ? "" : "\n") +
              target_line(*plan.options.target, chosen[i]) + plan_text(plan) + "\n");
        if (timeline) LLMC_RETURN_IF_ERROR(show_timeline(plan_command, plan, nullptr));
      }
    }
    std::ranges::move(plans, std::back_inserter(planned));
  }
  if (globals.json) print_targets(list);
  flush_stdout();  // keep the order with notes if both streams have the same destination
  note_plan(command, planned.front(), globals);
  for (const plan::Plan& plan : planned)
    LLMC_RETURN_IF_ERROR(plan::check_budget(plan, arena_limit));
  return 0;
}

}  // namespace

Action add_plan(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<PlanCommand>();
  add_build_options(app, command->build, ModelUse::kPlan);
  add_token_count(app, "--timeline", command->timeline_tokens, 1, plan::kMaxContext,
                  "With --accelerate: draw a timeline of CPU and device for a prompt of TOKENS "
                  "tokens, from the device's declared costs");
  app.add_option("--timeline-svg", command->svg, "SVG file for the timeline")->type_name("FILE");
  return [command, &globals] { return plan(*command, globals); };
}

}  // namespace llmc::cli
