#include "compiler/onnx/bind/decoder.h"

#include <algorithm>

#include "compiler/ir/constant.h"
#include "compiler/ir/constant_pages.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::InputKind;
using ir::ValueId;

const Dim kSeq = Dim::symbol("seq");
const Dim kPastSymbol = Dim::symbol("past");

Dim total() {
  return *add(kPastSymbol, kSeq);
}

/// Returns the producer of `value`. If that is a Cast to f32, returns the producer of its operand.
const ir::Node* narrow_producer(const ir::UseDef& uses, ValueId value) {
  const ir::Node* const node = uses.producer(value);
  const auto* const cast = ir::op_as<ir::Cast>(node);
  return cast && cast->to == ElementType::kF32 ? uses.producer(node->inputs[0]) : node;
}

/// Returns the number if `value` is a float constant of one element, or a cast of one; otherwise
/// nullopt.
std::optional<float> number_of(const ir::UseDef& uses, ValueId value) {
  ir::ConstantPtr constant = uses.constant(value);
  const ir::Node* const node = uses.producer(value);
  if (!constant && ir::op_as<ir::Cast>(node)) constant = uses.constant(node->inputs[0]);
  if (!constant || constant->element_count() != 1 || !ir::is_float(constant->element()))
    return std::nullopt;
  return ir::to_floats(*constant)[0];
}

/// If `rows` are rows of a table, widened or not, times a number, returns the same rows of the
/// table times the number; otherwise returns `rows`. The products are the same.
Result<ValueId> with_scaled_table(ir::Builder& builder, ValueId rows) {
  const ir::UseDef uses(builder.graph());
  const ir::Node* const product = uses.producer(rows);
  const auto* const binary = ir::op_as<ir::Binary>(product);
  if (binary == nullptr || binary->kind != ir::BinaryKind::kMul) return rows;
  for (const std::size_t side : {0u, 1u}) {
    const std::optional<float> factor = number_of(uses, product->inputs[1 - side]);
    const ir::Node* const lookup = narrow_producer(uses, product->inputs[side]);
    const auto* const gather = ir::op_as<ir::Gather>(lookup);
    if (!factor || !gather || gather->axis != 0) continue;
    const ir::ConstantPtr table = uses.constant(lookup->inputs[0]);
    if (!table || table->dims().size() != 2 || !ir::is_float(table->element())) continue;
    const ValueId ids = lookup->inputs[1];
    const ir::Origin origin = lookup->origin;  // adding nodes invalidates `lookup`
    const ValueId scaled_table =
        builder.constant(ir::scaled(table, *factor), "embedding.table", origin);
    LLMC_TRY(const ValueId scaled, builder.add_one(ir::Gather{0}, {scaled_table, ids}, origin));
    // The number may have more dims than the rows.
    const bool same = builder.graph().value(scaled).type == builder.graph().value(rows).type;
    return same ? scaled : rows;
  }
  return rows;
}

/// Returns whether all dims except the last are one dim `rows` and dims of 1, in any order.
bool has_rows(const ir::TensorType& type, const Dim& rows) {
  bool found = rows == Dim(1);
  for (std::size_t i = 0; i + 1 < type.dims.size(); ++i) {
    if (type.dims[i] == Dim(1)) continue;
    if (found || !(type.dims[i] == rows)) return false;
    found = true;
  }
  return found;
}

}  // namespace

