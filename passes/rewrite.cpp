#include "passes/rewrite.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

namespace llmc::passes {

using ir::Node;
using ir::ValueId;

Rewriter::Rewriter(ir::Graph graph)
    : graph_(std::move(graph)),
      original_(static_cast<NodeIndex>(graph_.nodes().size())),
      alive_(graph_.nodes().size(), true),
      producer_(graph_.values().size(), -1),
      slot_(graph_.values().size(), 0),
      users_(graph_.values().size()),
      output_uses_(graph_.values().size(), 0),
      input_(graph_.values().size(), false),
      known_(ir::ShapeValues::of(graph_)),
      fresh_(graph_) {
  for (NodeIndex i = 0; i < original_; ++i) {
    const Node& n = graph_.nodes()[i];
    for (std::size_t s = 0; s < n.outputs.size(); ++s) {
      producer_[n.outputs[s].index] = i;
      slot_[n.outputs[s].index] = s;
    }
    for (ValueId input : n.inputs)
      if (input.exists()) users_[input.index].push_back(i);
  }
  for (ValueId output : graph_.outputs()) ++output_uses_[output.index];
  for (ValueId input : graph_.inputs()) input_[input.index] = true;
}

const Node& Rewriter::node(NodeIndex index) const {
  return index < original_ ? graph_.nodes()[index] : added_[index - original_];
}

Node& Rewriter::node_mutable(NodeIndex index) {
  return index < original_ ? graph_.mutable_nodes()[index] : added_[index - original_];
}

std::optional<Rewriter::NodeIndex> Rewriter::producer_index(ValueId value) const {
  if (!value.exists() || producer_.at(value.index) < 0) return std::nullopt;
  return static_cast<NodeIndex>(producer_[value.index]);
}

const Node* Rewriter::producer(ValueId value) const {
  const auto index = producer_index(value);
  return index ? &node(*index) : nullptr;
}

ir::ConstantPtr Rewriter::constant(ValueId value) const {
  const auto* found = op<ir::ConstantOp>(value);
  return found ? found->data : nullptr;
}

bool Rewriter::is_output(ValueId value) const {
  return output_uses_.at(value.index) > 0;
}

bool Rewriter::is_input(ValueId value) const {
  return input_.at(value.index);
}

std::string Rewriter::name(ValueId value) const {
  const auto it = wanted_names_.find(value);
  return it != wanted_names_.end() ? it->second : graph_.value(value).name;
}

std::size_t Rewriter::use_count(ValueId value) const {
  return users_.at(value.index).size() + output_uses_[value.index];
}

Rewriter::NodeIndex Rewriter::add(Node node, NodeIndex anchor) {
  const auto index = static_cast<NodeIndex>(original_ + added_.size());
  for (std::size_t s = 0; s < node.outputs.size(); ++s) {
    LLMC_CHECK(node.outputs[s].index == producer_.size());
    producer_.push_back(index);
    slot_.push_back(s);
    users_.emplace_back();
    output_uses_.push_back(0);
    input_.push_back(false);
  }
  for (ValueId input : node.inputs) {
    if (!input.exists()) continue;
    revive(input);
    users_[input.index].push_back(index);
  }
  anchor_.push_back(anchor < original_ ? anchor : anchor_.at(anchor - original_));
  alive_.push_back(true);
  added_.push_back(std::move(node));
  known_.record(graph_, added_.back());
  return index;
}

std::vector<ValueId> Rewriter::emit_all(ir::Op op, std::vector<ValueId> inputs, NodeIndex anchor) {
  Node made{std::move(op), std::move(inputs), {}, node(anchor).origin};
  auto types = ir::infer(graph_, made, known_, fresh_);
  if (!types.ok()) {
    if (!error_) error_ = std::move(types).error();
    return std::vector<ValueId>(
        3, graph_.inputs().empty() ? node(0).outputs.at(0) : graph_.inputs().front());
  }
  for (ir::TensorType& t : *types) made.outputs.push_back(graph_.add_value({{}, std::move(t)}));
  std::vector<ValueId> outputs = made.outputs;
  add(std::move(made), anchor);
  return outputs;
}

ValueId Rewriter::emit(ir::Op op, std::vector<ValueId> inputs, NodeIndex anchor) {
  return emit_all(std::move(op), std::move(inputs), anchor).at(0);
}

ValueId Rewriter::emit_constant(ir::ConstantPtr data, NodeIndex anchor, std::string name) {
  const ValueId value = emit(ir::ConstantOp{std::move(data)}, {}, anchor);
  if (!name.empty() && !error_) wanted_names_.emplace(value, std::move(name));
  return value;
}

void Rewriter::set_origin(ValueId value, ir::Origin origin) {
  if (const auto index = producer_index(value); index && !error_)
    node_mutable(*index).origin = std::move(origin);
}

ir::Origin Rewriter::origin(ValueId value) const {
  const Node* made_by = producer(value);
  return made_by ? made_by->origin : ir::Origin{};
}

void Rewriter::remove_use(ValueId value, NodeIndex user) {
  auto& list = users_[value.index];
  if (auto it = std::ranges::find(list, user); it != list.end()) list.erase(it);
}

void Rewriter::kill_if_unused(ValueId value) {
  std::vector<ValueId> pending{value};
  while (!pending.empty()) {
    const ValueId v = pending.back();
    pending.pop_back();
    const auto index = producer_index(v);
    if (!index || !alive_[*index]) continue;
    const Node& n = node(*index);
    if (std::ranges::any_of(n.outputs, [&](ValueId o) { return use_count(o) > 0; })) continue;
    alive_[*index] = false;
    for (ValueId input : n.inputs) {
      if (!input.exists()) continue;
      remove_use(input, *index);
      pending.push_back(input);
    }
  }
}

/// Restores the producer of `value` and, recursively, those of its operands if they were removed,
/// because a match may use a value whose node was removed.
void Rewriter::revive(ValueId value) {
  std::vector<ValueId> pending{value};
  while (!pending.empty()) {
    const auto index = producer_index(pending.back());
    pending.pop_back();
    if (!index || alive_[*index]) continue;
    alive_[*index] = true;
    for (ValueId input : node(*index).inputs) {
      if (!input.exists()) continue;
      users_[input.index].push_back(*index);
      pending.push_back(input);
    }
  }
}

bool Rewriter::needs_identity(ValueId from, ValueId to) const {
  return is_output(from) && (is_input(to) || is_output(to) || constant(to));
}

void Rewriter::replace(ValueId from, ValueId to) {
  if (error_ || from == to) return;
  LLMC_CHECK(from.exists() && to.exists());
  LLMC_CHECK(type(from).element == type(to).element && type(from).rank() == type(to).rank());
  changed_ = true;
  revive(to);
  const std::vector<NodeIndex> readers = std::exchange(users_[from.index], {});
  for (NodeIndex user : readers)
    for (ValueId& input : node_mutable(user).inputs)
      if (input == from) {
        input = to;
        users_[to.index].push_back(user);
      }
  if (is_output(from)) {
    ValueId result = to;
    const NodeIndex anchor = producer_index(from).value_or(0);
    if (needs_identity(from, to)) {
      result = emit(ir::Unary{ir::UnaryKind::kIdentity}, {to}, anchor);
      if (error_) return;
    }
    for (ValueId& output : graph_.mutable_outputs())
      if (output == from) output = result;
    output_uses_[result.index] += std::exchange(output_uses_[from.index], 0);
    graph_.value(result).name = std::exchange(graph_.value(from).name, {});
  } else {
    renamed_.emplace_back(from, to);
  }
  kill_if_unused(from);
}

ValueId Rewriter::add_input(ir::Value value) {
  fresh_.avoid(value.type);
  const ValueId id = graph_.add_input(std::move(value));
  LLMC_CHECK(id.index == producer_.size());
  producer_.push_back(-1);
  slot_.push_back(0);
  users_.emplace_back();
  output_uses_.push_back(0);
  input_.push_back(true);
  return id;
}

void Rewriter::set_input_type(ValueId input, ir::TensorType type) {
  LLMC_CHECK(is_input(input));
  graph_.value(input).type = std::move(type);
}

void Rewriter::drop_input_if_unused(ValueId value) {
  if (!is_input(value) || use_count(value) != 0) return;
  std::erase(graph_.mutable_inputs(), value);
  input_[value.index] = false;
}

/// Sorts the nodes by Kahn's algorithm. Of several ready nodes, the first in the original order is
/// next.
Result<std::vector<Rewriter::NodeIndex>> Rewriter::execution_order() const {
  const auto total = static_cast<NodeIndex>(original_ + added_.size());
  std::vector<bool> live(total, false);
  std::vector<NodeIndex> pending;
  const auto need = [&](ValueId value) {
    const auto index = producer_index(value);
    if (!index || live[*index]) return;
    live[*index] = true;
    pending.push_back(*index);
  };
  for (ValueId output : graph_.outputs()) need(output);
  while (!pending.empty()) {
    const NodeIndex index = pending.back();
    pending.pop_back();
    for (ValueId input : node(index).inputs) need(input);
  }
  const auto key = [&](NodeIndex i) {
    const bool is_added = i >= original_;
    return std::tuple(is_added ? anchor_[i - original_] : i, !is_added, i);
  };
  const auto later = [&](NodeIndex a, NodeIndex b) { return key(a) > key(b); };
  std::priority_queue<NodeIndex, std::vector<NodeIndex>, decltype(later)> ready(later);
  std::vector<std::size_t> missing(total, 0);
  std::size_t live_count = 0;
  for (NodeIndex i = 0; i < total; ++i) {
    if (!live[i]) continue;
    ++live_count;
    for (ValueId input : node(i).inputs) missing[i] += producer_index(input).has_value();
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<NodeIndex> order;
  while (!ready.empty()) {
    const NodeIndex index = ready.top();
    ready.pop();
    order.push_back(index);
    for (ValueId output : node(index).outputs)
      for (NodeIndex user : users_[output.index])
        if (live[user] && --missing[user] == 0) ready.push(user);
  }
  if (order.size() != live_count)
    return failure(ErrorKind::kInternal, "a rewrite made the graph cyclic");
  return order;
}

namespace {

/// Builds a graph from a subset of the nodes of another.
ir::Graph rebuild(const ir::Graph& from, const std::vector<const Node*>& nodes) {
  ir::Graph graph;
  graph.name = from.name;
  std::vector<ValueId> map(from.values().size());
  for (ValueId input : from.inputs()) map[input.index] = graph.add_input(from.value(input));
  for (const Node* old : nodes) {
    Node copy{old->op, {}, {}, old->origin};
    for (ValueId input : old->inputs)
      copy.inputs.push_back(input.exists() ? map[input.index] : ir::kNoValue);
    for (ValueId output : old->outputs)
      copy.outputs.push_back(map[output.index] = graph.add_value(from.value(output)));
    graph.add_node(std::move(copy));
  }
  for (ValueId output : from.outputs()) graph.add_output(map[output.index]);
  return graph;
}

}  // namespace

Result<ir::Graph> Rewriter::finish() && {
  if (error_) return std::move(*error_);
  LLMC_TRY(const std::vector<NodeIndex> order, execution_order());
  std::vector<const Node*> nodes;
  std::set<ValueId> kept;
  for (NodeIndex index : order) {
    nodes.push_back(&node(index));
    kept.insert(nodes.back()->outputs.begin(), nodes.back()->outputs.end());
  }
  for (const auto& [from, to] : renamed_) {
    ir::Value& target = graph_.value(to);
    if (target.name.empty() && !kept.contains(from))
      target.name = std::exchange(graph_.value(from).name, {});
  }
  std::set<std::string> taken;
  for (ValueId value : kept) taken.insert(graph_.value(value).name);
  for (ValueId value : graph_.inputs()) taken.insert(graph_.value(value).name);
  for (auto& [value, name] : wanted_names_)
    if (kept.contains(value) && graph_.value(value).name.empty() && taken.insert(name).second)
      graph_.value(value).name = std::move(name);
  return ir::infer_graph(rebuild(graph_, nodes));
}

ir::Graph prune(const ir::Graph& graph) {
  std::vector<bool> needed(graph.values().size(), false);
  for (ValueId output : graph.outputs()) needed[output.index] = true;
  std::vector<const Node*> nodes;
  for (auto it = graph.nodes().rbegin(); it != graph.nodes().rend(); ++it) {
    if (std::ranges::none_of(it->outputs, [&](ValueId o) { return needed[o.index]; })) continue;
    nodes.push_back(&*it);
    for (ValueId input : it->inputs)
      if (input.exists()) needed[input.index] = true;
  }
  std::ranges::reverse(nodes);
  return rebuild(graph, nodes);
}

}  // namespace llmc::passes
