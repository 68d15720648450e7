#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The graph of one file, checked and ordered, not converted yet.
struct OrderedGraph {
  /// Nodes needed for the requested outputs, in execution order (indices into graph().node()).
  std::vector<int> nodes;
  std::map<std::string, const onnx::TensorProto*> initializers;
  /// Graph inputs without an initializer, in the file's order.
  std::vector<const onnx::ValueInfoProto*> inputs;
  std::set<std::string> used_inputs;  // needed for the requested outputs
  std::vector<std::string> outputs;   // as requested
};

/// Orders the nodes needed for `outputs`; empty: all graph outputs. kBadInput for a value that is
/// computed nowhere or more than once, an unknown output, or a cycle.
Result<OrderedGraph> order_graph(const OnnxFile& file, std::vector<std::string> outputs = {});

/// The values that a file's inputs are bound to, by name.
struct Bindings {
  std::map<std::string, ir::ValueId> values;
  /// Inputs that are several values stacked along a new first axis.
  std::map<std::string, std::vector<ir::ValueId>> stacked;
  /// Products of dynamically quantized activations (DynamicQuantizeLinear, MatMulInteger with a
  /// constant matrix) become float products with the dequantized matrix: decoders quantize
  /// activations in their own kernels, with finer scales than the graph.
  bool float_products = false;
  /// Inputs that are constants.
  std::map<std::string, ir::ConstantPtr> constants;
  /// Casts to f16 and bf16 round. Decoders do not round, because they compute f16 in f32.
  bool exact_casts = false;
};

/// Appends the graph's nodes to `builder` and returns the outputs, in the order of `graph.outputs`.
/// `inputs` must bind every input in `graph.used_inputs`. `prefix` is put before value names.
/// kUnsupported with one diagnostic for each kind of unsupported node.
Result<std::vector<ir::ValueId>> append_graph(ir::Builder& builder, FileSet& files,
                                              const OnnxFile& file, const OrderedGraph& graph,
                                              const Bindings& inputs, const std::string& prefix);

/// Returns the name of a dim that has neither a size nor a name of its own.
std::string unnamed_dim(const std::string& input, std::size_t index);

/// The type that the file declares. Dims without a size become symbols of the declared name, sums
/// of symbols where the name is one ("past_sequence_length + 1"), or unnamed_dim(). Fails when no
/// element type or rank is declared.
Result<ir::TensorType> declared_type(const OnnxFile& file, const onnx::ValueInfoProto& value);

}  // namespace llmc::importer
