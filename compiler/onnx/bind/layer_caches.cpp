#include <algorithm>
#include <array>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/bind/find_caches.h"
#include "compiler/onnx/bind/one_token.h"
#include "compiler/onnx/bind/source_states.h"
#include "compiler/onnx/operators.h"
#include "compiler/support/counted.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;

const Dim kTokens = Dim::symbol("seq"), kPastTokens = Dim::symbol("past"),
          kSourceTokens = Dim::symbol("source");

/// Returns whether the inputs include tokens and a possible cache, and belong to an encoder-decoder
/// if and only if `with_source` is set.
bool could_be_decoder(const InputRoles& roles, bool with_source) {
  const bool tokens = has_role(roles, InputRole::kIds) || has_role(roles, InputRole::kEmbeddings);
  return tokens && has_role(roles, InputRole::kPossibleCache) &&
         (with_source ? reads_source(roles) : !has_encoder_input(roles));
}

/// Returns the roles of the inputs in the decoder with a past.
InputRoles decoder_roles(const Part& part) {
  InputRoles roles = input_roles(part);
  // Only the branch without a past reads rows of the source.
  if (has_role(roles, InputRole::kUseCache))
    std::erase_if(roles, [](const auto& role) { return role.second == InputRole::kSourceRows; });
  return roles;
}

/// Returns the type of a possible cache for batch size 1: with the declared sizes, or with symbols
/// for all other dims.
ir::TensorType probe_type(const Part& part, const std::string& name, bool as_declared) {
  ir::TensorType type;
  const auto sizes = declared_sizes(part, name);
  const std::size_t batch = sizes.size() == 5 ? 1 : 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i <= batch)
      type.dims.emplace_back(i == batch ? 1 : 2);
    else if (as_declared && sizes[i].value_or(0) > 0)
      type.dims.emplace_back(*sizes[i]);
    else
      type.dims.push_back(Dim::symbol("cache" + std::to_string(i)));
  }
  return type;
}

/// Converts the graph with possible caches as inputs and finds those that are caches.
Result<std::optional<FoundCaches>> probe(FileSet& files, const Part& part, const InputRoles& roles,
                                         bool as_declared) {
  ir::Builder b;
  InputSources sources;
  sources.ids = b.input("ids", {ElementType::kI64, {kTokens}});
  sources.positions = b.input("positions", {ElementType::kI64, {1, kTokens}});
  const ValueId cached = b.input("cached", {ElementType::kF32, {kPastTokens}});
  LLMC_TRY(sources.past, b.add_one(ir::Shape{0, 1}, {cached}));
  const ValueId source = b.input("source", {ElementType::kF32, {kSourceTokens}});
  LLMC_TRY(sources.source, b.add_one(ir::Shape{0, 1}, {source}));
  sources.mask = b.input("mask", {ElementType::kF32, {1, 1, kTokens, *add(kPastTokens, kTokens)}});
  InputRoles others;
  std::map<std::string, ValueId> caches;
  for (const auto& [name, role] : roles) {
    if (role == InputRole::kPossibleCache) {
      caches[name] = b.input(name, probe_type(part, name, as_declared));
    } else if (role == InputRole::kSourceState) {
      const auto sizes = declared_sizes(part, name);
      caches[name] = b.input(
          name,
          {ElementType::kF32, {1, sizes[1].value_or(1), kSourceTokens, sizes[3].value_or(1)}});
    } else if (role == InputRole::kEmbeddings && !sources.embeddings.exists()) {
      const auto sizes = declared_sizes(part, name);
      const bool known = !sizes.empty() && sizes.back();
      const Dim width = known ? Dim(*sizes.back()) : Dim::symbol("hidden");
      caches[name] = b.input(name, {ElementType::kF32, {1, kTokens, width}});
    } else {
      others.emplace(name, role);
    }
  }
  LLMC_TRY(Bindings inputs, bind_inputs(b, part, others, sources));
  inputs.values.insert(caches.begin(), caches.end());
  LLMC_TRY(const auto values, append_graph(b, files, *part.file, part.graph, inputs, ""));
  std::map<std::string, ValueId> outputs;
  for (std::size_t i = 0; i < values.size(); ++i) outputs.emplace(part.graph.outputs[i], values[i]);
  std::vector<std::pair<std::string, ValueId>> ordered;
  for (const auto* value : part.graph.inputs)
    if (const auto it = caches.find(value->name());
        it != caches.end() && roles.at(it->first) == InputRole::kPossibleCache)
      ordered.emplace_back(*it);
  return find_caches(b.graph(), part, ordered, outputs);
}

