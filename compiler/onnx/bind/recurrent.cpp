#include <algorithm>
#include <array>
#include <cctype>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/bind/find_caches.h"
#include "compiler/onnx/bind/token_rows.h"
#include "compiler/onnx/limits.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;

/// Maximum number of elements of a sequence's state.
constexpr std::int64_t kMaxStateElements = std::int64_t{1} << 30;

/// Returns a name without case, punctuation and the words that tell the old from the new value:
/// "conv0" for "past_conv.0" and "present_conv.0".
std::string state_name(const std::string& name) {
  constexpr std::array<std::string_view, 13> kWords{"past",   "present",  "new",  "next", "old",
                                                    "prev",   "previous", "in",   "out",  "input",
                                                    "output", "updated",  "cache"};
  std::string result, word;
  const auto finish = [&] {
    if (std::ranges::find(kWords, word) == kWords.end()) result += word;
    word.clear();
  };
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      finish();
  }
  finish();
  return result;
}

struct FoundState {
  std::string input, output;
  std::vector<std::int64_t> dims;  // without the batch dim
};

/// Returns the inputs with a fixed size for each sequence and the output of the same name, in the
/// order of the file.
std::vector<FoundState> find_states(const Part& part) {
  std::vector<FoundState> found;
  for (const auto* value : part.graph.inputs) {
    const std::string& name = value->name();
    if (!part.uses(name) || !require_float(part, name).ok()) continue;
    const auto sizes = declared_sizes(part, name);
    // A cache of a fixed length is not a state that forgets.
    if (sizes.size() < 2 || name.find("key") != name.npos || name.find("value") != name.npos)
      continue;
    FoundState state{name, {}, {}};
    std::int64_t elements = 1;
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      const std::int64_t size = sizes[i].value_or(0);
      elements = size > 0 && elements <= kMaxStateElements / size ? elements * size : 0;
      state.dims.push_back(size);
    }
    if (elements == 0) continue;
    for (const auto& output : part.file->model.graph().output())
      if (state_name(output.name()) == state_name(name)) state.output = output.name();
    if (!state.output.empty()) found.push_back(std::move(state));
  }
  return found;
}

/// Returns whether the token ids have the declared shape [batch, 1].
bool takes_one_token(const Part& part, const InputRoles& roles) {
  return std::ranges::any_of(roles, [&](const auto& role) {
    const auto sizes = declared_sizes(part, role.first);
    return role.second == InputRole::kIds && sizes.size() == 2 && sizes[1] == 1;
  });
}

/// Returns the name of the output with logits: the only one that is not a state, or that has such a
/// name; empty if there is none.
std::string logits_beside(const Part& part, const std::vector<FoundState>& states) {
  std::vector<std::string> others;
  for (const auto& output : part.file->model.graph().output()) {
    if (output.name().find("logits") != std::string::npos) return output.name();
    if (std::ranges::find(states, output.name(), &FoundState::output) == states.end())
      others.push_back(output.name());
  }
  return others.size() == 1 ? others[0] : std::string();
}

/// Values from which the inputs of the graph are computed.
struct ColumnSources {
  ValueId ids, positions;  // i64[seq], i64[1, seq]
  ValueId ones;            // the padding mask, i64[seq, past + 1]
};

/// Binds token ids and positions to columns [seq, 1].
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
    } else {
      return part.unsupported("unknown input of a decoder with recurrent states",
                              "its inputs are input_ids and position_ids [batch, 1], "
                              "attention_mask [batch, past + 1], the caches and the states",
                              name);
    }
    LLMC_TRY(inputs.values[name], fit_integers(b, part, name, column));
  }
  return ok_status();
}

/// Returns the inputs that may be caches of attention.
std::vector<std::string> possible_caches(const Part& part, const InputRoles& roles) {
  std::vector<std::string> names;
  for (const auto* value : part.graph.inputs)
    if (const auto role = roles.find(value->name());
        role != roles.end() && role->second == InputRole::kPossibleCache)
      names.push_back(value->name());
  return names;
}

