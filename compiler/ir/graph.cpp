#include "compiler/ir/graph.h"

#include <algorithm>

#include "compiler/support/check.h"

namespace llmc::ir {

ValueId Graph::add_value(Value value) {
  LLMC_CHECK(values_.size() < UINT32_MAX);
  values_.push_back(std::move(value));
  return ValueId{static_cast<std::uint32_t>(values_.size() - 1)};
}

ValueId Graph::add_input(Value value) {
  const ValueId id = add_value(std::move(value));
  inputs_.push_back(id);
  return id;
}

NodeId Graph::add_node(Node node) {
  for (const ValueId input : node.inputs)
    LLMC_CHECK(!input.exists() || input.index < values_.size());
  for (const ValueId output : node.outputs) LLMC_CHECK(output.index < values_.size());
  nodes_.push_back(std::move(node));
  return NodeId{static_cast<std::uint32_t>(nodes_.size() - 1)};
}

ValueId Graph::append(Op op, std::vector<ValueId> inputs, TensorType type, Origin origin,
                      std::string value_name) {
  const ValueId result = add_value({std::move(value_name), std::move(type)});
  add_node({std::move(op), std::move(inputs), {result}, std::move(origin)});
  return result;
}

ValueId Graph::append_constant(ConstantPtr data, std::string value_name, Origin origin) {
  LLMC_CHECK(data != nullptr);
  TensorType type{data->element(), {data->dims().begin(), data->dims().end()}};
  return append(ConstantOp{std::move(data)}, {}, std::move(type), std::move(origin),
                std::move(value_name));
}

const Value& Graph::value(ValueId id) const {
  LLMC_CHECK(id.index < values_.size());
  return values_[id.index];
}

Value& Graph::value(ValueId id) {
  LLMC_CHECK(id.index < values_.size());
  return values_[id.index];
}

const Node& Graph::node(NodeId id) const {
  LLMC_CHECK(id.index < nodes_.size());
  return nodes_[id.index];
}

ValueId Graph::input(InputKind kind, std::int64_t layer) const {
  for (const ValueId id : inputs_)
    if (value(id).kind == kind && value(id).layer == layer) return id;
  return kNoValue;
}

bool Graph::is_decoder() const {
  return std::ranges::any_of(inputs_,
                             [&](ValueId id) { return value(id).kind != InputKind::kNone; });
}

UseDef::UseDef(const Graph& graph)
    : graph_(graph),
      producer_(graph.values().size(), -1),
      users_(graph.values().size()),
      outputs_(graph.values().size(), 0) {
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const ValueId input : node.inputs)
      if (input.exists()) users_[input.index].push_back(NodeId{static_cast<std::uint32_t>(n)});
    for (const ValueId output : node.outputs)
      producer_[output.index] = static_cast<std::int64_t>(n);
  }
  for (const ValueId output : graph.outputs()) ++outputs_[output.index];
}

const Node* UseDef::producer(ValueId value) const {
  if (!value.exists() || producer_[value.index] < 0) return nullptr;
  return &graph_.nodes()[static_cast<std::size_t>(producer_[value.index])];
}

std::size_t UseDef::use_count(ValueId value) const {
  return users_[value.index].size() + outputs_[value.index];
}

const std::vector<NodeId>& UseDef::users(ValueId value) const {
  return users_[value.index];
}

bool UseDef::is_graph_output(ValueId value) const {
  return outputs_[value.index] > 0;
}

ConstantPtr UseDef::constant(ValueId value) const {
  const auto* constant = op_as<ConstantOp>(producer(value));
  return constant ? constant->data : nullptr;
}

}  // namespace llmc::ir
