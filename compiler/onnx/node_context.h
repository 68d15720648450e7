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

/// The values of the file that is being imported, by the file's names.
struct Scope {
  std::map<std::string, ir::ValueId> values;
  /// f16 and bf16 constants are widened to f32 when they are added; widened value -> the constant.
  std::map<ir::ValueId, ir::ValueId> narrow;
  /// Values stacked along a new first axis: a Gather of one of them returns the value itself.
  std::map<ir::ValueId, std::vector<ir::ValueId>> stacks;
  /// Constants of the file, as they are stored, by value; f16 ones by the widened value too.
  std::map<ir::ValueId, ir::ConstantPtr> constants;
  /// Rows gathered from a constant matrix: value -> (table, indices).
  std::map<ir::ValueId, std::pair<ir::ConstantPtr, ir::ValueId>> gathered;
  bool exact_casts = false;  // Bindings::exact_casts
  /// TensorProto.data_type of initializers, inputs and other values, if declared.
  std::map<std::string, int> declared_types;
  /// First outputs of the DynamicQuantizeLinear nodes that return their input unquantized.
  std::set<std::string> float_products;
  std::string prefix;  // put before value names, so that those of several files differ
  std::string full_name(const std::string& name) const;
};

/// Appends a constant; f16 and bf16 ones are followed by a Cast to f32, whose value is returned.
Result<ir::ValueId> append_constant(ir::Builder& builder, Scope& scope, ir::ConstantPtr data,
                                    const std::string& name, const ir::Origin& origin);

/// The DynamicQuantizeLinear nodes of `graph`, by first output, that can return their input
/// unquantized: their codes and zero points are read only by MatMulInteger with constant matrices,
/// and each product is multiplied once by their scale.
std::set<std::string> float_products(const onnx::GraphProto& graph);

/// One ONNX node during conversion: operands, attributes, results. The first error is kept, and
/// later calls have no effect, so that converters need no error handling; the caller checks error()
/// once.
class NodeContext {
 public:
  NodeContext(ir::Builder& builder, FileSet& files, const OnnxFile& file,
              const onnx::NodeProto& node, std::int64_t opset, Scope& scope);

  std::int64_t opset() const { return opset_; }

  // ---- operands
  std::size_t input_count() const { return inputs_.size(); }
  bool has(std::size_t i) const;
  /// Operand i; an error if it is missing.
  ir::ValueId in(std::size_t i);
  /// Operand i; kNoValue if it is missing.
  ir::ValueId optional_in(std::size_t i) const { return has(i) ? inputs_[i] : ir::kNoValue; }
  /// Marks operand i as having no effect. It may be missing.
  void ignore_operand(std::size_t i) const { has(i); }
  std::vector<ir::ValueId> all_inputs();
  const ir::TensorType& type(ir::ValueId value) const { return builder_.graph().value(value).type; }
  std::int64_t rank(ir::ValueId value) const;
  /// Elements of operand i if they are constant, directly or computed from constants.
  std::optional<std::vector<std::int64_t>> known_integers(std::size_t i) const;
  /// The f16 or bf16 constant of a value that was widened to f32.
  std::optional<ir::ValueId> narrow(ir::ValueId value) const;
  /// Operand i as the file stores it (f16 not widened); nullptr if it is not constant.
  ir::ConstantPtr constant(std::size_t i) const;
  /// The only element of operand i, if it is constant.
  std::optional<double> known_number(std::size_t i) const;
  /// Reports a constant index in operand i outside [-size, size) of the indexed dim. `sizes`: of
  /// the dims that consecutive indices refer to in turn.
  void check_indices(std::size_t i, const std::vector<ir::Dim>& sizes);
  /// The table and the indices if operand i is gathered rows of a constant matrix.
  const std::pair<ir::ConstantPtr, ir::ValueId>* gathered(std::size_t i) const;
  void note_gathered(std::size_t slot, ir::ConstantPtr table, ir::ValueId indices);
  /// Whether this node returns its input unquantized (Bindings::float_products).
  bool in_floats() const;
  /// The name of operand i in the file.
  std::string input_name(std::size_t i) const;
  /// The declared TensorProto.data_type of operand i; 0 if it is not declared.
  int declared_type(std::size_t i) const;
  /// The values stacked in `value`, or nullptr.
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
  /// Axes from attribute `name` or, from version `input_since` on, from operand i, which must be
  /// constant; nonnegative, ascending, distinct. nullopt if there is neither.
  std::optional<std::vector<std::int64_t>> axes(std::string_view name, std::int64_t input_since,
                                                std::size_t i, std::int64_t rank);

  /// Marks the attribute as having no effect. It may be missing.
  void ignore(std::string_view name) const { find(name); }
  /// Reports operands and attributes that the converter did not read: they belong to another
  /// version of the operator, and ignoring them would change the result.
  void refuse_unread();

  bool exact_casts() const { return scope_.exact_casts; }

  // ---- results
  std::size_t output_count() const { return static_cast<std::size_t>(node_.output_size()); }
  bool wants(std::size_t slot) const;
  /// Appends a node with this node's outputs.
  void emit(ir::Op op, std::vector<ir::ValueId> inputs);
  /// Appends an intermediate node with one output.
  ir::ValueId make(ir::Op op, std::vector<ir::ValueId> inputs);
  ir::ValueId make_constant(ir::ConstantPtr data, const std::string& name = {});
  ir::ValueId make_integers(std::vector<std::int64_t> values);
  /// A scalar of the element type of `like`.
  ir::ValueId make_scalar(double value, ir::ValueId like);
  /// Binds output `slot` of this node to `value`, which gets the output's name if it has none.
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
  /// Reports types whose known dims have a product that does not fit i64.
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
  /// What the converter has read; mutable because reading is const.
  mutable std::vector<bool> inputs_read_;
  mutable std::set<std::string, std::less<>> attributes_read_;
  std::optional<Diagnostic> error_;
};

}  // namespace llmc::importer
