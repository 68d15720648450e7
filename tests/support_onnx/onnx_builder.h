#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace llmc::testing {

/// A declared dim: a size, or the name of a symbol.
using DeclaredDim = std::variant<std::int64_t, std::string>;

/// An attribute of a node: an integer, integers, a number or a text.
struct Attribute {
  std::string name;
  std::variant<std::int64_t, std::vector<std::int64_t>, float, std::string> value;
};

/// Writes ONNX graphs for tests. Values are named by the caller or get a number; tensor data is
/// stored raw, as exporters do. `model` is open to whatever mischief a test has in mind.
class OnnxBuilder {
 public:
  /// `float_type` is the TensorProto type of inputs, outputs and constants made with `floats`.
  explicit OnnxBuilder(std::int64_t opset, int float_type = onnx::TensorProto::FLOAT);

  onnx::ModelProto model;
  onnx::GraphProto& graph() { return *model.mutable_graph(); }

  std::string input(const std::string& name, int element, const std::vector<DeclaredDim>& dims);
  std::string float_input(const std::string& name, const std::vector<DeclaredDim>& dims) {
    return input(name, float_type_, dims);
  }
  void output(const std::string& name, int element, const std::vector<DeclaredDim>& dims);
  void float_output(const std::string& name, const std::vector<DeclaredDim>& dims) {
    output(name, float_type_, dims);
  }

  std::string floats(const std::string& name, const std::vector<std::int64_t>& dims,
                     std::span<const float> values);
  std::string scalar(float value);
  std::string integers(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);  // rank 0

  /// Appends a node with one output, named `result` (or numbered); returns that name.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {}, std::string result = {});
  onnx::NodeProto& raw_node(const std::string& op, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs,
                            const std::vector<Attribute>& attributes = {});
  // Operators whose axes moved from attribute to operand.
  std::string unsqueeze(const std::string& x, const std::vector<std::int64_t>& axes,
                        std::string result = {});
  std::string reduce_mean(const std::string& x, std::int64_t axis);
  std::string reshape(const std::string& x, const std::vector<std::int64_t>& shape,
                      std::string result = {});

  std::string serialize() const;
  /// Writes the file; with `external`, raw data of 64 bytes and more goes to `path` + ".data".
  void save(const std::filesystem::path& path, bool external = false) const;

 private:
  std::string fresh() { return "v" + std::to_string(counter_++); }
  onnx::TensorProto& tensor(const std::string& name, int element,
                            const std::vector<std::int64_t>& dims);
  std::int64_t opset_;
  int float_type_;
  int counter_ = 0;
};

/// The bytes of `values` in a TensorProto float type.
std::string encode_floats(std::span<const float> values, int float_type);
/// `value` as that type would hold it.
float round_to(float value, int float_type);

void write_bytes(const std::filesystem::path& path, std::string_view bytes);
std::string read_bytes(const std::filesystem::path& path);

/// A folder that is removed again.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace llmc::testing