Decoder::Decoder(FileSet& files, const Shape& shape) : files_(files), shape_(shape) {
  ids_ = builder_.input("input_ids", {ElementType::kI64, {kSeq}}, InputKind::kTokenIds);
  if (shape.uses_mask)
    mask_ = builder_.input("attention_mask", {ElementType::kF32, {1, 1, kSeq, total()}},
                           InputKind::kMask);
  if (shape.uses_positions)
    positions_ =
        builder_.input("position_ids", {ElementType::kI64, {1, kSeq}}, InputKind::kPositions);
  if (shape.position_axes > 0)
    position_axes_ =
        builder_.input("position_axes", {ElementType::kI64, {Dim(shape.position_axes), kSeq}},
                       InputKind::kPositionAxes);
  for (std::int64_t i = 0; i < shape.layers; ++i)
    pasts_.push_back(builder_.input("past." + std::to_string(i),
                                    cache_type(shape.cache, kPastSymbol),
                                    InputKind::kAttentionCache, i));
  for (std::int64_t i = 0; i < shape.sources; ++i)
    sources_.push_back(builder_.input(
        "source." + std::to_string(i),
        {ElementType::kF32, {2, shape.source_heads, Dim::symbol("source"), shape.source_dim}},
        InputKind::kSource, i));
  for (std::size_t i = 0; i < shape.states.size(); ++i) {
    ir::TensorType type{ElementType::kF32, {kSeq}};
    type.dims.insert(type.dims.end(), shape.states[i].begin(), shape.states[i].end());
    states_.push_back(builder_.input("state." + std::to_string(i), type, InputKind::kRecurrent,
                                     static_cast<std::int64_t>(i)));
  }
}

Result<ValueId> Decoder::source_length(const Part& part) {
  return builder_.add_one(ir::Shape{2, 3}, {sources_[0]}, {part.file->name, "source"});
}

Result<ValueId> Decoder::past_length(const Part& part) {
  const std::int64_t tokens = shape_.cache.layout == ir::CacheLayout::kSequenceFirst ? 2 : 3;
  return builder_.add_one(ir::Shape{tokens, tokens + 1}, {pasts_[0]}, {part.file->name, "past"});
}

Result<ValueId> Decoder::embed(const FolderContents& siblings, const Part& part) {
  if (siblings.embedding_table) return embed_with_table(*siblings.embedding_table);
  if (!siblings.embedding_graph)
    return part.bad(
        "takes embedded rows, but the folder has no embedding",
        "copy embed_tokens.onnx, embedding.onnx or embeddings_bf16.bin into the folder");
  LLMC_TRY(const Part embedding,
           open_part(files_, *siblings.embedding_graph, FileRole::kEmbedding, {"inputs_embeds"}));
  return embed_with_graph(embedding);
}

Result<ValueId> Decoder::embed_with_table(const std::string& name) {
  LLMC_TRY(auto mapped, files_.map(name, FileRole::kEmbedding));
  const std::uint64_t size = mapped->bytes().size();
  const auto row_bytes = static_cast<std::uint64_t>(shape_.hidden) * 2;
  if (size == 0 || size % row_bytes != 0) {
    return file_failure(ErrorKind::kBadInput, name,
                        "its size, " + std::to_string(size) +
                            " bytes, is not a multiple of a row of " +
                            std::to_string(shape_.hidden) + " bf16 values",
                        "the file may be truncated or belong to another model");
  }
  rows_ = static_cast<std::int64_t>(size / row_bytes);
  const ir::Origin origin{name, "embedding"};
  const auto window = mapped->bytes();
  const ValueId table =
      builder_.constant(ir::make_mapped_file(ElementType::kBF16, {rows_, shape_.hidden},
                                             std::move(mapped), window, name),
                        "embedding.table", origin);
  LLMC_TRY(const ValueId rows, builder_.add_one(ir::Gather{0}, {table, ids_}, origin));
  LLMC_TRY(const ValueId wide, builder_.add_one(ir::Cast{ElementType::kF32}, {rows}, origin));
  return builder_.add_one(ir::Unsqueeze{{1}}, {wide}, origin, "inputs_embeds");
}

