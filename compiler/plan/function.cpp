#include "compiler/plan/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/plan/function_lower.h"

namespace llmc::plan {

Result<FunctionPlan> plan_function(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                                   const FunctionOptions& options) {
  FunctionPlan plan;
  plan.options = options;
  LLMC_TRY(plan.program, FunctionLowering(graph, inputs).run());
  // C knows no arrays of no bytes, and NAME_run takes no NULL.
  constexpr std::uint64_t kSmallestArena = 64;
  plan.arena_bytes = std::max(place_arena(plan.program), kSmallestArena);
  plan.weights_bytes = place_weights(plan.program);
  return plan;
}

Status check_budget(const FunctionPlan& plan, std::uint64_t max_ram) {
  if (max_ram == 0 || plan.arena_bytes <= max_ram) return ok_status();
  return Diagnostic{.kind = ErrorKind::kOverBudget,
                    .message = fmt::format(
                        "the function needs an arena of {} bytes, more than the {} of --max-ram",
                        plan.arena_bytes, max_ram),
                    .hint = "smaller sizes with --dim need less"};
}

std::string to_json(const FunctionPlan& plan) {
  using Json = nlohmann::ordered_json;
  const auto ports = [](const std::vector<FunctionPort>& list) {
    Json array = Json::array();
    for (const FunctionPort& port : list) {
      Json dims = Json::array();
      for (const std::int64_t dim : port.dims) dims.push_back(dim);
      array.push_back(Json{{"name", port.name},
                           {"type", ir::to_string(port.element)},
                           {"dims", dims},
                           {"bytes", port.bytes()}});
    }
    return array;
  };
  std::uint64_t values = 0;
  Json buffers = Json::array();
  for (const FunctionBuffer& buffer : plan.program.buffers) {
    if (buffer.place != Place::kArena || buffer.first_stage > buffer.last_stage) continue;
    values += buffer.bytes();
    buffers.push_back(Json{{"name", buffer.name},
                           {"offset", buffer.offset},
                           {"bytes", buffer.bytes()},
                           {"stages", {buffer.first_stage, buffer.last_stage}}});
  }
  const Json json{{"kind", "function"},
                  {"name", plan.options.name},
                  {"target", plan.options.target->name},
                  {"opt_level", plan.options.target->opt_level},
                  {"options", {{"weights", plan.options.embed_weights ? "embed" : "file"}}},
                  {"inputs", ports(plan.program.inputs)},
                  {"outputs", ports(plan.program.outputs)},
                  {"stages", plan.program.stages.size()},
                  {"bytes",
                   {{"weights", plan.weights_bytes},
                    {"arena", plan.arena_bytes},
                    {"values", values},
                    {"code", plan.code_bytes}}},
                  {"buffers", buffers}};
  // Names are the model's own bytes; those that are no UTF-8 become U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmc::plan
