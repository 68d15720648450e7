#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "models/split/onnx_builder.h"
#include "tests/support/temporary_folder.h"

namespace llmc::testing {

using models::Attribute;
using models::DeclaredDim;
using models::encode_floats;
using models::round_to;

class OnnxBuilder : public models::OnnxBuilder {
 public:
  explicit OnnxBuilder(std::int64_t opset, int float_type = onnx::TensorProto::FLOAT)
      : models::OnnxBuilder(opset, float_type) {
    model.set_producer_name("llmc tests");
  }
  /// Without dims: declares no shape, and no element type but that of floats of 16 bits.
  void float_output(const std::string& name, const std::vector<DeclaredDim>& dims) {
    models::OnnxBuilder::float_output(name, dims);
    if (!dims.empty()) return;
    auto& declared = *graph().mutable_output(graph().output_size() - 1);
    auto& type = *declared.mutable_type()->mutable_tensor_type();
    type.clear_shape();
    if (type.elem_type() == onnx::TensorProto::FLOAT) declared.clear_type();
  }
  /// Adds an initializer with these bytes as its raw data.
  void raw(const std::string& name, int element, const std::vector<std::int64_t>& dims,
           const std::string& bytes) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(element);
    for (const std::int64_t dim : dims) tensor.add_dims(dim);
    tensor.set_raw_data(bytes);
  }
  /// Writes the file; with `external`, raw data of 64 bytes and more goes to `path` + ".data".
  void save(const std::filesystem::path& path, bool external = false) const;
};

void write_bytes(const std::filesystem::path& path, std::string_view bytes);
std::string read_bytes(const std::filesystem::path& path);

}  // namespace llmc::testing
