#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The values of the file being imported, by the names the file gives them.
struct Scope {
  std::map<std::string, ir::ValueId> values;
  /// f16 and bf16 constants are widened to f32 where they enter; widened value -> the constant.
  std::map<ir::ValueId, ir::ValueId> narrow;
  /// Values made by stacking others along a new first axis; taking one of them needs no Gather.
  std::map<ir::ValueId, std::vector<ir::ValueId>> stacks;
  /// Constants of the file, as they are stored, by value; f16 ones by the widened value too.
  std::map<ir::ValueId, ir::ConstantPtr> constants;
  /// Rows taken from a constant matrix: value -> (table, indices).
  std::map<ir::ValueId, std::pair<ir::ConstantPtr, ir::ValueId>> gathered;
  bool exact_casts = false;  // Bindings::exact_casts
  /// TensorProto.data_type of initializers, inputs and other values, where the file declares it.
  std::map<std::string, int> declared_types;
  /// First outputs of the DynamicQuantizeLinear nodes that pass their input on in floats.
  std::set<std::string> float_products;
  std::string prefix;  // put before value names, so that those of several files differ
  std::string full_name(const std::string& name) const;
};

/// Appends a constant; f16 and bf16 ones are followed by a Cast to f32, whose value is returned.
Result<ir::ValueId> append_constant(ir::Builder& builder, Scope& scope, ir::ConstantPtr data,
                                    const std::string& name, const ir::Origin& origin);

/// The DynamicQuantizeLinear nodes of `graph`, by their first output, whose results only meet
/// constant matrices in MatMulInteger, with their zero point, and whose products are multiplied
/// once with their scale: there the codes stand for the floats that they were made of.
std::set<std::string> float_products(const onnx::GraphProto& graph);

/// One ONNX node on its way into the IR: operands, attributes, results. The first error sticks and
/// what comes after it does nothing, so that a converter reads as the lowering it is; the caller
/// looks at error() once.
class NodeContext {
 public:
  NodeContext(ir::Builder& builder, FileSet& files, const OnnxFile& file,
              const onnx::NodeProto& node, std::int64_t opset, Scope& scope);

  std::int64_t opset() const { return opset_; }

  // ---- operands
  std::size_t input_count() const { return inputs_.size(); }
  bool has(std::size_t i) const;
  /// Operand i, or an error that it is missing.
  ir::ValueId in(std::size_t i);
  /// Operand i, or kNoValue.
  ir::ValueId optional_in(std::size_t i) const { return has(i) ? inputs_[i] : ir::kNoValue; }
  /// Says that operand i has no effect here, whether it is there or not.
  void ignore_operand(std::size_t i) const { has(i); }
  std::vector<ir::ValueId> all_inputs();
  const ir::TensorType& type(ir::ValueId value) const { return builder_.graph().value(value).type; }
  std::int64_t rank(ir::ValueId value) const;
  /// Elements of operand i when they are known numbers (a constant, or computed from constants).
  std::optional<std::vector<std::int64_t>> known_integers(std::size_t i) const;
  /// The f16 or bf16 constant behind a value that was widened to f32.
  std::optional<ir::ValueId> narrow(ir::ValueId value) const;
  /// The constant that operand i is, as the file stores it (f16 not widened), or nullptr.
  ir::ConstantPtr constant(std::size_t i) const;
  /// The only element of operand i, when it is known.
  std::optional<double> known_number(std::size_t i) const;
  /// An error where operand i has a known index outside [-size, size) of the dim that it addresses.
  /// `sizes`: of the dims that consecutive indices address in turn.
  void check_indices(std::size_t i, const std::vector<ir::Dim>& sizes);
  /// The table and the indices when operand i is rows of a constant matrix.
  const std::pair<ir::ConstantPtr, ir::ValueId>* gathered(std::size_t i) const;
  void note_gathered(std::size_t slot, ir::ConstantPtr table, ir::ValueId indices);
  /// Whether this node passes its input on in floats (Bindings::float_products).
  bool in_floats() const;
  /// The name that the file gives operand i.
  std::string input_name(std::size_t i) const;
  /// TensorProto.data_type of operand i where the file declares it; 0 where it does not.
  int declared_type(std::size_t i) const;
  /// The values that `value` stacks, or nullptr.
  const std::vector<ir::ValueId>* stack(ir::ValueId value) const;

  // ---- attributes; a wrong type is an error
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  float number(std::string_view name, float fallback);
  std::string text(std::string_view name, std::string fallback);
  std::optional<std::vector<std::int64_t>> integers(std::string_view name);
  std::optional<std::vector<float>> numbers(std::string_view name);
  ir::ConstantPtr tensor(std::string_view name);  // nullptr when absent
  /// An axis attribute made >= 0 for a tensor of `rank`.
  std::int64_t axis(std::string_view name, std::int64_t fallback, std::int64_t rank);
  /// Axes from attribute `name` or, from `input_since` on, from operand i (which must be known);
  /// made
  /// >= 0, ascending, distinct. nullopt when neither is given.
  std::optional<std::vector<std::int64_t>> axes(std::string_view name, std::int64_t input_since,
                                                std::size_t i, std::int64_t rank);

  /// Says that the attribute has no effect here, whether it is there or not.
  void ignore(std::string_view name) const { find(name); }
  /// An error where the node has an operand or an attribute that its converter never asked for: it
  /// belongs to another version of the operator, and leaving it out would change the result.
  void refuse_unread();

  bool exact_casts() const { return scope_.exact_casts; }

  // ---- results
  std::size_t output_count() const { return static_cast<std::size_t>(node_.output_size()); }
  bool wants(std::size_t slot) const;
  /// Appends a node whose outputs are this node's.
  void emit(ir::Op op, std::vector<ir::ValueId> inputs);
  /// Appends a node with one output, a step on the way.
  ir::ValueId make(ir::Op op, std::vector<ir::ValueId> inputs);
  ir::ValueId make_constant(ir::ConstantPtr data, const std::string& name = {});
  ir::ValueId make_integers(std::vector<std::int64_t> values);
  /// A scalar of the element type of `like`.
  ir::ValueId make_scalar(double value, ir::ValueId like);
  /// Lets output `slot` of this node be `value`, which gets its name if it has none.
  void bind(std::size_t slot, ir::ValueId value);
  ir::ValueId cast(ir::ValueId value, ir::ElementType to);

  // ---- errors
  void bad(std::string message, std::string hint = {});
  void unsupported(std::string message, std::string hint = {});
  bool failed() const { return error_.has_value(); }
  const std::optional<Diagnostic>& error() const { return error_; }

 private:
  const onnx::AttributeProto* find(std::string_view name) const;
  const onnx::AttributeProto* find(std::string_view name, onnx::AttributeProto::AttributeType type);
  void fail(Diagnostic diagnostic);
  std::string value_name(std::size_t slot) const;
  /// No size that could overflow later: the product of the known dims has to fit.
  void check_size(ir::ValueId value);
  bool normalize_axis(std::int64_t& axis, std::int64_t rank);

  ir::Builder& builder_;
  FileSet& files_;
  const OnnxFile& file_;
  const onnx::NodeProto& node_;
  std::int64_t opset_;
  Scope& scope_;
  ir::Origin origin_;
  std::vector<ir::ValueId> inputs_;
  /// What the converter asked for; asking is const.
  mutable std::vector<bool> inputs_read_;
  mutable std::set<std::string, std::less<>> attributes_read_;
  std::optional<Diagnostic> error_;
};

}  // namespace llmc::importer