Result<ValueId> Decoder::embed_with_graph(const Part& part) {
  Bindings inputs;
  const std::string ids = used_input(part, {"input_ids"});
  if (ids.empty()) return part.bad("the graph does not read input_ids");
  LLMC_TRY(inputs.values[ids], fit_integers(builder_, part, ids, ids_));
  const std::size_t before = builder_.graph().nodes().size();
  LLMC_TRY(const auto outputs, append(part, inputs, "embedding/"));
  const ir::Graph& graph = builder_.graph();
  const ir::UseDef uses(graph);
  for (std::size_t i = before; i < graph.nodes().size(); ++i) {
    const auto& node = graph.nodes()[i];
    const auto table =
        std::holds_alternative<ir::Gather>(node.op) ? uses.constant(node.inputs[0]) : nullptr;
    if (table && table->dims().size() == 2) rows_ = table->dims()[0];
  }
  LLMC_TRY(const ValueId rows, with_scaled_table(builder_, outputs[0]));
  LLMC_RETURN_IF_ERROR(check_hidden(part, rows, false));
  return rows;
}

Result<Bindings> Decoder::common_inputs(const Part& part) {
  Bindings inputs;
  inputs.float_products = true;
  if (part.uses("attention_mask")) {
    LLMC_RETURN_IF_ERROR(require_float(part, "attention_mask"));
    inputs.values["attention_mask"] = mask_;
  }
  if (part.uses("position_ids")) {
    LLMC_TRY(inputs.values["position_ids"],
             fit_integers(builder_, part, "position_ids", positions_));
  }
  return inputs;
}

Result<std::vector<ValueId>> Decoder::append(const Part& part, const Bindings& inputs,
                                             const std::string& prefix) {
  return append_graph(builder_, files_, *part.file, part.graph, inputs, prefix);
}

Result<ValueId> Decoder::append_block(const Part& part, std::int64_t layer, ValueId hidden) {
  LLMC_TRY(auto inputs, common_inputs(part));
  const std::string name = used_input(part, {"inputs_embeds", "hidden_states"});
  if (name.empty()) return part.bad("the graph reads neither inputs_embeds nor hidden_states");
  LLMC_TRY(inputs.values[name], fit_hidden(builder_, part, name, hidden));
  LLMC_RETURN_IF_ERROR(require_float(part, kPastInput));
  inputs.values[kPastInput] = pasts_[static_cast<std::size_t>(layer)];
  LLMC_TRY(const auto outputs, append(part, inputs, "block_" + std::to_string(layer) + "/"));
  LLMC_RETURN_IF_ERROR(check_hidden(part, outputs[0], layer + 1 == shape_.layers));
  LLMC_RETURN_IF_ERROR(check_present(part, outputs[1]));
  presents_.push_back(outputs[1]);
  return outputs[0];
}

Result<ValueId> Decoder::append_head(const Part& part, ValueId hidden) {
  LLMC_TRY(auto inputs, common_inputs(part));
  const std::string name = used_input(part, {"hidden_states", "inputs_embeds"});
  if (name.empty()) return part.bad("the graph does not read hidden_states");
  LLMC_TRY(inputs.values[name], fit_hidden(builder_, part, name, hidden));
  LLMC_TRY(const auto outputs, append(part, inputs, "lm/"));
  return outputs[0];
}

Status Decoder::check_hidden(const Part& part, ValueId hidden, bool last) {
  ir::TensorType& type = builder_.mutable_graph().value(hidden).type;
  const std::string name = part.graph.outputs[0];
  const bool width_fits = type.element == ElementType::kF32 && type.rank() >= 2 &&
                          type.dims.back() == Dim(shape_.hidden);
  if (width_fits && (has_rows(type, kSeq) || (last && has_rows(type, Dim(1))))) return ok_status();
  // If exactly one dim is symbolic, it is the number of tokens, which inference could not derive.
  const auto free = std::count_if(type.dims.begin(), type.dims.end(),
                                  [](const Dim& dim) { return !dim.is_constant(); });
  if (width_fits && !last && free == 1) {
    for (auto& dim : type.dims)
      if (!dim.is_constant() && ir::compatible(dim, kSeq)) dim = kSeq;
    if (has_rows(type, kSeq)) return ok_status();
  }
  return part.bad(
      "returns " + ir::to_string(type) + ", not a row of " + std::to_string(shape_.hidden) +
          " floats for each token",
      "the file may belong to another model, or hidden_size in llm_config.json is wrong", name);
}

