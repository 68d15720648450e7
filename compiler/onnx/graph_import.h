#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The graph of one file, checked and ordered, before conversion to the IR.
struct OrderedGraph {
  /// Nodes needed for the requested outputs, in execution order (indices into graph().node()).
  std::vector<int> nodes;
  std::map<std::string, const onnx::TensorProto*> initializers;
  /// Graph inputs without an initializer, in the file's order.
  std::vector<const onnx::ValueInfoProto*> inputs;
  std::set<std::string> used_inputs;  // needed for the requested outputs
  std::vector<std::string> outputs;   // as requested
};

/// Orders the nodes needed for `outputs`, or for all graph outputs if it is empty. Fails with
/// kBadInput if a value is not defined or is defined more than once, an output is unknown, or the
/// graph has a cycle or no output. Fails with kUnsupported for sparse initializers.
Result<OrderedGraph> order_graph(const OnnxFile& file, std::vector<std::string> outputs = {});

/// Values to which the inputs of a file are bound, by input name.
struct Bindings {
  std::map<std::string, ir::ValueId> values;
  /// Inputs that are bound to several values, stacked along a new first axis.
  std::map<std::string, std::vector<ir::ValueId>> stacked;
  /// Whether products of dynamically quantized activations (DynamicQuantizeLinear, then for
  /// example MatMulInteger) with constant weights become float products with the dequantized
  /// weights. Decoders use this, because their kernels quantize activations with finer scales than
  /// the graph.
  bool float_products = false;
  /// Inputs that are bound to values of any size, although the file may declare one size.
  std::set<std::string> resized;
  /// Inputs that are bound to constants.
  std::map<std::string, ir::ConstantPtr> constants;
  /// Whether casts to f16 and bf16 round. In decoders they do not, because f16 values are computed
  /// in f32.
  bool exact_casts = false;
};

/// Appends the graph's nodes to `builder` and returns the outputs, in the order of `graph.outputs`.
/// `inputs` must bind every input in `graph.used_inputs`. `prefix` is prepended to value names.
/// On success, replaces the file's warnings in `files`. Fails with kBadInput if the graph is
/// invalid, and with kUnsupported if nodes are unsupported, with one diagnostic for each kind.
Result<std::vector<ir::ValueId>> append_graph(ir::Builder& builder, FileSet& files,
                                              const OnnxFile& file, const OrderedGraph& graph,
                                              const Bindings& inputs, const std::string& prefix);

/// Returns the generated name of dim `index` of `input`, which is declared without a size or name.
std::string unnamed_dim(const std::string& input, std::size_t index);

/// Returns the type that the file declares. A dim without a size becomes a symbol with the declared
/// name, a sum of symbols for a name such as "past_sequence_length + 1", or unnamed_dim(). Fails
/// with kBadInput if the rank is not declared or above kMaxRank or a dim is negative, and with
/// kUnsupported for other element types than those of the IR.
Result<ir::TensorType> declared_type(const OnnxFile& file, const onnx::ValueInfoProto& value);

}  // namespace llmc::importer
