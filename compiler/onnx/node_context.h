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

/// State of the conversion of one file: its values by the file's names, and how they were made.
struct Scope {
  std::map<std::string, ir::ValueId> values;
  /// Map from each f32 value that was widened from an f16 or bf16 constant to that constant.
  std::map<ir::ValueId, ir::ValueId> narrow;
  /// Components of values that are stacked along a new first axis. A Gather of one component
  /// returns it.
  std::map<ir::ValueId, std::vector<ir::ValueId>> stacks;
  /// Constants as the file stores them, by value; f16 constants also by the widened value.
  std::map<ir::ValueId, ir::ConstantPtr> constants;
  /// Rows gathered from a constant matrix: value -> (table, indices).
  std::map<ir::ValueId, std::pair<ir::ConstantPtr, ir::ValueId>> gathered;
  bool exact_casts = false;  // Bindings::exact_casts
  /// TensorProto.data_type of initializers, inputs and other values, if declared.
  std::map<std::string, int> declared_types;
  /// First outputs of the nodes whose dynamic quantization is bypassed (float_products() below).
  std::set<std::string> float_products;
  std::string prefix;  // prepended to value names, which makes names of several files differ
  std::string full_name(const std::string& name) const;
};

/// Appends a constant and returns its value. For f16 and bf16 also appends a Cast to f32, and
/// returns the value of the Cast.
Result<ir::ValueId> append_constant(ir::Builder& builder, Scope& scope, ir::ConstantPtr data,
                                    const std::string& name, const ir::Origin& origin);

/// Returns the first outputs of the nodes in `graph` whose dynamic quantization can be bypassed:
///  - DynamicQuantizeLinear, if only products and convolutions with constant weights read its codes
///    and zero point, and each of them is multiplied once by the scale
///  - DynamicQuantizeMatMul with a constant matrix
/// Returns an empty set if the graph has branches.
std::set<std::string> float_products(const onnx::GraphProto& graph);

/// One ONNX node during conversion: operands, attributes, results. After the first error, further
/// calls have no effect. Converters therefore need no error handling; the caller checks error()
/// once.
class NodeContext {
 public:
  NodeContext(ir::Builder& builder, FileSet& files, const OnnxFile& file,
              const onnx::NodeProto& node, std::int64_t opset, Scope& scope);

  std::int64_t opset() const { return opset_; }

  // ---- operands
  std::size_t input_count() const { return inputs_.size(); }
  bool has(std::size_t i) const;
  /// Returns operand i. Reports an error if it is missing.
  ir::ValueId in(std::size_t i);
  /// Returns operand i, or kNoValue if it is missing.
  ir::ValueId optional_in(std::size_t i) const { return has(i) ? inputs_[i] : ir::kNoValue; }
  /// Marks operand i as read, although it has no effect. It may be missing.
  void ignore_operand(std::size_t i) const { has(i); }
  std::vector<ir::ValueId> all_inputs();
  const ir::TensorType& type(ir::ValueId value) const { return builder_.graph().value(value).type; }
  std::int64_t rank(ir::ValueId value) const;
  /// Returns the elements of operand i if all are known integers (ir::ShapeValues), otherwise
  /// nullopt.
  std::optional<std::vector<std::int64_t>> known_integers(std::size_t i) const;
  /// Returns the elements of operand i if they are known as sizes (ir::ShapeValues), otherwise
  /// nullptr.
  const std::vector<ir::Dim>* known_dims(std::size_t i) const {
    return has(i) ? builder_.shape_values().find(inputs_[i]) : nullptr;
  }
  /// Returns the f16 or bf16 constant that `value` was widened from, or nullopt.
  std::optional<ir::ValueId> narrow(ir::ValueId value) const;
  /// Returns operand i as the file stores it (f16 not widened), or nullptr if it is not constant.
  ir::ConstantPtr constant(std::size_t i) const;
  /// Returns the element of operand i if it has one element, which is a constant or a known
  /// integer; otherwise nullopt.
  std::optional<double> known_number(std::size_t i) const;
  /// Reports an error if a constant index in operand i is outside [-size, size), where the size for
  /// index k is sizes[k % sizes.size()]. Does not check more than 2^22 indices.
  void check_indices(std::size_t i, const std::vector<ir::Dim>& sizes);
  /// Returns table and indices if operand i consists of rows gathered from a constant matrix,
  /// otherwise nullptr.
  const std::pair<ir::ConstantPtr, ir::ValueId>* gathered(std::size_t i) const;
  void note_gathered(std::size_t slot, ir::ConstantPtr table, ir::ValueId indices);
  /// Returns whether this node's dynamic quantization is bypassed (Bindings::float_products).
  bool bypasses_quantization() const;
  /// Returns the name of operand i in the file.
  std::string input_name(std::size_t i) const;
  /// Returns the declared TensorProto.data_type of operand i; 0 if it is not declared.
  int declared_type(std::size_t i) const;
  /// Returns the values stacked in `value`, or nullptr.
  const std::vector<ir::ValueId>* stack(ir::ValueId value) const;

