#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/onnx/graph_import.h"

/// Names and order of a graph's nodes. Used by order_graph, and for branches during conversion.
namespace llmc::importer {

/// Returns an error about a node or value of a file.
Diagnostic bad_node(const OnnxFile& file, const std::string& node, std::string message,
                    std::string hint = {}, ErrorKind kind = ErrorKind::kBadInput);

/// Returns the node's name, or the name of its first output if it has none.
std::string node_name(const onnx::NodeProto& node);

/// Special values in Definitions, which maps each name to the index of the node that defines it.
inline constexpr int kInitializer = -1, kInput = -2;
using Definitions = std::map<std::string, int>;

/// Returns the names that a node reads: its operands, and outer values that its subgraphs read.
std::vector<std::string> reads_of(const onnx::NodeProto& node);

/// Returns the definitions of `proto`'s values and fills in the initializers and inputs of `graph`.
/// Fails with kBadInput if a name is defined twice, or an initializer or input has no name, and
/// with kUnsupported for sparse initializers.
Result<Definitions> find_definitions(const OnnxFile& file, const onnx::GraphProto& proto,
                                     OrderedGraph& graph);

/// Returns for each node whether `outputs` depend on it. `outer` is true if `proto` is a branch,
/// which may read names of the enclosing graph. Otherwise fails with kBadInput for an undefined
/// name.
Result<std::vector<bool>> find_live(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Definitions& definitions,
                                    const std::vector<std::string>& outputs, bool outer);

/// Returns the live nodes in execution order. Of the nodes whose operands are available, the first
/// in the file comes next. Fails with kBadInput for a cycle, also one of unused nodes, which ONNX
/// forbids too.
Result<std::vector<int>> sort_nodes(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Definitions& definitions, const std::vector<bool>& live);

}  // namespace llmc::importer