/// A hybrid: converts the graph with a cache for each row, then joins the caches.
Result<ImportedModel> bind_hybrid(FileSet& files, const Part& part, InputRoles roles,
                                  const std::vector<FoundState>& states,
                                  const FolderContents& siblings) {
  const Dim seq = Dim::symbol("seq"), past = Dim::symbol("past");
  const std::vector<std::string> names = possible_caches(part, roles);
  for (const std::string& name : names) roles.erase(name);
  Bindings inputs;
  inputs.float_products = true;
  ir::Builder b;
  const ColumnSources sources{b.input("ids", {ElementType::kI64, {seq}}),
                              b.input("positions", {ElementType::kI64, {1, seq}}),
                              b.input("ones", {ElementType::kI64, {seq, *add(past, Dim(1))}})};
  LLMC_RETURN_IF_ERROR(bind_columns(b, part, roles, sources, inputs));
  std::vector<ValueId> state_inputs;
  for (const FoundState& state : states) {
    ir::TensorType type{ElementType::kF32, {seq}};
    type.dims.insert(type.dims.end(), state.dims.begin(), state.dims.end());
    state_inputs.push_back(inputs.values[state.input] = b.input(state.input, type));
  }
  std::vector<std::pair<std::string, ValueId>> caches;
  for (const std::string& name : names) {
    const auto sizes = declared_sizes(part, name);
    if (sizes.size() != 4 || sizes[2])
      return part.unsupported("the cache is not [batch, kv_heads, past, head_dim]",
                              "export the model with past as a dynamic dim", name);
    ir::TensorType type{ElementType::kF32,
                        {seq, Dim(sizes[1].value_or(1)), past, Dim(sizes[3].value_or(1))}};
    caches.emplace_back(name, inputs.values[name] = b.input(name, type));
  }
  LLMC_TRY(const auto values, append_graph(b, files, *part.file, part.graph, inputs, "model/"));
  std::map<std::string, ValueId> outputs;
  for (std::size_t i = 0; i < values.size(); ++i) outputs.emplace(part.graph.outputs[i], values[i]);
  LLMC_TRY(const auto found, find_caches(b.graph(), part, caches, outputs));
  if (!found || found->layers.size() * 2 != caches.size() || found->joined ||
      found->shape.layout != ir::CacheLayout::kHeadsFirst)
    return part.unsupported("an input is neither a recurrent state nor a cache of attention", {},
                            names.front());
  for (const LayerCache& layer : found->layers)
    if (layer.key_dim != found->shape.head_dim || layer.value_dim != found->shape.head_dim)
      return part.unsupported("the heads of keys and values differ in width", {}, layer.key);

  Decoder::Shape shape;
  shape.cache = found->shape;
  shape.layers = static_cast<std::int64_t>(found->layers.size());
  shape.uses_mask = true;
  shape.uses_positions = has_role(roles, InputRole::kPositions);
  for (const FoundState& state : states) shape.states.push_back(state.dims);
  Decoder decoder(files, shape);
  ir::Builder& to = decoder.builder();
  TokenRows rows{b.graph(),
                 {},
                 {},
                 outputs,
                 {},
                 decoder.mask(),
                 {.positions = sources.positions, .ones = sources.ones}};
  rows.inputs = {{sources.ids, decoder.input_ids()}, {sources.positions, decoder.positions()}};
  for (std::size_t i = 0; i < states.size(); ++i)
    rows.inputs[state_inputs[i]] = decoder.states()[i];
  for (std::size_t i = 0; i < found->layers.size(); ++i)
    for (const std::int64_t half : {0, 1}) {
      const std::string& name = half == 0 ? found->layers[i].key : found->layers[i].value;
      const ir::Origin origin{part.file->name, name};
      const ValueId index = to.constant(ir::make_i64({}, {half}), {}, origin);
      LLMC_TRY(rows.pasts[name], to.add_one(ir::Gather{0}, {decoder.pasts()[i], index}, origin));
    }
  std::vector<ValueId> wanted{outputs.at(part.graph.outputs[0])};
  for (const FoundState& state : states) wanted.push_back(outputs.at(state.output));
  LLMC_TRY(const auto copied, append_token_rows(to, part, rows, *found, wanted));
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

}  // namespace

Result<std::optional<ImportedModel>> bind_recurrent(FileSet& files, const Part& whole,
                                                    const FolderContents& siblings) {
  const std::optional<ImportedModel> none;
  Part part = whole;
  InputRoles roles = input_roles(part);
  if (!takes_one_token(part, roles)) return none;
  const std::vector<FoundState> states = find_states(part);
  for (const FoundState& state : states) roles.erase(state.input);
  const bool hybrid = has_role(roles, InputRole::kPossibleCache);
  const std::string logits = logits_beside(part, states);
  if (states.empty() || logits.empty()) return none;
  if (states.size() > static_cast<std::size_t>(kMaxLayers))
    return part.bad("has more than " + std::to_string(kMaxLayers) + " states");
  auto unsupported = unsupported_operators(*part.file, part.file->model.graph(), part.graph.nodes);
  if (!unsupported.empty()) return Error(std::move(unsupported));

  std::vector<std::string> wanted{logits};
  for (const FoundState& state : states) wanted.push_back(state.output);
  for (const auto& output : part.file->model.graph().output())
    if (hybrid && std::ranges::find(wanted, output.name()) == wanted.end())
      wanted.push_back(output.name());
  LLMC_TRY(part.graph, order_graph(*part.file, std::move(wanted)));
  if (hybrid) {
    LLMC_TRY(ImportedModel model, bind_hybrid(files, part, std::move(roles), states, siblings));
    return std::optional(std::move(model));
  }
  Decoder::Shape shape;
  for (const FoundState& state : states) shape.states.push_back(state.dims);
  shape.uses_positions = has_role(roles, InputRole::kPositions);
  Decoder decoder(files, shape);
  Bindings inputs;
  inputs.float_products = true;
  LLMC_RETURN_IF_ERROR(bind_columns(decoder.builder(), part, roles,
                                    {decoder.input_ids(), decoder.positions(), {}}, inputs));
  for (std::size_t i = 0; i < states.size(); ++i)
    inputs.values[states[i].input] = decoder.states()[i];
  LLMC_TRY(const auto outputs, decoder.append(part, inputs, "model/"));
  LLMC_TRY(ImportedModel model,
           decoder.finish(siblings, part, outputs[0], {}, {outputs.begin() + 1, outputs.end()}));
  return std::optional(std::move(model));
}

}  // namespace llmc::importer
