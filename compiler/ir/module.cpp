#include "compiler/ir/module.h"

#include <algorithm>

namespace llmc::ir {

const Graph* Module::entry(EntryKind kind) const {
  const auto at = std::ranges::find(entries, kind, &Entry::kind);
  return at == entries.end() ? nullptr : &at->graph;
}

bool Module::is_recurrent() const {
  return std::ranges::find(states, StateKind::kRecurrent, &State::kind) != states.end();
}

std::int64_t Module::vocabulary() const {
  if (!is_decoder() || graph().outputs().empty()) return 0;
  const TensorType& logits = graph().value(graph().outputs().front()).type;
  return logits.rank() > 0 ? logits.dims.back().constant().value_or(0) : 0;
}

Module plain_module(Graph graph) {
  Module module;
  module.entries.push_back({EntryKind::kRun, std::move(graph)});
  return module;
}

}  // namespace llmc::ir
