#include "compiler/onnx/hugging_face.h"

#include "compiler/onnx/operators.h"
#include "compiler/onnx/split_model.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::ElementType;
using ir::ValueId;

constexpr std::int64_t kMaxLayers = 4096, kMaxHeads = 1 << 14;

std::string past_name(std::int64_t layer, const char* which) {
  return "past_key_values." + std::to_string(layer) + "." + which;
}

std::string present_name(std::int64_t layer, const char* which) {
  return "present." + std::to_string(layer) + "." + which;
}

std::int64_t layer_count(const Part& part) {
  std::int64_t layers = 0;
  while (layers < kMaxLayers && part.input(past_name(layers, "key")) &&
         part.input(past_name(layers, "value")) && part.has_output(present_name(layers, "key")) &&
         part.has_output(present_name(layers, "value")))
    ++layers;
  return layers;
}

/// [B, kv_heads, past, D]; heads and width have to be declared as numbers.
Result<CacheShape> declared_cache(const Part& part) {
  const std::string name = past_name(0, "key");
  const auto& shape = part.input(name)->type().tensor_type().shape();
  CacheShape cache{ir::CacheLayout::kHeadsFirst, 0, 0};
  if (shape.dim_size() == 4) {
    cache.kv_heads = shape.dim(1).dim_value();
    cache.head_dim = shape.dim(3).dim_value();
  }
  if (cache.kv_heads < 1 || cache.kv_heads > kMaxHeads || cache.head_dim < 1 ||
      cache.head_dim > kMaxHeads)
    return part.bad(
        "does not declare [batch, kv_heads, past, head_dim] with numbers for the heads "
        "and their width",
        {}, name);
  return cache;
}

/// i64[1, past + seq] of ones, in the element type that the mask is declared with.
Result<ValueId> ones_mask(Decoder& decoder, const Part& part) {
  const auto* declared = part.input("attention_mask");
  const auto element = element_type(declared->type().tensor_type().elem_type());
  if (!element || !(ir::is_integer(*element) || *element == ElementType::kBool)) {
    Diagnostic d = part.bad("is declared with elements that are neither integers nor bools", {},
                            "attention_mask");
    d.kind = ErrorKind::kUnsupported;
    return d;
  }
  ir::Builder& b = decoder.builder();
  const ir::Origin origin{part.file->name, "attention_mask"};
  LLMC_TRY(const ValueId past, b.add_one(ir::Shape{3, 4}, {decoder.pasts()[0]}, origin));
  LLMC_TRY(const ValueId seq, b.add_one(ir::Shape{0, 1}, {decoder.input_ids()}, origin));
  LLMC_TRY(const ValueId total, b.add_one(ir::Binary{ir::BinaryKind::kAdd}, {past, seq}, origin));
  const ValueId one = b.constant(ir::make_i64({1}, {1}), {}, origin);
  LLMC_TRY(const ValueId shape, b.add_one(ir::Concat{0}, {one, total}, origin));
  return b.add_one(ir::ConstantOfShape{ir::make_splat(*element, {1}, 1)}, {shape}, origin);
}

Status bind_cache(Decoder& decoder, const Part& part, std::int64_t layer, Bindings& inputs) {
  ir::Builder& b = decoder.builder();
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::string name = past_name(layer, i == 0 ? "key" : "value");
    LLMC_RETURN_IF_ERROR(require_float(part, name));
    const ir::Origin origin{part.file->name, name};
    const ValueId index = b.constant(ir::make_i64({}, {i}), {}, origin);
    LLMC_TRY(inputs.values[name],
             b.add_one(ir::Gather{0}, {decoder.pasts()[static_cast<std::size_t>(layer)], index},
                       origin));
  }
  return ok_status();
}

Result<ValueId> join_present(Decoder& decoder, const Part& part, ValueId key, ValueId value) {
  ir::Builder& b = decoder.builder();
  const ir::Origin origin{part.file->name, "present"};
  LLMC_TRY(const ValueId keys, b.add_one(ir::Unsqueeze{{0}}, {key}, origin));
  LLMC_TRY(const ValueId values, b.add_one(ir::Unsqueeze{{0}}, {value}, origin));
  return b.add_one(ir::Concat{0}, {keys, values}, origin);
}

}  // namespace

bool is_hugging_face_decoder(const Part& part) {
  return part.input("input_ids") && part.has_output("logits") && layer_count(part) > 0;
}

Result<ImportedModel> import_hugging_face(FileSet& files, const Part& whole,
                                          const FolderContents& beside) {
  Part part = whole;
  Decoder::Shape shape;
  shape.layers = layer_count(part);
  std::vector<std::string> wanted{"logits"};
  for (std::int64_t i = 0; i < shape.layers; ++i)
    for (const char* which : {"key", "value"}) wanted.push_back(present_name(i, which));
  LLMC_TRY(part.graph, order_graph(*part.file, std::move(wanted)));
  auto unsupported = unsupported_operators(*part.file, part.graph.nodes);
  if (!unsupported.empty()) return Error(std::move(unsupported));
  LLMC_TRY(shape.cache, declared_cache(part));
  shape.uses_positions = part.uses("position_ids");

  Decoder decoder(shape);
  ir::Builder& b = decoder.builder();
  Bindings inputs;
  LLMC_TRY(const ValueId ids,
           b.add_one(ir::Unsqueeze{{0}}, {decoder.input_ids()}, {part.file->name, "input_ids"}));
  LLMC_TRY(inputs.values["input_ids"], fit_integers(b, part, "input_ids", ids));
  if (shape.uses_positions) {
    LLMC_TRY(inputs.values["position_ids"],
             fit_integers(b, part, "position_ids", decoder.positions()));
  }
  if (part.uses("attention_mask")) {
    LLMC_TRY(inputs.values["attention_mask"], ones_mask(decoder, part));
  }
  for (std::int64_t i = 0; i < shape.layers; ++i)
    LLMC_RETURN_IF_ERROR(bind_cache(decoder, part, i, inputs));
  LLMC_TRY(const auto outputs, append_graph(b, files, *part.file, part.graph, inputs, "model/"));
  std::vector<ValueId> presents;
  for (std::size_t i = 1; i < outputs.size(); i += 2) {
    LLMC_TRY(const ValueId present, join_present(decoder, part, outputs[i], outputs[i + 1]));
    presents.push_back(present);
  }
  ImportedModel model;
  LLMC_RETURN_IF_ERROR(decoder.finish(part, outputs[0], presents, model));
  LLMC_RETURN_IF_ERROR(read_tokenizer(files, beside, model));
  return model;
}

}  // namespace llmc::importer
