#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The ONNX float type of each value, by name. The IR computes float16 and bfloat16 in f32, so
/// their types are tracked here. Values of unknown type have no entry.
class FloatTypes {
 public:
  /// `data_type`: TensorProto.data_type; ignored unless it is float, float16 or bfloat16.
  void set(const std::string& name, int data_type);
  std::optional<int> find(const std::string& name) const;
  void erase(const std::string& name) { types_.erase(name); }
  /// Infers the types of the node's outputs. Returns an error text if ONNX requires operands of one
  /// type and their types differ.
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

  /// Records the binding of graph input `value`. If its element type or rank differs from the
  /// declared one, the declarations of other values do not apply, and only sizes are compared.
  void note_input(const onnx::ValueInfoProto& value, const ir::TensorType& bound);
  /// `node`: the node that computes the value, for messages; nullptr if there is none.
  /// `float_type`: from FloatTypes. `compare_elements`: whether the value has ONNX's element type.
  Status check(const std::string& name, const ir::TensorType& computed, const onnx::NodeProto* node,
               std::optional<int> float_type, bool compare_elements = true);

  std::vector<Diagnostic> take_warnings() { return std::move(warnings_); }

 private:
  /// Warns of a declared size that differs; for an input also of a symbolic one.
  void warn_of_size(const onnx::ValueInfoProto& declared, const ir::TensorType& computed,
                    bool is_input);

  const OnnxFile& file_;
  std::multimap<std::string_view, const onnx::ValueInfoProto*> declared_;
  bool inputs_as_declared_ = true;
  std::vector<Diagnostic> warnings_;
};

}  // namespace llmc::importer
