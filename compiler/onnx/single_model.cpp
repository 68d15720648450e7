#include "compiler/onnx/single_model.h"

#include <algorithm>

#include "compiler/onnx/decoder_inputs.h"
#include "compiler/onnx/hugging_face.h"
#include "compiler/onnx/limits.h"
#include "compiler/onnx/split_model.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;

std::vector<std::optional<std::int64_t>> declared_sizes(const Part& part, const std::string& name) {
  std::vector<std::optional<std::int64_t>> sizes;
  const auto* value = part.input(name);
  if (!value) return sizes;
  for (const auto& dim : value->type().tensor_type().shape().dim())
    sizes.push_back(dim.has_dim_value() ? std::optional(dim.dim_value()) : std::nullopt);
  return sizes;
}

bool is_narrow(ElementType element) {
  return element == ElementType::kF16 || element == ElementType::kBF16;
}

/// The graph's inputs: those given a value as constants, the others as inputs of `builder`. f16 and
/// bf16 are widened where they enter.
Result<Bindings> bind_inputs(ir::Builder& builder, const Part& part, const ImportOptions& options) {
  Bindings inputs;
  inputs.exact_casts = true;
  for (const auto* input : part.graph.inputs) {
    const std::string& name = input->name();
    if (const auto value = options.input_values.find(name); value != options.input_values.end()) {
      inputs.constants[name] = value->second;
      continue;
    }
    ir::TensorType type;
    if (const auto given = options.input_types.find(name); given != options.input_types.end()) {
      type = given->second;
    } else {
      LLMC_TRY(type, declared_type(*part.file, *input));
    }
    const ElementType element = type.element;
    ValueId value = builder.input(name, std::move(type));
    if (is_narrow(element)) {
      LLMC_TRY(value, builder.add_one(ir::Cast{ElementType::kF32}, {value}, {part.file->name, name},
                                      name + ".f32"));
    }
    inputs.values[name] = value;
  }
  return inputs;
}

/// The element type that the file declares for output `name`, if it does.
std::optional<ElementType> declared_output(const Part& part, const std::string& name) {
  for (const auto& output : part.file->model.graph().output())
    if (output.name() == name && output.type().has_tensor_type())
      return element_type(output.type().tensor_type().elem_type());
  return std::nullopt;
}

Result<ImportedModel> import_generic(FileSet& files, const Part& part,
                                     const ImportOptions& options) {
  ir::Builder builder;
  LLMC_TRY(const Bindings inputs, bind_inputs(builder, part, options));
  LLMC_TRY(auto outputs, append_graph(builder, files, *part.file, part.graph, inputs, ""));
  // An output that only passes another value on gets a value of its own, to carry its name.
  std::set<ValueId> named(builder.graph().inputs().begin(), builder.graph().inputs().end());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = part.graph.outputs[i];
    const ir::Origin origin{part.file->name, name};
    ValueId output = outputs[i];
    const auto declared = declared_output(part, name);
    if (declared && is_narrow(*declared) &&
        builder.graph().value(output).type.element == ElementType::kF32) {
      if (builder.graph().value(output).name == name)
        builder.mutable_graph().value(output).name = builder.unique_name(name + ".f32");
      LLMC_TRY(output, builder.add_one(ir::Cast{*declared}, {output}, origin));
    }
    if (!named.insert(output).second) {
      LLMC_TRY(output,
               builder.add_one(ir::Unary{ir::UnaryKind::kIdentity}, {output}, origin, name));
    } else if (builder.graph().value(output).name != name) {
      builder.mutable_graph().value(output).name = builder.unique_name(name);
    }
    builder.output(output);
  }
  ImportedModel model;
  model.kind = GraphKind::kGeneric;
  model.graph = std::move(builder).take();
  model.graph.name = "model";
  return model;
}

// ---- the split form's inputs, caches stacked

/// Whether `input_ids` are token ids, not rows as in the split form.
bool takes_ids(const Part& part) {
  const auto* ids = part.uses("input_ids") ? part.input("input_ids") : nullptr;
  const auto element = ids ? element_type(ids->type().tensor_type().elem_type()) : std::nullopt;
  return element && ir::is_integer(*element);
}

/// past_key_values of rank 6 in, logits and presents out, and ids or something to embed them with.
bool is_stacked_decoder(const Part& part, const FolderContents& beside) {
  const bool embeds = beside.embedding_table || beside.embedding_graph || takes_ids(part);
  return embeds && declared_sizes(part, "past_key_values").size() == 6 &&
         part.has_output("logits") && part.has_output("presents");
}

/// What `stacked`, a Concat of unsqueezed values, stacks: those values, or a Gather of each.
Result<std::vector<ValueId>> unstack(ir::Builder& builder, const Part& part, ValueId stacked,
                                     std::int64_t count) {
  const ir::UseDef uses(builder.graph());
  const ir::Node* concat = uses.producer(stacked);
  const auto* op = ir::op_as<ir::Concat>(concat);
  std::vector<ValueId> values;
  if (op && op->axis == 0 && static_cast<std::int64_t>(concat->inputs.size()) == count)
    for (const ValueId layer : concat->inputs) {
      const ir::Node* node = uses.producer(layer);
      const auto* unsqueeze = ir::op_as<ir::Unsqueeze>(node);
      if (unsqueeze && unsqueeze->axes == std::vector<std::int64_t>{0})
        values.push_back(node->inputs[0]);
    }
  if (static_cast<std::int64_t>(values.size()) == count) return values;
  values.clear();
  const ir::Origin origin{part.file->name, "presents"};
  for (std::int64_t i = 0; i < count; ++i) {
    const ValueId index = builder.constant(ir::make_i64({}, {i}), {}, origin);
    LLMC_TRY(const ValueId value, builder.add_one(ir::Gather{0}, {stacked, index}, origin));
    values.push_back(value);
  }
  return values;
}

