#include "tests/random/reduce.h"

#include <algorithm>
#include <set>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"

namespace llmc::testing {
namespace {

const RandomValue* value_named(const RandomModel& model, const std::string& name) {
  const auto it = std::ranges::find(model.values, name, &RandomValue::name);
  return it == model.values.end() ? nullptr : &*it;
}

/// Values of graph outputs by name, or none when the model cannot be evaluated.
std::map<std::string, reference::Tensor> evaluate(const RandomModel& model) {
  const TemporaryFolder folder;
  model.builder.save(folder.path() / "m.onnx");
  const auto imported = importer::import_model(folder.path() / "m.onnx");
  if (!imported.ok()) return {};
  const auto results = reference::evaluate(imported->graph(), model.inputs);
  if (!results.ok()) return {};
  std::map<std::string, reference::Tensor> named;
  for (std::size_t i = 0; i < results->size(); ++i)
    named[model.builder.model.graph().output(static_cast<int>(i)).name()] = results->at(i);
  return named;
}

/// Without nodes, inputs and constants that no output needs.
void prune(RandomModel& model) {
  auto& graph = model.builder.graph();
  std::set<std::string> needed;
  for (const auto& output : graph.output()) needed.insert(output.name());
  std::vector<onnx::NodeProto> kept;
  for (int i = graph.node_size(); i-- > 0;) {
    const auto& node = graph.node(i);
    if (std::ranges::none_of(node.output(), [&](const auto& o) { return needed.contains(o); }))
      continue;
    needed.insert(node.input().begin(), node.input().end());
    kept.push_back(node);
  }
  graph.clear_node();
  for (auto it = kept.rbegin(); it != kept.rend(); ++it) *graph.add_node() = *it;
  for (int i = graph.initializer_size(); i-- > 0;)
    if (!needed.contains(graph.initializer(i).name()))
      graph.mutable_initializer()->DeleteSubrange(i, 1);
  for (int i = graph.input_size(); i-- > 0;) {
    if (needed.contains(graph.input(i).name())) continue;
    graph.mutable_input()->DeleteSubrange(i, 1);
    model.inputs.erase(model.inputs.begin() + i);
  }
}

/// The model with output `index` alone.
RandomModel with_output(const RandomModel& model, int index) {
  RandomModel smaller = model;
  const auto output = model.builder.model.graph().output(index);
  smaller.builder.graph().clear_output();
  *smaller.builder.graph().add_output() = output;
  prune(smaller);
  return smaller;
}

/// The model with the results of node `index` as inputs that hold what it computes.
std::optional<RandomModel> without_node(const RandomModel& model, int index) {
  const auto node = model.builder.model.graph().node(index);
  RandomModel probe = model;
  probe.builder.graph().clear_output();
  for (const auto& name : node.output()) {
    const RandomValue* value = value_named(model, name);
    if (!value) return std::nullopt;
    probe.builder.output(name, value->element, {value->dims.begin(), value->dims.end()});
  }
  prune(probe);
  const auto computed = evaluate(probe);
  RandomModel smaller = model;
  for (const auto& name : node.output()) {
    const auto it = computed.find(name);
    const RandomValue* value = value_named(model, name);
    if (it == computed.end()) return std::nullopt;
    if (std::ranges::any_of(model.builder.model.graph().output(),
                            [&](const auto& o) { return o.name() == name; }))
      return std::nullopt;
    smaller.builder.input(name, value->element, {value->dims.begin(), value->dims.end()});
    smaller.inputs.push_back(it->second);
  }
  smaller.builder.graph().mutable_node()->DeleteSubrange(index, 1);
  prune(smaller);
  return smaller;
}

}  // namespace

RandomModel reduce(RandomModel model, const std::function<bool(const RandomModel&)>& fails) {
  for (int i = 0; i < model.builder.model.graph().output_size(); ++i) {
    RandomModel smaller = with_output(model, i);
    if (!fails(smaller)) continue;
    model = std::move(smaller);
    break;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < model.builder.model.graph().node_size(); ++i) {
      auto smaller = without_node(model, i);
      if (!smaller || smaller->builder.model.graph().node_size() == 0 || !fails(*smaller)) continue;
      model = std::move(*smaller);
      changed = true;
      break;
    }
  }
  return model;
}

}  // namespace llmc::testing
