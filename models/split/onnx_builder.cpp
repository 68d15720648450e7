#include "models/split/onnx_builder.h"

#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "compiler/support/half.h"
#include "models/split/output_stream.h"

namespace llmc::models {
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

/// Returns tag and length of a field of `bytes` bytes.
std::string field_head(int field, std::uint64_t bytes) {
  std::string head;
  const auto varint = [&](std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) head += static_cast<char>(value | 0x80);
    head += static_cast<char>(value);
  };
  varint(static_cast<std::uint64_t>(field) << 3 | 2);
  varint(bytes);
  return head;
}

/// Returns the data size of a streamed tensor.
std::uint64_t data_bytes(const TensorProto& tensor) {
  std::uint64_t bytes = sizeof(std::uint16_t);
  for (const auto dim : tensor.dims()) bytes *= static_cast<std::uint64_t>(dim);
  return bytes;
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
  model.set_producer_name("llmc");
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

std::string OnnxBuilder::streamed(const std::string& name, const std::vector<std::int64_t>& dims,
                                  HalfStream elements) {
  LLMC_CHECK(float_type_ != TensorProto::FLOAT);
  TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(float_type_);
  for (const auto dim : dims) tensor.add_dims(dim);
  streamed_.push_back({std::move(tensor), std::move(elements)});
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
  LLMC_CHECK(streamed_.empty());
  return model.SerializeAsString();
}

Status OnnxBuilder::write(const std::filesystem::path& path) const {
  // A message is a sequence of fields in any order, and a field with bytes or a message is its tag,
  // its length and its content. The remaining fields can therefore be appended to the output of
  // protobuf.
  onnx::ModelProto rest = model;
  const std::string graph_head = rest.graph().SerializeAsString();
  rest.clear_graph();
  std::vector<std::string> heads;
  std::uint64_t graph_bytes = graph_head.size();
  for (const Streamed& s : streamed_) {
    heads.push_back(s.tensor.SerializeAsString() +
                    field_head(TensorProto::kRawDataFieldNumber, data_bytes(s.tensor)));
    const std::uint64_t bytes = heads.back().size() + data_bytes(s.tensor);
    heads.back().insert(0, field_head(onnx::GraphProto::kInitializerFieldNumber, bytes));
    graph_bytes += heads.back().size() + data_bytes(s.tensor);
  }
  LLMC_TRY(OutputStream out, OutputStream::create(path));
  LLMC_RETURN_IF_ERROR(out.write(rest.SerializeAsString()));
  LLMC_RETURN_IF_ERROR(out.write(field_head(onnx::ModelProto::kGraphFieldNumber, graph_bytes)));
  LLMC_RETURN_IF_ERROR(out.write(graph_head));
  for (std::size_t i = 0; i < streamed_.size(); ++i) {
    LLMC_RETURN_IF_ERROR(out.write(heads[i]));
    const std::uint64_t count = data_bytes(streamed_[i].tensor) / sizeof(std::uint16_t);
    LLMC_RETURN_IF_ERROR(out.write_halves(count, streamed_[i].elements));
  }
  return out.close();
}

}  // namespace llmc::models