/// The graph embeds the ids itself; its other inputs are those of any decoder in one file.
Result<ImportedModel> import_stacked_ids(FileSet& files, const Part& part,
                                         const FolderContents& beside, Decoder::Shape shape) {
  auto roles = input_roles(part);
  roles.erase("past_key_values");
  shape.uses_mask = needs_mask(part, roles);
  shape.uses_positions = std::ranges::any_of(
      roles, [](const auto& role) { return role.second == InputRole::kPositions; });
  Decoder decoder(shape);
  ir::Builder& b = decoder.builder();
  InputSources sources;
  sources.ids = decoder.input_ids();
  sources.positions = decoder.positions();
  sources.mask = decoder.mask();
  const std::int64_t tokens = shape.cache.layout == ir::CacheLayout::kSequenceFirst ? 2 : 3;
  LLMC_TRY(sources.past, b.add_one(ir::Shape{tokens, tokens + 1}, {decoder.pasts()[0]},
                                   {part.file->name, "past"}));
  LLMC_TRY(Bindings inputs, bind_inputs(b, part, roles, sources));
  inputs.stacked["past_key_values"] = decoder.pasts();
  LLMC_TRY(const auto outputs, append_graph(b, files, *part.file, part.graph, inputs, "model/"));
  LLMC_TRY(const auto presents, unstack(b, part, outputs[1], shape.layers));
  ImportedModel model;
  LLMC_RETURN_IF_ERROR(decoder.finish(part, outputs[0], presents, model));
  LLMC_RETURN_IF_ERROR(read_tokenizer(files, beside, model));
  return model;
}

Result<ImportedModel> import_stacked(FileSet& files, const Part& part, const FolderContents& beside,
                                     const ImportOptions& options) {
  LLMC_TRY(const LlmConfig config, read_config(files, beside));
  LLMC_RETURN_IF_ERROR(require_cache(part));
  const std::string rows = used_input(part, {"inputs_embeds", "input_ids"});
  if (rows.empty()) return part.bad("the graph reads neither inputs_embeds nor input_ids");
  Decoder::Shape shape;
  LLMC_TRY(shape.cache, find_cache_shape(part, config, 1));
  const auto layers =
      config.layers ? config.layers : declared_sizes(part, "past_key_values").front();
  if (!layers || *layers < 1 || *layers > kMaxLayers)
    return part.bad("the number of its layers cannot be told from the graph",
                    "give layer_nums in llm_config.json", "past_key_values");
  shape.layers = *layers;
  if (takes_ids(part)) return import_stacked_ids(files, part, beside, shape);
  const auto sizes = declared_sizes(part, rows);
  const auto hidden = config.hidden ? config.hidden : sizes.empty() ? std::nullopt : sizes.back();
  if (!hidden || *hidden < 1 || *hidden > 1 << 20)
    return part.bad("the width of the hidden states cannot be told from the graph",
                    "give hidden_size in llm_config.json", rows);
  shape.hidden = *hidden;
  shape.uses_mask = part.uses("attention_mask");
  shape.uses_positions = part.uses("position_ids");

  Decoder decoder(shape);
  ValueId embedded;
  if (beside.embedding_table) {
    LLMC_TRY(embedded, decoder.embed_with_table(files, *beside.embedding_table));
  } else {
    LLMC_TRY(const Part embedding, open_part(files, *beside.embedding_graph, FileRole::kEmbedding,
                                             options, {"inputs_embeds"}));
    LLMC_TRY(embedded, decoder.embed_with_graph(files, embedding));
  }
  LLMC_TRY(Bindings inputs, decoder.common_inputs(part));
  LLMC_TRY(inputs.values[rows], fit_hidden(decoder.builder(), part, rows, embedded));
  LLMC_RETURN_IF_ERROR(require_float(part, "past_key_values"));
  inputs.stacked["past_key_values"] = decoder.pasts();
  LLMC_TRY(const auto outputs,
           append_graph(decoder.builder(), files, *part.file, part.graph, inputs, "llm/"));
  LLMC_TRY(const auto presents, unstack(decoder.builder(), part, outputs[1], shape.layers));
  ImportedModel model;
  LLMC_RETURN_IF_ERROR(decoder.finish(part, outputs[0], presents, model));
  model.prompt_template = config.prompt_template;
  LLMC_RETURN_IF_ERROR(read_tokenizer(files, beside, model));
  return model;
}

bool is_decoder_without_cache(const Part& part, const ir::Graph& graph) {
  const auto roles = input_roles(part);
  const bool encoder = std::ranges::any_of(
      roles, [](const auto& role) { return role.first.find("encoder") != std::string::npos; });
  const bool open = std::ranges::any_of(
      graph.inputs(), [&](ValueId input) { return !ir::element_count(graph.value(input).type); });
  return takes_ids(part) && part.has_output("logits") && open && !encoder;
}

}  // namespace

Result<ImportedModel> import_single(FileSet& files, const std::string& name,
                                    const FolderContents& beside, const ImportOptions& options) {
  LLMC_TRY(Part part, open_part(files, name, FileRole::kModel, options, {}));
  if (options.as_function) return import_generic(files, part, options);
  LLMC_TRY(auto decoder, import_hugging_face(files, part, beside, options));
  if (decoder) return *std::move(decoder);
  if (!is_stacked_decoder(part, beside)) {
    LLMC_TRY(ImportedModel model, import_generic(files, part, options));
    model.lacks_cache = is_decoder_without_cache(part, model.graph);
    return model;
  }
  LLMC_TRY(part.graph, order_graph(*part.file, {"logits", "presents"}));
  return import_stacked(files, part, beside, options);
}

}  // namespace llmc::importer
