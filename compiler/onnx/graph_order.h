#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/onnx/graph_import.h"

/// Names and order of a graph's nodes: for order_graph, and for branches while a graph is
/// converted.
namespace llmc::importer {

/// An error about a node or value of a file.
Diagnostic bad_node(const OnnxFile& file, const std::string& node, std::string message,
                    std::string hint = {}, ErrorKind kind = ErrorKind::kBadInput);

/// The node's name, or its first output if it has none.
std::string node_name(const onnx::NodeProto& node);

/// The definition of each name: a node's index, or one of these.
inline constexpr int kInitializer = -1, kInput = -2;
using Definitions = std::map<std::string, int>;

/// Returns the definitions of `proto`'s values and fills in the initializers and inputs of `graph`.
/// kBadInput if a name is defined twice.
Result<Definitions> find_definitions(const OnnxFile& file, const onnx::GraphProto& proto,
                                     OrderedGraph& graph);

/// Returns for each node whether `outputs` depend on it. `outer`: `proto` is a branch, which may
/// read outer names.
Result<std::vector<bool>> find_live(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Definitions& definitions,
                                    const std::vector<std::string>& outputs, bool outer);

/// Returns the live nodes in execution order. Sorts all nodes, because ONNX forbids cycles among
/// unused nodes too. The sort is stable: nodes that are already in order keep their order.
Result<std::vector<int>> sort_nodes(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Definitions& definitions, const std::vector<bool>& live);

}  // namespace llmc::importer
