#include "compiler/onnx/graph_order.h"

#include <queue>
#include <set>

namespace llmc::importer {
namespace {

using onnx::NodeProto;

/// Appends the names that a node reads: its operands, and outer values that its subgraphs read.
void append_reads(const NodeProto& node, std::vector<std::string>& reads);

void append_captures(const onnx::GraphProto& graph, std::vector<std::string>& reads) {
  std::set<std::string> made;
  for (const auto& value : graph.input()) made.insert(value.name());
  for (const auto& tensor : graph.initializer()) made.insert(tensor.name());
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  std::vector<std::string> inner;
  for (const auto& node : graph.node()) append_reads(node, inner);
  for (const auto& value : graph.output()) inner.push_back(value.name());
  for (auto& name : inner)
    if (!made.contains(name)) reads.push_back(std::move(name));
}

void append_reads(const NodeProto& node, std::vector<std::string>& reads) {
  for (const auto& name : node.input())
    if (!name.empty()) reads.push_back(name);
  for (const auto& attribute : node.attribute())
    if (attribute.has_g()) append_captures(attribute.g(), reads);
}

/// Returns an error for a node, used or not, that reads a value which no node computes.
Status require_definitions(const OnnxFile& file, const onnx::GraphProto& proto,
                           const Definitions& definitions) {
  for (const auto& node : proto.node())
    for (const auto& name : reads_of(node))
      if (!definitions.contains(name))
        return bad_node(file, node_name(node),
                        "the value '" + printable(name, 80) + "' is used but never made");
  return ok_status();
}

}  // namespace

std::vector<std::string> reads_of(const NodeProto& node) {
  std::vector<std::string> reads;
  append_reads(node, reads);
  return reads;
}

Diagnostic bad_node(const OnnxFile& file, const std::string& node, std::string message,
                    std::string hint, ErrorKind kind) {
  return Diagnostic{.kind = kind,
                    .file = file.name,
                    .node = node,
                    .message = std::move(message),
                    .hint = std::move(hint)};
}

std::string node_name(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : std::string();
}

Result<Definitions> find_definitions(const OnnxFile& file, const onnx::GraphProto& proto,
                                     OrderedGraph& graph) {
  if (proto.sparse_initializer_size() > 0)
    return bad_node(file, {}, "sparse tensors are not supported", {}, ErrorKind::kUnsupported);
  Definitions definitions;
  for (const auto& tensor : proto.initializer()) {
    if (tensor.name().empty()) return bad_node(file, {}, "an initializer has no name");
    if (!definitions.emplace(tensor.name(), kInitializer).second)
      return bad_node(file, tensor.name(), "two initializers have this name");
    graph.initializers[tensor.name()] = &tensor;
  }
  for (const auto& input : proto.input()) {
    if (input.name().empty()) return bad_node(file, {}, "a graph input has no name");
    if (graph.initializers.contains(input.name())) continue;  // a default value
    if (!definitions.emplace(input.name(), kInput).second)
      return bad_node(file, input.name(), "two graph inputs have this name");
    graph.inputs.push_back(&input);
  }
  for (int i = 0; i < proto.node_size(); ++i)
    for (const auto& name : proto.node(i).output())
      if (!name.empty() && !definitions.emplace(name, i).second)
        return bad_node(file, node_name(proto.node(i)),
                        "makes the value '" + printable(name, 80) + "', which exists already");
  return definitions;
}

Result<std::vector<bool>> find_live(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Definitions& definitions,
                                    const std::vector<std::string>& outputs, bool outer) {
  std::vector<bool> live(static_cast<std::size_t>(proto.node_size()));
  std::vector<int> pending;
  const auto need = [&](const std::string& name, const std::string& who) -> Status {
    const auto maker = definitions.find(name);
    if (maker == definitions.end() && outer) return ok_status();
    if (maker == definitions.end())
      return bad_node(file, who, "the value '" + printable(name, 80) + "' is used but never made");
    if (maker->second >= 0 && !live[static_cast<std::size_t>(maker->second)]) {
      live[static_cast<std::size_t>(maker->second)] = true;
      pending.push_back(maker->second);
    }
    return ok_status();
  };
  for (const auto& name : outputs) {
    if (!outer && !definitions.contains(name))
      return bad_node(file, name, "the graph output '" + printable(name, 80) + "' is never made");
    LLMC_RETURN_IF_ERROR(need(name, name));
  }
  while (!pending.empty()) {
    const auto& node = proto.node(pending.back());
    pending.pop_back();
    for (const auto& name : reads_of(node)) LLMC_RETURN_IF_ERROR(need(name, node_name(node)));
  }
  return live;
}

// Kahn's algorithm.
Result<std::vector<int>> sort_nodes(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Definitions& definitions, const std::vector<bool>& live) {
  std::vector<int> unmet_inputs(live.size());
  std::vector<std::vector<int>> users(live.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < proto.node_size(); ++i) {
    std::set<int> before;
    for (const auto& name : reads_of(proto.node(i))) {
      const auto maker = definitions.find(name);
      if (maker != definitions.end() && maker->second >= 0) before.insert(maker->second);
    }
    for (const int b : before) users[static_cast<std::size_t>(b)].push_back(i);
    unmet_inputs[static_cast<std::size_t>(i)] = static_cast<int>(before.size());
    if (before.empty()) ready.push(i);
  }
  std::vector<int> order;
  std::size_t sorted = 0;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    ++sorted;
    if (live[static_cast<std::size_t>(node)]) order.push_back(node);
    for (const int user : users[static_cast<std::size_t>(node)])
      if (--unmet_inputs[static_cast<std::size_t>(user)] == 0) ready.push(user);
  }
  if (sorted == live.size()) return order;
  for (int i = 0; i < proto.node_size(); ++i)
    if (unmet_inputs[static_cast<std::size_t>(i)] > 0)
      return bad_node(file, node_name(proto.node(i)), "is part of a cycle or depends on one");
  LLMC_CHECK(false);
  return order;
}

Result<OrderedGraph> order_graph(const OnnxFile& file, std::vector<std::string> outputs) {
  OrderedGraph graph;
  const auto& proto = file.model.graph();
  LLMC_TRY(const Definitions definitions, find_definitions(file, proto, graph));
  graph.outputs = std::move(outputs);
  if (graph.outputs.empty())
    for (const auto& output : proto.output()) graph.outputs.push_back(output.name());
  if (graph.outputs.empty()) return bad_node(file, {}, "the graph has no outputs");
  LLMC_TRY(const std::vector<bool> live, find_live(file, proto, definitions, graph.outputs, false));
  LLMC_RETURN_IF_ERROR(require_definitions(file, proto, definitions));
  LLMC_TRY(graph.nodes, sort_nodes(file, proto, definitions, live));
  const auto use = [&](const std::string& name) {
    if (!name.empty() && definitions.at(name) == kInput) graph.used_inputs.insert(name);
  };
  for (const auto& name : graph.outputs) use(name);
  for (const int node : graph.nodes)
    for (const auto& name : reads_of(proto.node(node))) use(name);
  return graph;
}

}  // namespace llmc::importer