/// Returns the name of the logits output: the output with such a name, or the only output except
/// the caches if the graph reads token ids. Returns nullopt if the graph returns hidden rows, as
/// parts of decoders do.
std::optional<std::string> logits_of(const Part& part, const InputRoles& roles,
                                     const FoundCaches& found) {
  std::vector<std::string> others;
  for (const auto& output : part.file->model.graph().output())
    if (std::ranges::none_of(found.layers, [&](const LayerCache& layer) {
          return layer.key_present == output.name() || layer.value_present == output.name();
        }))
      others.push_back(output.name());
  for (const auto& name : others)
    if (name == "logits") return name;
  for (const auto& name : others)
    if (name.find("logits") != std::string::npos) return name;
  if (others.size() != 1 || !has_role(roles, InputRole::kIds) ||
      others[0].find("hidden") != std::string::npos)
    return std::nullopt;
  return others[0];
}

/// Returns the width of the embedded rows; 0 if there are none.
Result<std::int64_t> declared_hidden(const Part& part, const InputRoles& roles) {
  for (const auto& [name, role] : roles) {
    if (role != InputRole::kEmbeddings) continue;
    const std::int64_t width = declared_width(part, name);
    if (width < 1) return part.bad("does not declare the width of the embedded rows", {}, name);
    return width;
  }
  return std::int64_t{0};
}

/// Binds the key and the value cache of each layer to the halves of the decoder's cache. The
/// decoder's caches have the same shape in all layers; narrower heads use their first elements.
Status bind_caches(Decoder& decoder, const Part& part, const FoundCaches& found, Bindings& inputs) {
  ir::Builder& b = decoder.builder();
  for (std::size_t i = 0; i < found.layers.size(); ++i) {
    const ValueId past = decoder.pasts()[i];
    if (found.joined) {
      inputs.values[found.layers[i].key] = past;
      continue;
    }
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::string& name = half == 0 ? found.layers[i].key : found.layers[i].value;
      const ir::Origin origin{part.file->name, name};
      const ValueId index = b.constant(ir::make_i64({}, {half}), {}, origin);
      LLMC_TRY(ValueId kept, b.add_one(ir::Gather{0}, {past, index}, origin));
      const std::int64_t dim = half == 0 ? found.layers[i].key_dim : found.layers[i].value_dim;
      if (dim < found.shape.head_dim) {
        const auto number = [&](std::int64_t n) {
          return b.constant(ir::make_i64({1}, {n}), {}, origin);
        };
        LLMC_TRY(kept, b.add_one(ir::Slice{}, {kept, number(0), number(dim), number(3)}, origin));
      }
      inputs.values[name] = kept;
    }
  }
  return ok_status();
}

/// Binds the inputs with the state of the source to the halves of the decoder's source inputs.
Status bind_sources(Decoder& decoder, const Part& part, const SourceStates& states,
                    Bindings& inputs) {
  ir::Builder& b = decoder.builder();
  for (std::size_t i = 0; i < states.layers.size(); ++i) {
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::string& name = states.layers[i][static_cast<std::size_t>(half)];
      const ir::Origin origin{part.file->name, name};
      const ValueId index = b.constant(ir::make_i64({1}, {half}), {}, origin);
      LLMC_TRY(inputs.values[name],
               b.add_one(ir::Gather{0}, {decoder.sources()[i], index}, origin));
      inputs.resized.insert(name);
    }
  }
  return ok_status();
}

/// Joins the updated keys and values of a layer, whose heads are padded with zeros to `head_dim`.
Result<ValueId> join_present(Decoder& decoder, const Part& part, ValueId key, ValueId value,
                             const LayerCache& layer, std::int64_t head_dim) {
  ir::Builder& b = decoder.builder();
  const ir::Origin origin{part.file->name, "present"};
  const auto wide = [&](ValueId x, std::int64_t dim) -> Result<ValueId> {
    if (dim < head_dim) {
      const ValueId pads =
          b.constant(ir::make_i64({8}, {0, 0, 0, 0, 0, 0, 0, head_dim - dim}), {}, origin);
      LLMC_TRY(x, b.add_one(ir::Pad{}, {x, pads}, origin));
    }
    return b.add_one(ir::Unsqueeze{{0}}, {x}, origin);
  };
  LLMC_TRY(const ValueId keys, wide(key, layer.key_dim));
  LLMC_TRY(const ValueId values, wide(value, layer.value_dim));
  return b.add_one(ir::Concat{0}, {keys, values}, origin);
}

