#pragma once

#include <string>

#include "compiler/ir/module.h"
#include "compiler/ir/verify.h"

namespace llmc::ir::testing {

inline Diagnostic broken(const State& state, std::string message) {
  return {.kind = ErrorKind::kInternal,
          .node = std::to_string(state.layer),
          .message = std::move(message)};
}

inline InputKind input_kind(StateKind kind) {
  switch (kind) {
    case StateKind::kAttentionCache:
      return InputKind::kAttentionCache;
    case StateKind::kSource:
      return InputKind::kSource;
    case StateKind::kRecurrent:
      return InputKind::kRecurrent;
  }
  return InputKind::kNone;
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

/// Checks that each state has its input, and its output or its value from the encoder, of the types
/// and in the order of module.h. The node of the error is the layer of the first wrong state.
inline Status verify_states(const Module& module) {
  const Graph& graph = module.graph();
  const auto fits = [](const State& state, const Graph& of, const std::vector<ValueId>& values,
                       std::size_t index) {
    return index < values.size() && is_state(state, of.value(values[index]).type);
  };
  std::size_t outputs = 1;  // after the logits
  for (const State& state : module.states) {
    const ValueId before = graph.input(input_kind(state.kind), state.layer);
    if (!before.exists() || !is_state(state, graph.value(before).type))
      return broken(state, "the state has no input of its type");
    if (state.kind == StateKind::kSource) {
      const Graph* const encoder = module.encoder();
      if (!encoder ||
          !fits(state, *encoder, encoder->outputs(), static_cast<std::size_t>(state.layer)))
        return broken(state, "the state is not an output of the encoder");
    } else if (!fits(state, graph, graph.outputs(), outputs++)) {
      return broken(state, "the state is not an output");
    }
  }
  if (module.is_decoder() && graph.outputs().size() != outputs)
    return Diagnostic{.kind = ErrorKind::kInternal, .message = "an output has no state"};
  return ok_status();
}

}  // namespace llmc::ir::testing
