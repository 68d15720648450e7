#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The ONNX type of floats. The IR computes float16 and bfloat16 in f32, so their types are
/// followed here, by the names of values; a value whose type is not known has none.
class FloatTypes {
 public:
  /// `data_type`: TensorProto.data_type; ignored unless it is float, float16 or bfloat16.
  void set(const std::string& name, int data_type);
  std::optional<int> find(const std::string& name) const;
  void erase(const std::string& name) { types_.erase(name); }
  /// Works out the types of the node's outputs. Returns what is wrong when ONNX requires operands
  /// of one type and they have different ones.
  std::optional<std::string> infer(const onnx::NodeProto& node);

 private:
  std::map<std::string, int> types_;
};

/// Compares what a file declares of its values (inputs, outputs, value_info) with what is computed.
/// A wrong element type or rank is an error. A wrong size is a warning, because exporters write
/// them; the size that is computed counts.
class DeclaredValues {
 public:
  explicit DeclaredValues(const OnnxFile& file);

  /// Adds the declarations of a branch; leave() removes them.
  void enter(const onnx::GraphProto& branch);
  void leave(const onnx::GraphProto& branch);

  /// Notes what graph input `value` is bound to. A caller may bind another element type or rank;
  /// then what the file declares of other values says nothing, and only sizes are compared.
  void note_input(const onnx::ValueInfoProto& value, const ir::TensorType& bound);
  /// `node`: what makes the value, for messages; nullptr when no node does. `float_type`: of
  /// FloatTypes. `compare_elements`: whether the value has the element type that ONNX computes.
  Status check(const std::string& name, const ir::TensorType& computed, const onnx::NodeProto* node,
               std::optional<int> float_type, bool compare_elements = true);

  std::vector<Diagnostic> take_warnings() { return std::move(warnings_); }

 private:
  /// Warns of a declared size that is another number; of an input also of one that is open.
  void warn_of_size(const onnx::ValueInfoProto& declared, const ir::TensorType& computed,
                    bool is_input);

  const OnnxFile& file_;
  std::multimap<std::string_view, const onnx::ValueInfoProto*> declared_;
  bool inputs_as_declared_ = true;
  std::vector<Diagnostic> warnings_;
};

}  // namespace llmc::importer
