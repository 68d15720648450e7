#include "compiler/ir/builder.h"

namespace llmc::ir {

Builder::Builder() : Builder(Graph{}) {}

Builder::Builder(Graph graph)
    : graph_(std::move(graph)), known_(ShapeValues::of(graph_)), fresh_(graph_) {
  for (const Value& value : graph_.values())
    if (!value.name.empty()) names_.emplace(value.name, 2);
}

ValueId Builder::input(std::string name, TensorType type, InputKind kind, std::int64_t layer) {
  fresh_.avoid(type);
  return graph_.add_input({unique_name(name), std::move(type), kind, layer});
}

ValueId Builder::constant(ConstantPtr data, std::string name, Origin origin) {
  const ValueId id = graph_.append_constant(std::move(data), unique_name(name), std::move(origin));
  known_.record(graph_, graph_.nodes().back());
  return id;
}

Result<std::vector<ValueId>> Builder::add(Op op, std::vector<ValueId> inputs, Origin origin,
                                          std::vector<std::string> names) {
  Node node{std::move(op), std::move(inputs), {}, std::move(origin)};
  LLMC_TRY(auto types, infer(graph_, node, known_, fresh_));
  for (std::size_t i = 0; i < types.size(); ++i)
    node.outputs.push_back(graph_.add_value(
        {i < names.size() ? unique_name(names[i]) : std::string(), std::move(types[i])}));
  auto outputs = node.outputs;
  graph_.add_node(std::move(node));
  known_.record(graph_, graph_.nodes().back());
  return outputs;
}

Result<ValueId> Builder::add_one(Op op, std::vector<ValueId> inputs, Origin origin,
                                 std::string name) {
  LLMC_TRY(auto outputs,
           add(std::move(op), std::move(inputs), std::move(origin), {std::move(name)}));
  LLMC_CHECK(outputs.size() == 1);
  return outputs[0];
}

std::string Builder::unique_name(const std::string& name) {
  if (name.empty()) return name;
  const auto [it, is_new] = names_.emplace(name, 2);
  if (is_new) return name;
  while (true) {
    auto candidate = name + "_" + std::to_string(it->second++);
    if (names_.emplace(candidate, 2).second) return candidate;
  }
}

}  // namespace llmc::ir
