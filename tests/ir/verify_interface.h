#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/support/result.h"

namespace llmc::ir::testing {

inline Diagnostic broken(std::string message, const std::string& name) {
  return {.kind = ErrorKind::kInternal, .node = name, .message = std::move(message)};
}

inline const TensorType* find_type(const Graph& graph, const std::vector<ValueId>& among,
                                   const std::string& name) {
  const auto at = std::ranges::find(among, name, [&](ValueId id) { return graph.value(id).name; });
  return at == among.end() ? nullptr : &graph.value(*at).type;
}

/// Returns whether `type` is the type of the state for some number of tokens.
inline bool is_state(const State& state, const TensorType& type) {
  if (state.kind == StateKind::kSource)
    return type.element == ElementType::kF32 && type.rank() == 4 && type.dims[0] == Dim(2) &&
           type.dims[1] == Dim(state.kv_heads) && type.dims[3] == Dim(state.head_dim);
  if (state.kind == StateKind::kRecurrent)
    return type.element == ElementType::kF32 && type.rank() > 1 &&
           type.dims[0] == Dim::symbol("seq");
  const bool tokens_first = state.layout == CacheLayout::kSequenceFirst;
  return type.element == ElementType::kF32 && type.rank() == 5 && type.dims[0] == Dim(2) &&
         type.dims[1] == Dim(1) && type.dims[tokens_first ? 3 : 2] == Dim(state.kv_heads) &&
         type.dims[4] == Dim(state.head_dim);
}

/// Checks that the names in states and interface are inputs and outputs of their entries, that no
/// value has two purposes, that states have the types of module.h, and interface values the element
/// types of module.h. Fails with kInternal for the first violation.
inline Status verify_interface(const Module& module) {
  const Graph& graph = module.graph();
  std::set<std::string> used;
  for (const State& state : module.states) {
    const TensorType* before = find_type(graph, graph.inputs(), state.input);
    if (!before || !is_state(state, *before) || !used.insert(state.input).second)
      return broken("is not the input of one state", state.input);
    if (state.kind == StateKind::kSource) {
      const Graph* const encoder = module.encoder();
      const TensorType* made =
          encoder ? find_type(*encoder, encoder->outputs(), state.input) : nullptr;
      if (!made || !is_state(state, *made))
        return broken("is not an output of the encoder", state.input);
      continue;
    }
    const TensorType* after = find_type(graph, graph.outputs(), state.output);
    if (!after || !is_state(state, *after) || !used.insert(state.output).second)
      return broken("is not the output of one state", state.output);
  }
  const Interface& named = module.interface;
  struct Role {
    const std::string& name;
    bool input;
    ElementType element;
  };
  for (const Role& role :
       {Role{named.token_ids, true, ElementType::kI64}, Role{named.mask, true, ElementType::kF32},
        Role{named.positions, true, ElementType::kI64},
        Role{named.position_axes, true, ElementType::kI64},
        Role{named.logits, false, ElementType::kF32},
        Role{named.hidden, false, ElementType::kF32}}) {
    if (role.name.empty()) continue;
    const TensorType* type =
        find_type(graph, role.input ? graph.inputs() : graph.outputs(), role.name);
    if (!type || type->element != role.element || !used.insert(role.name).second)
      return broken("has a role in the interface that it cannot have", role.name);
  }
  return ok_status();
}

}  // namespace llmc::ir::testing
