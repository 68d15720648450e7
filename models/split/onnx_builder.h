#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compiler/support/result.h"

namespace llmc::models {

/// A declared dim: a size or the name of a symbol.
using DeclaredDim = std::variant<std::int64_t, std::string>;

/// An attribute of a node: an integer, integers, a float or a string.
struct Attribute {
  std::string name;
  std::variant<std::int64_t, std::vector<std::int64_t>, float, std::string> value;
};

/// Generates elements [first, first + out.size()) of a tensor with two-byte elements (f16, bf16)
/// when they are written.
using HalfStream = std::function<void(std::uint64_t first, std::span<std::uint16_t> out)>;

/// Builder of ONNX graphs. Values are named by the caller or numbered. Tensor data is stored as
/// raw_data, as exporters do. `model` is public, so that tests can make it invalid.
class OnnxBuilder {
 public:
  /// `float_type` is the TensorProto type of inputs, outputs and constants created with `floats`.
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
  /// Adds a tensor that is never in memory as a whole: write() requests its elements in order. The
  /// float type must have two bytes.
  std::string streamed(const std::string& name, const std::vector<std::int64_t>& dims,
                       HalfStream elements);
  std::string scalar(float value);
  std::string integers(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);  // rank 0

  /// Appends a node with one output, named `result` (or numbered); returns that name.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {}, std::string result = {});
  onnx::NodeProto& raw_node(const std::string& op, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs,
                            const std::vector<Attribute>& attributes = {});
  // Operators whose axes changed from an attribute to an operand.
  std::string unsqueeze(const std::string& x, const std::vector<std::int64_t>& axes,
                        std::string result = {});
  std::string reduce_mean(const std::string& x, std::int64_t axis);
  std::string reshape(const std::string& x, const std::vector<std::int64_t>& shape,
                      std::string result = {});

  /// Returns the content of the file. The graph must not have streamed tensors.
  std::string serialize() const;
  /// Writes the file. Streamed tensors are generated and written in parts.
  Status write(const std::filesystem::path& path) const;

 private:
  std::string fresh() { return "v" + std::to_string(counter_++); }
  onnx::TensorProto& tensor(const std::string& name, int element,
                            const std::vector<std::int64_t>& dims);
  std::int64_t opset_;
  int float_type_;
  int counter_ = 0;
  struct Streamed {
    onnx::TensorProto tensor;  // without data
    HalfStream elements;
  };
  std::vector<Streamed> streamed_;
};

/// Returns the bytes of `values` in a TensorProto float type.
std::string encode_floats(std::span<const float> values, int float_type);
/// Returns `value` rounded to the TensorProto float type.
float round_to(float value, int float_type);

}  // namespace llmc::models
