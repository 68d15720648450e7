#include <fmt/format.h>

#include <algorithm>

#include "compiler/plan/lower.h"

/// Lowers recurrent states. A state has a buffer with its value after each token of a chunk. Its
/// value before a token is the row of the previous token.
namespace llmc::plan {

ir::ValueId Lowerer::new_state(ir::ValueId input) const {
  const auto caches = std::ranges::count(graph_.inputs(), ir::InputKind::kAttentionCache,
                                         [&](ir::ValueId id) { return graph_.value(id).kind; });
  // The outputs are the logits, the caches and the states (ir/module.h).
  const auto index = static_cast<std::size_t>(1 + caches + graph_.value(input).layer);
  return index < graph_.outputs().size() ? graph_.outputs()[index] : ir::kNoValue;
}

void Lowerer::bind_state(Scope& scope, ir::ValueId input) {
  const auto rows = rows_of(scope.graph.value(input).type);
  if (!rows || rows->one_row || !new_state(input).exists()) {
    diagnostics_.push_back(
        {.kind = ErrorKind::kUnsupported,
         .node = scope.graph.value(input).name,
         .message = "a recurrent state must have a fixed size for each sequence"});
    return;
  }
  const auto slot = static_cast<std::uint32_t>(program_.states.size());
  program_.buffers.push_back({.name = fmt::format("state_{}", slot),
                              .width = rows->width,
                              .place = Place::kState,
                              .slot = slot});
  const auto index = static_cast<std::uint32_t>(program_.buffers.size() - 1);
  program_.states.push_back(
      {.before = BufferId{index}, .width = rows->width, .offset = program_.state_bytes()});
  state_inputs_.push_back(input);
  binding(scope, input) = StateBinding{slot};
}

std::set<std::uint32_t> Lowerer::nodes_of_recurrences(const Scope& scope) const {
  std::set<std::uint32_t> found;
  const auto& nodes = scope.graph.nodes();
  for (std::size_t slot = 0; slot < state_inputs_.size(); ++slot) {
    // Values that depend on the state before a token, and values on which its new value depends.
    std::set<ir::ValueId> after{state_inputs_[slot]}, needed{new_state(state_inputs_[slot])};
    std::vector<bool> depends(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      depends[i] = std::ranges::any_of(nodes[i].inputs,
                                       [&](ir::ValueId value) { return after.contains(value); });
      if (depends[i]) after.insert(nodes[i].outputs.begin(), nodes[i].outputs.end());
    }
    for (std::size_t i = nodes.size(); i-- > 0;) {
      if (std::ranges::none_of(nodes[i].outputs,
                               [&](ir::ValueId value) { return needed.contains(value); }))
        continue;
      needed.insert(nodes[i].inputs.begin(), nodes[i].inputs.end());
      if (depends[i]) found.insert(static_cast<std::uint32_t>(i));
    }
    // Also the readers of the state, because kernels cannot read states.
    for (const ir::NodeId user : scope.uses.users(state_inputs_[slot])) found.insert(user.index);
  }
  return found;
}

BufferId Lowerer::copied(Scope& scope, ir::ValueId value, BufferId from) {
  const ir::Node& node = *scope.uses.producer(value);
  const ir::ElementType element = program_.buffers[from.index].element;
  const auto width = static_cast<std::int64_t>(program_.buffers[from.index].width);
  const std::string& name = scope.graph.value(value).name;
  const BufferId to{
      scope.scratch(node, element, width, name.empty() ? "value" : name, "copy  " + name)};
  const MapStage copy{View::dense(to.index, {width}),
                      load(element, View::dense(from.index, {width}))};
  scope.emit(node, Stage{copy, node.origin, {}});
  return to;
}

Status Lowerer::finish_states(Scope& scope) {
  // Recomputing a state runs the tokens of several calls again, whose last positions are not known.
  if (!state_inputs_.empty() && !scope.of_call.empty())
    return Diagnostic{.kind = ErrorKind::kUnsupported,
                      .message =
                          "a choice by the length of the text is not supported beside recurrent "
                          "states",
                      .hint = "use a --ctx for which the choice is always the same"};
  for (std::size_t slot = 0; slot < state_inputs_.size(); ++slot) {
    RecurrentState& state = program_.states[slot];
    const ir::ValueId output = new_state(state_inputs_[slot]);
    auto next = stored(scope, output);
    if (next && program_.buffers[next->index].place != Place::kArena)
      next = copied(scope, output, *next);
    const bool own = next && !program_.buffers[next->index].one_row &&
                     program_.buffers[next->index].width == state.width &&
                     program_.buffers[next->index].element == ir::ElementType::kF32;
    if (!own)
      return Diagnostic{.kind = ErrorKind::kUnsupported,
                        .node = graph_.value(output).name,
                        .message =
                            "the new value of a recurrent state is not computed for each "
                            "token"};
    state.next = *next;
  }
  return order_recurrences(program_);
}

}  // namespace llmc::plan
