#include "tests/support_onnx/onnx_builder.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "compiler/support/check.h"
#include "compiler/support/half.h"

namespace llmc::testing {
namespace {

using onnx::TensorProto;

void declare(onnx::ValueInfoProto& value, const std::string& name, int element,
             const std::vector<DeclaredDim>& dims) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(element);
  tensor.mutable_shape();
  for (const auto& dim : dims) {
    auto& out = *tensor.mutable_shape()->add_dim();
    if (const auto* size = std::get_if<std::int64_t>(&dim))
      out.set_dim_value(*size);
    else
      out.set_dim_param(std::get<std::string>(dim));
  }
}

void set_attribute(onnx::AttributeProto& out, const Attribute& attribute) {
  out.set_name(attribute.name);
  if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) {
    out.set_type(onnx::AttributeProto::INT);
    out.set_i(*i);
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    out.set_type(onnx::AttributeProto::INTS);
    for (const auto value : *ints) out.add_ints(value);
  } else if (const auto* f = std::get_if<float>(&attribute.value)) {
    out.set_type(onnx::AttributeProto::FLOAT);
    out.set_f(*f);
  } else {
    out.set_type(onnx::AttributeProto::STRING);
    out.set_s(std::get<std::string>(attribute.value));
  }
}

}  // namespace

float round_to(float value, int float_type) {
  if (float_type == TensorProto::FLOAT16) return f16_to_f32(f32_to_f16(value));
  if (float_type == TensorProto::BFLOAT16) return bf16_to_f32(f32_to_bf16(value));
  return value;
}

std::string encode_floats(std::span<const float> values, int float_type) {
  std::string bytes;
  for (const float value : values) {
    if (float_type == TensorProto::FLOAT) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
      continue;
    }
    const std::uint16_t half =
        float_type == TensorProto::FLOAT16 ? f32_to_f16(value) : f32_to_bf16(value);
    bytes.append(reinterpret_cast<const char*>(&half), sizeof half);
  }
  return bytes;
}

OnnxBuilder::OnnxBuilder(std::int64_t opset, int float_type)
    : opset_(opset), float_type_(float_type) {
  model.set_ir_version(8);
  model.set_producer_name("llmc tests");
  auto& set = *model.add_opset_import();
  set.set_domain("");
  set.set_version(opset);
  graph().set_name("graph");
}

std::string OnnxBuilder::input(const std::string& name, int element,
                               const std::vector<DeclaredDim>& dims) {
  declare(*graph().add_input(), name, element, dims);
  return name;
}

void OnnxBuilder::output(const std::string& name, int element,
                         const std::vector<DeclaredDim>& dims) {
  declare(*graph().add_output(), name, element, dims);
}

TensorProto& OnnxBuilder::tensor(const std::string& name, int element,
                                 const std::vector<std::int64_t>& dims) {
  auto& out = *graph().add_initializer();
  out.set_name(name);
  out.set_data_type(element);
  for (const auto dim : dims) out.add_dims(dim);
  return out;
}

std::string OnnxBuilder::floats(const std::string& name, const std::vector<std::int64_t>& dims,
                                std::span<const float> values) {
  tensor(name, float_type_, dims).set_raw_data(encode_floats(values, float_type_));
  return name;
}

std::string OnnxBuilder::scalar(float value) {
  return floats(fresh(), {}, {&value, 1});
}

std::string OnnxBuilder::integers(const std::vector<std::int64_t>& values) {
  const std::string name = fresh();
  tensor(name, TensorProto::INT64, {static_cast<std::int64_t>(values.size())})
      .set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
  return name;
}

std::string OnnxBuilder::integer(std::int64_t value) {
  const std::string name = fresh();
  tensor(name, TensorProto::INT64, {}).set_raw_data(&value, sizeof value);
  return name;
}

onnx::NodeProto& OnnxBuilder::raw_node(const std::string& op,
                                       const std::vector<std::string>& inputs,
                                       const std::vector<std::string>& outputs,
                                       const std::vector<Attribute>& attributes) {
  auto& out = *graph().add_node();
  out.set_op_type(op);
  out.set_name("/" + op + "_" + std::to_string(graph().node_size() - 1));
  for (const auto& name : inputs) out.add_input(name);
  for (const auto& name : outputs) out.add_output(name);
  for (const auto& attribute : attributes) set_attribute(*out.add_attribute(), attribute);
  return out;
}

std::string OnnxBuilder::node(const std::string& op, const std::vector<std::string>& inputs,
                              const std::vector<Attribute>& attributes, std::string result) {
  if (result.empty()) result = fresh();
  raw_node(op, inputs, {result}, attributes);
  return result;
}

std::string OnnxBuilder::unsqueeze(const std::string& x, const std::vector<std::int64_t>& axes,
                                   std::string result) {
  if (opset_ < 13) return node("Unsqueeze", {x}, {{"axes", axes}}, std::move(result));
  return node("Unsqueeze", {x, integers(axes)}, {}, std::move(result));
}

std::string OnnxBuilder::reduce_mean(const std::string& x, std::int64_t axis) {
  const Attribute keep{"keepdims", std::int64_t{1}};
  if (opset_ < 18)
    return node("ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{axis}}, keep});
  return node("ReduceMean", {x, integers({axis})}, {keep});
}

std::string OnnxBuilder::reshape(const std::string& x, const std::vector<std::int64_t>& shape,
                                 std::string result) {
  return node("Reshape", {x, integers(shape)}, {}, std::move(result));
}

std::string OnnxBuilder::serialize() const {
  return model.SerializeAsString();
}

void OnnxBuilder::save(const std::filesystem::path& path, bool external) const {
  if (!external) return write_bytes(path, serialize());
  onnx::ModelProto copy = model;
  std::string data;
  const auto set = [](TensorProto& tensor, const char* key, const std::string& value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  for (auto& tensor : *copy.mutable_graph()->mutable_initializer()) {
    if (tensor.raw_data().size() < 64) continue;
    data.resize((data.size() + 63) / 64 * 64);
    set(tensor, "location", path.filename().string() + ".data");
    set(tensor, "offset", std::to_string(data.size()));
    set(tensor, "length", std::to_string(tensor.raw_data().size()));
    tensor.set_data_location(TensorProto::EXTERNAL);
    data += tensor.raw_data();
    tensor.clear_raw_data();
  }
  write_bytes(path, copy.SerializeAsString());
  write_bytes(path.string() + ".data", data);
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code error;  // the folder may be there already; what cannot be made cannot be opened
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  LLMC_CHECK(out.good());
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  LLMC_CHECK(in.good());
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return std::move(bytes).str();
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "llmc-test-XXXXXX").string();
  LLMC_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace llmc::testing
