#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/onnx/graph_import.h"

/// Names and order of a graph's nodes, for order_graph and for the branches that are met while a
/// graph is converted.
namespace llmc::importer {

/// kBadInput naming the file and the node.
Diagnostic bad_node(const OnnxFile& file, const std::string& node, std::string message,
                    std::string hint = {});

/// The node's name, or its first output where it has none.
std::string node_name(const onnx::NodeProto& node);

/// What makes each name: a node's index, or one of these.
inline constexpr int kInitializer = -1, kInput = -2;
using Makers = std::map<std::string, int>;

/// What makes each value of `proto`. Fills in the initializers and inputs of `graph`. Fails when a
/// name is made twice.
Result<Makers> find_makers(const OnnxFile& file, const onnx::GraphProto& proto,
                           OrderedGraph& graph);

/// The nodes that `outputs` need. `outer`: `proto` is a branch, which may read names made outside.
Result<std::vector<bool>> find_live(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Makers& makers, const std::vector<std::string>& outputs,
                                    bool outer);

/// The live nodes in execution order. Sorts all nodes, because ONNX forbids a cycle among those
/// that no output needs, too; among the nodes that are ready, the first in the file comes first, so
/// that a file in order keeps it.
Result<std::vector<int>> sort_nodes(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Makers& makers, const std::vector<bool>& live);

}  // namespace llmc::importer
