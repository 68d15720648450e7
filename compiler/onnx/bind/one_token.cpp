#include "compiler/onnx/bind/one_token.h"

#include <algorithm>

#include "compiler/onnx/bind/find_caches.h"
#include "compiler/onnx/bind/source_states.h"
#include "compiler/onnx/bind/token_rows.h"
#include "compiler/onnx/limits.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;

using NamedValues = std::vector<std::pair<std::string, ValueId>>;

/// Returns the inputs with a role, in the order of the file.
std::vector<std::string> inputs_with(const Part& part, const InputRoles& roles, InputRole wanted) {
  std::vector<std::string> names;
  for (const auto* value : part.graph.inputs)
    if (const auto role = roles.find(value->name()); role != roles.end() && role->second == wanted)
      names.push_back(value->name());
  return names;
}

/// Adds an input [seq, heads, length, D], a cache for each row, for each of `names`.
Result<NamedValues> add_row_caches(ir::Builder& b, const Part& part,
                                   const std::vector<std::string>& names, const Dim& length,
                                   Bindings& inputs) {
  NamedValues values;
  for (const std::string& name : names) {
    const auto sizes = declared_sizes(part, name);
    if (sizes.size() != 4 || sizes[2])
      return part.unsupported("the cache is not [batch, kv_heads, past, head_dim]",
                              "export the model with past as a dynamic dim", name);
    const ir::TensorType type{
        ElementType::kF32,
        {Dim::symbol("seq"), Dim(sizes[1].value_or(1)), length, Dim(sizes[3].value_or(1))}};
    values.emplace_back(name, inputs.values[name] = b.input(name, type));
  }
  return values;
}

/// Returns the attention caches that the inputs `caches` form. Fails with kUnsupported if one of
/// them is not an attention cache, or if they are not heads-first with heads of equal width.
Result<FoundCaches> all_caches(const ir::Graph& graph, const Part& part, const NamedValues& caches,
                               const std::map<std::string, ValueId>& outputs) {
  LLMC_TRY(auto found, find_caches(graph, part, caches, outputs));
  if (!found || found->layers.size() * 2 != caches.size() || found->joined ||
      found->shape.layout != ir::CacheLayout::kHeadsFirst)
    return part.unsupported("an input is neither a recurrent state nor a cache of attention", {},
                            caches.front().first);
  for (const LayerCache& layer : found->layers)
    if (layer.key_dim != found->shape.head_dim || layer.value_dim != found->shape.head_dim)
      return part.unsupported("the heads of keys and values differ in width", {}, layer.key);
  return *std::move(found);
}

/// Returns half of a cache, f32[2, heads, length, D] or with a batch dim of 1 after the first, as
/// f32[1, heads, length, D].
Result<ValueId> half_of(ir::Builder& to, ValueId cache, std::int64_t half, ir::Origin origin) {
  const bool batch = to.graph().value(cache).type.rank() == 5;
  const ValueId index = to.constant(
      ir::make_i64(batch ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1}, {half}), {},
      origin);
  return to.add_one(ir::Gather{0}, {cache, index}, std::move(origin));
}

}  // namespace

bool takes_one_token(const Part& part, const InputRoles& roles) {
  return std::ranges::any_of(roles, [&](const auto& role) {
    const auto sizes = declared_sizes(part, role.first);
    return role.second == InputRole::kIds && sizes.size() == 2 && sizes[1] == 1;
  });
}

std::string find_logits_output(const Part& part, const std::vector<FoundState>& states) {
  std::vector<std::string> others;
  for (const auto& output : part.file->model.graph().output()) {
    if (output.name().find("logits") != std::string::npos) return output.name();
    if (std::ranges::find(states, output.name(), &FoundState::output) == states.end())
      others.push_back(output.name());
  }
  return others.size() == 1 ? others[0] : std::string();
}

Status bind_columns(ir::Builder& b, const Part& part, const InputRoles& roles,
                    const ColumnSources& sources, Bindings& inputs) {
  for (const auto& [name, role] : roles) {
    const ir::Origin origin{part.file->name, name};
    const std::size_t rank = declared_sizes(part, name).size();
    ValueId column;
    if (role == InputRole::kIds) {
      LLMC_TRY(column, b.add_one(ir::Unsqueeze{{1}}, {sources.ids}, origin));
    } else if (role == InputRole::kPositions && rank == 2) {
      LLMC_TRY(column, b.add_one(ir::Transpose{{1, 0}}, {sources.positions}, origin));
    } else if (role == InputRole::kMask && rank == 2 && sources.ones.exists()) {
      column = sources.ones;
    } else if (role == InputRole::kSourceMask && rank == 2 && sources.source_ones.exists()) {
      column = sources.source_ones;
    } else {
      return part.unsupported("unknown input of a decoder of one token per call",
                              "its inputs are input_ids and position_ids [batch, 1], "
                              "attention_mask [batch, past + 1], caches, recurrent states, and the "
                              "mask, keys and values of a source",
                              name);
    }
    LLMC_TRY(inputs.values[name], fit_integers(b, part, name, column));
  }
  return ok_status();
}

