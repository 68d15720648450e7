#include "tests/support_onnx/tiny_vision.h"

#include <algorithm>

#include "compiler/support/check.h"

namespace llmc::testing {
namespace {

constexpr std::int64_t kVisionHidden = 16, kSize = 8, kPatch = 4, kPatches = 4, kVisionWidth = 12;

/// Moves the lookup of `input_ids` from the decoder to a graph of its own.
OnnxBuilder take_embedding(OnnxBuilder& decoder, const VisionForm& form) {
  onnx::GraphProto& graph = decoder.graph();
  auto& nodes = *graph.mutable_node();
  const auto lookup = std::ranges::find_if(nodes, [](const onnx::NodeProto& node) {
    return node.op_type() == "Gather" && node.input(1) == "input_ids";
  });
  LLMC_CHECK(lookup != nodes.end());
  const std::string table = lookup->input(0), rows = lookup->output(0);
  OnnxBuilder embedding(18);
  embedding.input("input_ids", onnx::TensorProto::INT64,
                  {std::string("batch"), std::string("seq")});
  auto& tensors = *graph.mutable_initializer();
  const auto data =
      std::ranges::find(tensors, table, [](const onnx::TensorProto& t) { return t.name(); });
  *embedding.graph().add_initializer() = *data;
  const char* const kResult = "inputs_embeds";
  embedding.node("Gather", {table, "input_ids"}, {},
                 form.scaled || form.shifted ? "rows" : kResult);
  if (form.scaled)
    embedding.node("Mul", {"rows", embedding.scalar(4)}, {}, form.shifted ? "scaled" : kResult);
  if (form.shifted)
    embedding.node("Add", {form.scaled ? "scaled" : "rows", embedding.scalar(1)}, {}, kResult);
  embedding.float_output("inputs_embeds",
                         {std::string("batch"), std::string("seq"), kVisionHidden});

  tensors.erase(data);
  nodes.erase(lookup);
  for (onnx::NodeProto& node : nodes)
    for (std::string& input : *node.mutable_input())
      if (input == rows || input == "input_ids") input = "inputs_embeds";
  auto& inputs = *graph.mutable_input();
  inputs.erase(std::ranges::find(inputs, "input_ids",
                                 [](const onnx::ValueInfoProto& value) { return value.name(); }));
  decoder.float_input("inputs_embeds", {std::string("batch"), std::string("seq"), kVisionHidden});
  return embedding;
}

class Encoder {
 public:
  OnnxBuilder write(const VisionForm& form) {
    b_.float_input("pixel_values", {std::string("batch_size"), std::int64_t{3}, kSize, kSize});
    std::string pixels = "pixel_values";
    if (form.masked) {
      b_.input("pixel_attention_mask", onnx::TensorProto::BOOL,
               {std::string("batch_size"), kSize, kSize});
      const std::string mask =
          op("Cast", {"pixel_attention_mask"}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
      pixels = op("Mul", {pixels, b_.reshape(mask, {0, 1, kSize, kSize})});
    }
    std::string x =
        op("Conv", {pixels, weight({kVisionWidth, 3, kPatch, kPatch}), weight({kVisionWidth})},
           {{"strides", std::vector<std::int64_t>{kPatch, kPatch}}});
    x = transposed(b_.reshape(x, {0, kVisionWidth, kPatches}), {0, 2, 1});
    x = op("Add", {x, weight({1, kPatches, kVisionWidth})});
    const std::string h = norm(x);
    const std::string scores =
        op("Mul",
           {op("MatMul", {linear(h, kVisionWidth), transposed(linear(h, kVisionWidth), {0, 2, 1})}),
            b_.scalar(0.29f)});
    const std::string mixed = op(
        "MatMul", {op("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), linear(h, kVisionWidth)});
    x = norm(op("Add", {x, linear(mixed, kVisionWidth)}));
    const std::string wide = op("Relu", {linear(x, 24)});
    b_.node("Identity", {linear(wide, form.image_width, 24)}, {}, "image_features");
    b_.float_output("image_features", {std::string("batch_size"), kPatches, form.image_width});
    return std::move(b_);
  }

 private:
  std::string op(const std::string& type, const std::vector<std::string>& inputs,
                 const std::vector<Attribute>& attributes = {}) {
    return b_.node(type, inputs, attributes);
  }
  std::string weight(const std::vector<std::int64_t>& dims) {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) {
      seed_ = seed_ * 1664525u + 1013904223u;
      values.push_back((static_cast<float>(seed_ >> 8) / 8388608.0f - 1) * 0.4f);
    }
    return b_.floats("w" + std::to_string(counter_++), dims, values);
  }
  std::string transposed(const std::string& x, const std::vector<std::int64_t>& perm) {
    return op("Transpose", {x}, {{"perm", perm}});
  }
  std::string norm(const std::string& x) {
    return op("LayerNormalization", {x, weight({kVisionWidth}), weight({kVisionWidth})},
              {{"axis", std::int64_t{-1}}});
  }
  std::string linear(const std::string& x, std::int64_t out, std::int64_t in = kVisionWidth) {
    return op("Add", {op("MatMul", {x, weight({in, out})}), weight({out})});
  }

  OnnxBuilder b_{18};
  std::uint32_t seed_ = 7;
  int counter_ = 0;
};

}  // namespace

void write_tiny_vision(const std::filesystem::path& folder, const VisionForm& form) {
  std::filesystem::create_directories(folder / "vision");
  OnnxBuilder decoder = tiny_decoder(form.decoder);
  decoder.save(folder / "model.onnx");
  const OnnxBuilder embedding = take_embedding(decoder, form);
  decoder.save(folder / "vision/decoder_model_merged.onnx");
  embedding.save(folder / "vision/embed_tokens.onnx");
  Encoder().write(form).save(folder / "vision/vision_encoder.onnx");
}

}  // namespace llmc::testing
