#include "compiler/onnx/decoder.h"

#include <algorithm>

#include "compiler/ir/constant_pages.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;

const Dim kSeq = Dim::symbol("seq");
const Dim kPastSymbol = Dim::symbol("past");

Dim total() {
  return *add(kPastSymbol, kSeq);
}

/// Whether the dims before the last are ones but for `rows`, in any order.
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

Decoder::Decoder(const Shape& shape) : shape_(shape) {
  ids_ = builder_.input("input_ids", {ElementType::kI64, {kSeq}});
  if (shape.uses_mask)
    mask_ = builder_.input("attention_mask", {ElementType::kF32, {1, 1, kSeq, total()}});
  if (shape.uses_positions)
    positions_ = builder_.input("position_ids", {ElementType::kI64, {1, kSeq}});
  for (std::int64_t i = 0; i < shape.layers; ++i)
    pasts_.push_back(
        builder_.input("past." + std::to_string(i), cache_type(shape.cache, kPastSymbol)));
}

Result<ValueId> Decoder::embed_with_table(FileSet& files, const std::string& name) {
  LLMC_TRY(auto mapped, files.map(name, FileRole::kEmbedding));
  const std::uint64_t size = mapped->bytes().size();
  const auto row_bytes = static_cast<std::uint64_t>(shape_.hidden) * 2;
  if (size == 0 || size % row_bytes != 0) {
    return file_failure(ErrorKind::kBadInput, name,
                        "its " + std::to_string(size) + " bytes are no whole number of rows of " +
                            std::to_string(shape_.hidden) + " bf16 numbers",
                        "the file may be truncated, or of another model");
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

Result<ValueId> Decoder::embed_with_graph(FileSet& files, const Part& part) {
  Bindings inputs;
  const std::string ids = used_input(part, {"input_ids"});
  if (ids.empty()) return part.bad("the graph does not read input_ids");
  LLMC_TRY(inputs.values[ids], fit_integers(builder_, part, ids, ids_));
  const std::size_t before = builder_.graph().nodes().size();
  LLMC_TRY(const auto outputs,
           append_graph(builder_, files, *part.file, part.graph, inputs, "embedding/"));
  const ir::Graph& graph = builder_.graph();
  const ir::UseDef uses(graph);
  for (std::size_t i = before; i < graph.nodes().size(); ++i) {
    const auto& node = graph.nodes()[i];
    const auto table =
        std::holds_alternative<ir::Gather>(node.op) ? uses.constant(node.inputs[0]) : nullptr;
    if (table && table->dims().size() == 2) rows_ = table->dims()[0];
  }
  LLMC_RETURN_IF_ERROR(check_hidden(part, outputs[0], false));
  return outputs[0];
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

Result<ValueId> Decoder::append_block(FileSet& files, const Part& part, std::int64_t layer,
                                      ValueId hidden) {
  LLMC_TRY(auto inputs, common_inputs(part));
  const std::string name = used_input(part, {"inputs_embeds", "hidden_states"});
  if (name.empty()) return part.bad("the graph reads neither inputs_embeds nor hidden_states");
  LLMC_TRY(inputs.values[name], fit_hidden(builder_, part, name, hidden));
  LLMC_RETURN_IF_ERROR(require_float(part, "past_key_values"));
  inputs.values["past_key_values"] = pasts_[static_cast<std::size_t>(layer)];
  LLMC_TRY(const auto outputs, append_graph(builder_, files, *part.file, part.graph, inputs,
                                            "block_" + std::to_string(layer) + "/"));
  LLMC_RETURN_IF_ERROR(check_hidden(part, outputs[0], layer + 1 == shape_.layers));
  LLMC_RETURN_IF_ERROR(check_present(part, outputs[1]));
  presents_.push_back(outputs[1]);
  return outputs[0];
}

Result<ValueId> Decoder::append_head(FileSet& files, const Part& part, ValueId hidden) {
  LLMC_TRY(auto inputs, common_inputs(part));
  const std::string name = used_input(part, {"hidden_states", "inputs_embeds"});
  if (name.empty()) return part.bad("the graph does not read hidden_states");
  LLMC_TRY(inputs.values[name], fit_hidden(builder_, part, name, hidden));
  LLMC_TRY(const auto outputs,
           append_graph(builder_, files, *part.file, part.graph, inputs, "lm/"));
  return outputs[0];
}

Status Decoder::check_hidden(const Part& part, ValueId hidden, bool last) {
  ir::TensorType& type = builder_.mutable_graph().value(hidden).type;
  const std::string name = part.graph.outputs[0];
  const bool width_fits = type.element == ElementType::kF32 && type.rank() >= 2 &&
                          type.dims.back() == Dim(shape_.hidden);
  if (width_fits && (has_rows(type, kSeq) || (last && has_rows(type, Dim(1))))) return ok_status();
  // One dim that inference could not express: it stands for the tokens.
  const auto free = std::count_if(type.dims.begin(), type.dims.end(),
                                  [](const Dim& dim) { return !dim.is_constant(); });
  if (width_fits && !last && free == 1) {
    for (auto& dim : type.dims)
      if (!dim.is_constant() && ir::compatible(dim, kSeq)) dim = kSeq;
    if (has_rows(type, kSeq)) return ok_status();
  }
  return part.bad("gives " + ir::to_string(type) + ", not a row of " +
                      std::to_string(shape_.hidden) + " floats for each token",
                  "the file may be of another model, or hidden_size in llm_config.json wrong",
                  name);
}

Status Decoder::check_present(const Part& part, ValueId present) {
  ir::TensorType& type = builder_.mutable_graph().value(present).type;
  const ir::TensorType expected = cache_type(shape_.cache, total());
  if (ir::compatible(type, expected)) {
    type = expected;
    return ok_status();
  }
  return part.bad(
      "gives a cache of " + ir::to_string(type) + " where " + ir::to_string(expected) +
          " is needed",
      "check key_value_shape in llm_config.json; a cache that does not grow was folded away",
      "presents");
}

Status Decoder::finish(const Part& part, ValueId logits, const std::vector<ValueId>& presents,
                       ImportedModel& model) {
  ir::Graph& graph = builder_.mutable_graph();
  const ir::TensorType& type = graph.value(logits).type;
  const auto vocabulary = type.dims.empty() ? std::nullopt : type.dims.back().constant();
  if (type.element != ElementType::kF32 || !vocabulary || *vocabulary < 1)
    return part.bad("gives " + ir::to_string(type) + ", not a row of logits", {},
                    part.graph.outputs[0]);
  if (rows_ > 0 && rows_ != *vocabulary)
    return part.bad("gives logits for " + std::to_string(*vocabulary) + " tokens, but " +
                        std::to_string(rows_) + " tokens have embeddings",
                    "the files may be of different models");
  const auto publish = [&](ValueId value, const std::string& name) {
    graph.value(value).name = builder_.unique_name(name);
    graph.add_output(value);
  };
  publish(logits, "logits");
  for (std::size_t i = 0; i < presents.size(); ++i) {
    LLMC_RETURN_IF_ERROR(check_present(part, presents[i]));
    publish(presents[i], "present." + std::to_string(i));
  }
  model.kind = GraphKind::kDecoder;
  model.facts.hidden = shape_.hidden;
  model.facts.layers = shape_.layers;
  model.facts.kv_heads = shape_.cache.kv_heads;
  model.facts.head_dim = shape_.cache.head_dim;
  model.facts.cache_layout = shape_.cache.layout;
  model.facts.vocabulary = *vocabulary;
  model.facts.uses_mask = shape_.uses_mask;
  model.facts.uses_positions = shape_.uses_positions;
  model.graph = std::move(builder_).take();
  model.graph.name = "model";
  return ok_status();
}

Result<Part> open_head(FileSet& files, const std::string& name, FileRole role,
                       const ImportOptions& options) {
  Part part;
  LLMC_TRY(part.file, open_onnx(files, name, role, options));
  if (part.has_output("logits")) {
    LLMC_TRY(part.graph, order_graph(*part.file, {"logits"}));
    return part;
  }
  if (!part.has_output("token_id")) return part.bad("the graph has no output 'logits'");
  // Walk back over what only re-views the id to the ArgMax; its operand is the logits.
  std::map<std::string, const onnx::NodeProto*> makers;
  for (const auto& node : part.file->model.graph().node())
    for (const auto& output : node.output()) makers[output] = &node;
  std::string at = "token_id";
  for (std::size_t steps = 0; steps <= makers.size() && makers.contains(at); ++steps) {
    const auto& node = *makers[at];
    if (node.input_size() == 0) break;
    at = node.input(0);
    if (node.op_type() == "ArgMax") {
      LLMC_TRY(part.graph, order_graph(*part.file, {at}));
      return part;
    }
    static const std::set<std::string> kViews = {"Reshape",  "Squeeze", "Unsqueeze",
                                                 "Identity", "Cast",    "Flatten"};
    if (!kViews.contains(node.op_type())) break;
  }
  return part.bad("gives a token_id, but not as the ArgMax of logits",
                  "export lm.onnx with logits as its output");
}

}  // namespace llmc::importer
