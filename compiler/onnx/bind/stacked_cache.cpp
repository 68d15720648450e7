#include <algorithm>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/limits.h"

namespace llmc::importer {
namespace {

using ir::ValueId;

bool is_stacked_decoder(const Part& part, const FolderContents& siblings) {
  const bool embeds = siblings.embedding_table || siblings.embedding_graph || takes_ids(part);
  return embeds && declared_sizes(part, kPastInput).size() == 6 && part.has_output("logits") &&
         part.has_output("presents");
}

/// Returns the `count` components of `stacked`: the operands of a Concat of Unsqueeze nodes,
/// otherwise one Gather for each.
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

/// Returns bindings of all inputs except the cache. If the graph reads token ids, they are bound as
/// in any single-file decoder; otherwise as in a split model, with the embedded rows as input
/// `rows`.
Result<Bindings> bind_others(Decoder& decoder, const Part& part, const FolderContents& siblings,
                             const InputRoles& roles, const std::string& rows) {
  if (takes_ids(part)) {
    LLMC_TRY(const InputSources sources, decoder_sources(decoder, part));
    return bind_inputs(decoder.builder(), part, roles, sources);
  }
  LLMC_TRY(const ValueId embedded, decoder.embed(siblings, part));
  LLMC_TRY(Bindings inputs, decoder.common_inputs(part));
  LLMC_TRY(inputs.values[rows], fit_hidden(decoder.builder(), part, rows, embedded));
  LLMC_RETURN_IF_ERROR(require_float(part, kPastInput));
  return inputs;
}

Result<Decoder::Shape> find_shape(const Part& part, const LlmConfig& config,
                                  const InputRoles& roles, const std::string& rows) {
  Decoder::Shape shape;
  LLMC_TRY(shape.cache, find_cache_shape(part, config, 1));
  shape.layers =
      config.layers ? *config.layers : declared_sizes(part, kPastInput).front().value_or(0);
  if (shape.layers < 1 || shape.layers > kMaxLayers)
    return part.bad("the graph does not determine the number of its layers",
                    "give layer_nums in llm_config.json", kPastInput);
  if (takes_ids(part)) {
    set_uses(shape, part, roles);
    return shape;
  }
  shape.hidden = config.hidden ? *config.hidden : declared_width(part, rows);
  if (shape.hidden < 1)
    return part.bad("the graph does not determine the width of the hidden states",
                    "give hidden_size in llm_config.json", rows);
  shape.uses_mask = part.uses("attention_mask");
  shape.uses_positions = part.uses("position_ids");
  return shape;
}

}  // namespace

Result<std::optional<ImportedModel>> bind_stacked_cache(FileSet& files, const Part& whole,
                                                        const FolderContents& siblings) {
  if (!is_stacked_decoder(whole, siblings)) return std::optional<ImportedModel>();
  Part part{whole.file, {}};
  LLMC_TRY(part.graph, order_graph(*part.file, {"logits", "presents"}));
  LLMC_TRY(const LlmConfig config, read_config(files, siblings));
  LLMC_RETURN_IF_ERROR(require_cache(part));
  const std::string rows = used_input(part, {"inputs_embeds", "input_ids"});
  if (rows.empty()) return part.bad("the graph reads neither inputs_embeds nor input_ids");
  InputRoles roles = input_roles(part);
  roles.erase(kPastInput);
  LLMC_TRY(const Decoder::Shape shape, find_shape(part, config, roles, rows));
  Decoder decoder(files, shape);
  LLMC_TRY(Bindings inputs, bind_others(decoder, part, siblings, roles, rows));
  inputs.stacked[kPastInput] = decoder.pasts();
  LLMC_TRY(const auto outputs, decoder.append(part, inputs, takes_ids(part) ? "model/" : "llm/"));
  LLMC_TRY(const auto presents, unstack(decoder.builder(), part, outputs[1], shape.layers));
  LLMC_TRY(ImportedModel model, decoder.finish(siblings, part, outputs[0], presents));
  if (!takes_ids(part)) model.prompt_template = config.prompt_template;
  return std::optional(std::move(model));
}

}  // namespace llmc::importer
