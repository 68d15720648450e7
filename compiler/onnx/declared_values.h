#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The ONNX float type of each value, by name. The IR represents float16 and bfloat16 values as
/// f32, so this class tracks the original types. Values of unknown type have no entry.
class FloatTypes {
 public:
  /// Sets the type of a value to the TensorProto.data_type `data_type`. Ignores types other than
  /// float, float16 and bfloat16.
  void set(const std::string& name, int data_type);
  std::optional<int> find(const std::string& name) const;
  void erase(const std::string& name) { types_.erase(name); }
  /// Infers the types of the node's outputs. Returns an error message if ONNX requires operands of
  /// equal type and their types differ.
  std::optional<std::string> infer(const onnx::NodeProto& node);

 private:
  std::map<std::string, int> types_;
};

/// Compares the declared types of values (inputs, outputs, value_info) with the inferred types. A
/// wrong element type or rank is an error. A wrong size is only a warning, because exporters write
/// wrong sizes; the inferred size is used.
class DeclaredValues {
 public:
  explicit DeclaredValues(const OnnxFile& file);

  /// Adds the declarations of a branch; leave() removes them.
  void enter(const onnx::GraphProto& branch);
  void leave(const onnx::GraphProto& branch);

  /// Records that graph input `value` is bound to type `bound`. If element type or rank differ from
  /// the declared ones, the declarations of other values do not apply, and check() compares only
  /// sizes.
  void note_input(const onnx::ValueInfoProto& value, const ir::TensorType& bound);
  /// Compares the declaration of value `name` with its inferred type `computed`. `node` is the node
  /// that computes the value, for messages, or nullptr. `float_type` is its type in FloatTypes.
  /// `compare_elements` is false if the element type differs on purpose. Fails with kBadInput if
  /// element type or rank differ.
  Status check(const std::string& name, const ir::TensorType& computed, const onnx::NodeProto* node,
               std::optional<int> float_type, bool compare_elements = true);

  std::vector<Diagnostic> take_warnings() { return std::move(warnings_); }

 private:
  /// Adds a warning if a declared number differs from the computed size. For an input, also if the
  /// computed size is symbolic.
  void warn_of_size(const onnx::ValueInfoProto& declared, const ir::TensorType& computed,
                    bool is_input);

  const OnnxFile& file_;
  std::multimap<std::string_view, const onnx::ValueInfoProto*> declared_;
  bool inputs_as_declared_ = true;
  std::vector<Diagnostic> warnings_;
};

}  // namespace llmc::importer