Result<ImportedModel> bind_token_caches(FileSet& files, const Part& part, InputRoles roles,
                                        const std::vector<FoundState>& states,
                                        const FolderContents& siblings) {
  const Dim seq = Dim::symbol("seq"), past = Dim::symbol("past"), source = Dim::symbol("source");
  const auto cache_names = inputs_with(part, roles, InputRole::kPossibleCache);
  const auto source_names = inputs_with(part, roles, InputRole::kSourceState);
  LLMC_TRY(const SourceStates source_layers, source_states(part));
  for (const auto* names : {&cache_names, &source_names})
    for (const std::string& name : *names) roles.erase(name);
  Bindings inputs;
  inputs.float_products = true;
  ir::Builder b;
  const ColumnSources columns{b.input("ids", {ElementType::kI64, {seq}}),
                              b.input("positions", {ElementType::kI64, {1, seq}}),
                              b.input("ones", {ElementType::kI64, {seq, *add(past, Dim(1))}}),
                              b.input("source_ones", {ElementType::kI64, {seq, source}})};
  LLMC_RETURN_IF_ERROR(bind_columns(b, part, roles, columns, inputs));
  std::vector<ValueId> state_inputs;
  for (const FoundState& state : states) {
    ir::TensorType type{ElementType::kF32, {seq}};
    type.dims.insert(type.dims.end(), state.dims.begin(), state.dims.end());
    state_inputs.push_back(inputs.values[state.input] = b.input(state.input, type));
  }
  LLMC_TRY(const NamedValues caches, add_row_caches(b, part, cache_names, past, inputs));
  LLMC_RETURN_IF_ERROR(add_row_caches(b, part, source_names, source, inputs));
  LLMC_TRY(const auto values, append_graph(b, files, *part.file, part.graph, inputs, "model/"));
  std::map<std::string, ValueId> outputs;
  for (std::size_t i = 0; i < values.size(); ++i) outputs.emplace(part.graph.outputs[i], values[i]);
  LLMC_TRY(const FoundCaches found, all_caches(b.graph(), part, caches, outputs));

  LLMC_TRY(Decoder::Shape shape, decoder_shape(part, found, source_layers));
  shape.uses_mask = true;
  shape.uses_positions = has_role(roles, InputRole::kPositions);
  for (const FoundState& state : states) shape.states.push_back(state.dims);
  Decoder decoder(files, shape);
  ir::Builder& to = decoder.builder();
  TokenRows rows{.graph = b.graph(),
                 .inputs = {{columns.ids, decoder.input_ids()}},
                 .sources = {},
                 .presents = outputs,
                 .pasts = {},
                 .ids = decoder.input_ids(),
                 .mask = decoder.mask(),
                 .known = {.positions = columns.positions,
                           .ones = columns.ones,
                           .source_ones = columns.source_ones}};
  if (shape.uses_positions) rows.inputs[columns.positions] = decoder.positions();
  for (std::size_t i = 0; i < states.size(); ++i)
    rows.inputs[state_inputs[i]] = decoder.states()[i];
  for (const std::int64_t half : {0, 1}) {
    for (std::size_t i = 0; i < found.layers.size(); ++i) {
      const std::string& name = half == 0 ? found.layers[i].key : found.layers[i].value;
      LLMC_TRY(rows.pasts[name], half_of(to, decoder.pasts()[i], half, {part.file->name, name}));
    }
    for (std::size_t i = 0; i < source_layers.layers.size(); ++i) {
      const std::string& name = source_layers.layers[i][static_cast<std::size_t>(half)];
      LLMC_TRY(rows.sources[inputs.values.at(name)],
               half_of(to, decoder.sources()[i], half, {part.file->name, name}));
    }
  }
  std::vector<ValueId> wanted{outputs.at(part.graph.outputs[0])};
  for (const FoundState& state : states) wanted.push_back(outputs.at(state.output));
  LLMC_TRY(const auto copied, append_token_rows(to, part, rows, found, wanted));
  std::vector<ValueId> presents;
  for (std::size_t i = wanted.size(); i + 1 < copied.size(); i += 2) {
    const ir::Origin origin{part.file->name, "present"};
    LLMC_TRY(const ValueId keys, to.add_one(ir::Unsqueeze{{0}}, {copied[i]}, origin));
    LLMC_TRY(const ValueId halves, to.add_one(ir::Unsqueeze{{0}}, {copied[i + 1]}, origin));
    LLMC_TRY(const ValueId present, to.add_one(ir::Concat{0}, {keys, halves}, origin));
    presents.push_back(present);
  }
  const auto end = copied.begin() + static_cast<std::ptrdiff_t>(wanted.size());
  return decoder.finish(siblings, part, copied[0], presents, {copied.begin() + 1, end});
}

Result<std::optional<ImportedModel>> bind_one_token(FileSet& files, const Part& whole,
                                                    const FolderContents& siblings) {
  Part part = whole;
  InputRoles roles = input_roles(part);
  const std::string logits = find_logits_output(part, {});
  const bool open_batch = std::ranges::any_of(roles, [&](const auto& role) {
    if (role.second != InputRole::kIds) return false;
    const auto sizes = declared_sizes(part, role.first);
    return !sizes.empty() && !sizes[0];
  });
  if (!open_batch || !takes_one_token(part, roles) || logits.empty())
    return std::optional<ImportedModel>();
  std::vector<std::string> wanted{logits};
  for (const auto& output : part.file->model.graph().output())
    if (output.name() != logits) wanted.push_back(output.name());
  LLMC_TRY(part.graph, order_graph(*part.file, std::move(wanted)));
  LLMC_TRY(ImportedModel model, bind_token_caches(files, part, std::move(roles), {}, siblings));
  return std::optional(std::move(model));
}

}  // namespace llmc::importer