  // ---- attributes; a wrong type is an error
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  float number(std::string_view name, float fallback);
  std::string text(std::string_view name, std::string fallback);
  std::optional<std::vector<std::int64_t>> integers(std::string_view name);
  std::optional<std::vector<float>> numbers(std::string_view name);
  ir::ConstantPtr tensor(std::string_view name);  // nullptr when absent
  /// Returns an axis attribute for a tensor of rank `rank`, counted from the front.
  std::int64_t axis(std::string_view name, std::int64_t fallback, std::int64_t rank);
  /// Returns the axes from attribute `name` or, from operator-set version `input_since` on, from
  /// the constant operand i: nonnegative, ascending, distinct. Returns nullopt if there is neither.
  std::optional<std::vector<std::int64_t>> axes(std::string_view name, std::int64_t input_since,
                                                std::size_t i, std::int64_t rank);

  /// Marks the attribute as read, although it has no effect. It may be missing.
  void ignore(std::string_view name) const { find(name); }
  /// Reports an error for operands and attributes that the converter did not read. They belong to
  /// another version of the operator, and ignoring them would change the result.
  void refuse_unread();

  bool exact_casts() const { return scope_.exact_casts; }

  // ---- results
  std::size_t output_count() const { return static_cast<std::size_t>(node_.output_size()); }
  bool wants(std::size_t slot) const;
  /// Appends an IR node whose results are this node's outputs.
  void emit(ir::Op op, std::vector<ir::ValueId> inputs);
  /// Appends an IR node with one intermediate result and returns it.
  ir::ValueId make(ir::Op op, std::vector<ir::ValueId> inputs);
  /// Like make(), for any number of results. Returns an empty list after an error.
  std::vector<ir::ValueId> make_all(ir::Op op, std::vector<ir::ValueId> inputs);
  /// Returns `value` as a constant if it is small and computed from constants and known sizes
  /// alone, otherwise `value` itself.
  ir::ValueId computed(ir::ValueId value);
  ir::ValueId make_constant(ir::ConstantPtr data, const std::string& name = {});
  ir::ValueId make_integers(std::vector<std::int64_t> values);
  /// Returns a scalar of the element type of `like`.
  ir::ValueId make_scalar(double value, ir::ValueId like);
  /// Binds output `slot` of this node to `value`. If `value` has no name, it gets the output's
  /// name.
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
  /// Returns whether a value that is not constant has a dim of 0.
  bool is_empty(ir::ValueId value) const;
  std::string value_name(std::size_t slot) const;
  /// Reports an error if the product of the known dims of `value` does not fit i64.
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
  /// Operands and attributes that the converter has read. Mutable, because the accessors are const.
  mutable std::vector<bool> inputs_read_;
  mutable std::set<std::string, std::less<>> attributes_read_;
  std::optional<Diagnostic> error_;
};

}  // namespace llmc::importer