Status Decoder::check_present(const Part& part, ValueId present) {
  ir::TensorType& type = builder_.mutable_graph().value(present).type;
  const ir::TensorType expected = cache_type(shape_.cache, total());
  if (ir::compatible(type, expected)) {
    type = expected;
    return ok_status();
  }
  return part.bad(
      "returns a cache of type " + ir::to_string(type) + " instead of " + ir::to_string(expected),
      "check key_value_shape in llm_config.json; a cache that does not grow was folded away",
      "presents");
}

Result<ImportedModel> Decoder::finish(const FolderContents& siblings, const Part& part,
                                      ValueId logits, const std::vector<ValueId>& presents,
                                      const std::vector<ValueId>& next_states) {
  ir::Graph& graph = builder_.mutable_graph();
  const ir::TensorType& type = graph.value(logits).type;
  const auto vocabulary = type.dims.empty() ? std::nullopt : type.dims.back().constant();
  if (type.element != ElementType::kF32 || !vocabulary || *vocabulary < 1)
    return part.bad("returns " + ir::to_string(type) + ", not a row of logits", {},
                    part.graph.outputs[0]);
  if (rows_ > 0 && rows_ != *vocabulary)
    return part.bad("returns logits for " + std::to_string(*vocabulary) + " tokens, but " +
                        std::to_string(rows_) + " tokens have embeddings",
                    "the files may be of different models");
  const auto name_of = [&](ValueId value) {
    return value.exists() ? graph.value(value).name : std::string();
  };
  // An input or another output keeps its name, so the new output is a copy of it.
  const auto publish = [&](ValueId value, const std::string& name) -> Status {
    const bool named = std::ranges::count(graph.inputs(), value) != 0 ||
                       std::ranges::count(graph.outputs(), value) != 0;
    if (named) {
      LLMC_TRY(value, builder_.add_one(ir::Unary{ir::UnaryKind::kIdentity}, {value},
                                       {part.file->name, name_of(value)}));
    }
    graph.value(value).name = builder_.unique_name(name);
    graph.add_output(value);
    return ok_status();
  };
  ImportedModel model;
  LLMC_RETURN_IF_ERROR(publish(logits, "logits"));
  for (std::size_t i = 0; i < presents.size(); ++i) {
    LLMC_RETURN_IF_ERROR(check_present(part, presents[i]));
    LLMC_RETURN_IF_ERROR(publish(presents[i], "present." + std::to_string(i)));
    model.module.states.push_back({.kind = ir::StateKind::kAttentionCache,
                                   .layer = static_cast<std::int64_t>(i),
                                   .layout = shape_.cache.layout,
                                   .kv_heads = shape_.cache.kv_heads,
                                   .head_dim = shape_.cache.head_dim});
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    model.module.states.push_back({.kind = ir::StateKind::kSource,
                                   .layer = static_cast<std::int64_t>(i),
                                   .kv_heads = shape_.source_heads,
                                   .head_dim = shape_.source_dim});
  }
  for (std::size_t i = 0; i < next_states.size(); ++i) {
    const ir::TensorType& before = graph.value(states_[i]).type;
    ir::TensorType& after = graph.value(next_states[i]).type;
    if (!ir::compatible(after, before))
      return part.bad("returns a state of type " + ir::to_string(after) + " instead of " +
                          ir::to_string(before),
                      {}, graph.value(next_states[i]).name);
    after = before;
    LLMC_RETURN_IF_ERROR(publish(next_states[i], "next_state." + std::to_string(i)));
    model.module.states.push_back(
        {.kind = ir::StateKind::kRecurrent, .layer = static_cast<std::int64_t>(i)});
  }
  graph.name = "model";
  model.module.entries.push_back({ir::EntryKind::kForward, std::move(builder_).take()});
  LLMC_TRY(model.tokenizer, read_tokenizer(files_, siblings, *vocabulary));
  return model;
}

}  // namespace llmc::importer