Result<ImportedModel> bind_found(FileSet& files, Part part, const FoundCaches& found,
                                 const std::string& logits, const FolderContents& siblings) {
  std::vector<std::string> wanted{logits};
  for (const LayerCache& layer : found.layers) {
    wanted.push_back(layer.key_present);
    if (!found.joined) wanted.push_back(layer.value_present);
  }
  LLMC_TRY(part.graph, order_graph(*part.file, std::move(wanted)));
  InputRoles roles = decoder_roles(part);
  for (const LayerCache& layer : found.layers) {
    roles.erase(layer.key);
    roles.erase(layer.value);
  }
  LLMC_TRY(const SourceStates states, source_states(part));
  std::erase_if(roles, [](const auto& r) { return r.second == InputRole::kSourceState; });
  const bool embeds_ids = has_role(roles, InputRole::kIds);
  LLMC_TRY(Decoder::Shape shape, decoder_shape(part, found, states));
  set_uses(shape, part, roles);
  if (!embeds_ids) {
    LLMC_TRY(shape.hidden, declared_hidden(part, roles));
  }
  Decoder decoder(files, shape);
  LLMC_TRY(InputSources sources, decoder_sources(decoder, part));
  if (!embeds_ids) {
    LLMC_TRY(sources.embeddings, decoder.embed(siblings, part));
  }
  LLMC_TRY(Bindings inputs, bind_inputs(decoder.builder(), part, roles, sources));
  inputs.float_products = true;
  LLMC_RETURN_IF_ERROR(bind_caches(decoder, part, found, inputs));
  LLMC_RETURN_IF_ERROR(bind_sources(decoder, part, states, inputs));
  LLMC_TRY(const auto outputs, decoder.append(part, inputs, "model/"));
  std::vector<ValueId> presents;
  const std::size_t step = found.joined ? 1 : 2;
  for (std::size_t i = 1; i < outputs.size(); i += step) {
    ValueId present = outputs[i];
    if (!found.joined) {
      LLMC_TRY(present, join_present(decoder, part, outputs[i], outputs[i + 1],
                                     found.layers[presents.size()], found.shape.head_dim));
    }
    presents.push_back(present);
  }
  return decoder.finish(siblings, part, outputs[0], presents);
}

}  // namespace

Result<std::optional<ImportedModel>> bind_layer_caches(FileSet& files, const Part& part,
                                                       const FolderContents& siblings,
                                                       bool with_source) {
  const std::optional<ImportedModel> none;
  const InputRoles roles = decoder_roles(part);
  if (!could_be_decoder(roles, with_source)) return none;
  // If the ids input is only assumed, the graph is a decoder only if all other inputs match.
  const bool guess = !has_named_tokens(part);
  if (guess && has_role(roles, InputRole::kUnknown)) return none;
  auto unsupported = unsupported_operators(*part.file, part.file->model.graph(), part.graph.nodes);
  if (!unsupported.empty()) return Error(std::move(unsupported));
  // Declared sizes are often wrong, so they are used only if the graph needs constant sizes.
  auto found = probe(files, part, roles, false);
  if (!found.ok() && found.error().first().kind != ErrorKind::kUnsupported) {
    auto declared = probe(files, part, roles, true);
    if (declared.ok()) found = std::move(declared);
  }
  if (!found.ok() && guess) return none;
  if (!found.ok() || (*found && (*found)->fixed_tokens == 1)) {
    LLMC_TRY(auto bound, bind_one_token(files, part, siblings));
    if (bound) return bound;
  }
  if (!found.ok()) return std::move(found).error();
  if (!*found) return none;
  const FoundCaches& caches = **found;
  if (caches.fixed_tokens > 0) {
    return part.unsupported(
        "was exported for a fixed sequence length of " + counted(caches.fixed_tokens, "token"),
        "export it with a symbolic sequence length (dynamic axes)", caches.layers[0].key);
  }
  const auto logits = logits_of(part, roles, caches);
  if (!logits) return none;
  LLMC_TRY(ImportedModel model, bind_found(files, part, caches, *logits, siblings));
  return std::optional(std::move(model));
}

}  // namespace llmc::importer
