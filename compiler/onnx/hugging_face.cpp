#include "compiler/onnx/hugging_face.h"

#include <algorithm>

#include "compiler/onnx/decoder_inputs.h"
#include "compiler/onnx/find_caches.h"
#include "compiler/onnx/limits.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/split_model.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;
using Roles = std::map<std::string, InputRole>;

const Dim kTokens = Dim::symbol("seq"), kPastTokens = Dim::symbol("past");

bool has_role(const Roles& roles, InputRole role) {
  return std::ranges::any_of(roles, [&](const auto& entry) { return entry.second == role; });
}

/// Tokens come in, something of a cache's form too, and nothing of an encoder.
bool could_be_decoder(const Roles& roles) {
  const bool tokens = has_role(roles, InputRole::kIds) || has_role(roles, InputRole::kEmbeddings);
  const bool encoder = std::ranges::any_of(
      roles, [](const auto& role) { return role.first.find("encoder") != std::string::npos; });
  return tokens && has_role(roles, InputRole::kPossibleCache) && !encoder;
}

/// The type of a possible cache: as declared, or with symbols for all dims but the batch.
ir::TensorType probe_type(const onnx::ValueInfoProto& value, bool as_declared) {
  ir::TensorType type;
  const auto& dims = value.type().tensor_type().shape().dim();
  const int batch = dims.size() == 5 ? 1 : 0;
  for (int i = 0; i < dims.size(); ++i) {
    const bool number = dims[i].has_dim_value() && dims[i].dim_value() > 0;
    if (i == batch) {
      type.dims.emplace_back(1);
    } else if (i < batch) {
      type.dims.emplace_back(2);
    } else if (as_declared && number) {
      type.dims.emplace_back(dims[i].dim_value());
    } else {
      type.dims.push_back(Dim::symbol("cache" + std::to_string(i)));
    }
  }
  return type;
}

/// Imports the graph once with caches of unknown dims, to see which inputs are caches.
Result<std::optional<FoundCaches>> probe(FileSet& files, const Part& part, const Roles& roles,
                                         bool as_declared) {
  ir::Builder b;
  InputSources sources;
  sources.ids = b.input("ids", {ElementType::kI64, {kTokens}});
  sources.positions = b.input("positions", {ElementType::kI64, {1, kTokens}});
  const ValueId cached = b.input("cached", {ElementType::kF32, {kPastTokens}});
  LLMC_TRY(sources.past, b.add_one(ir::Shape{0, 1}, {cached}));
  sources.mask = b.input("mask", {ElementType::kF32, {1, 1, kTokens, *add(kPastTokens, kTokens)}});
  Roles others;
  std::map<std::string, ValueId> caches;
  for (const auto& [name, role] : roles) {
    const auto& value = *part.input(name);
    if (role == InputRole::kPossibleCache) {
      caches[name] = b.input(name, probe_type(value, as_declared));
    } else if (role == InputRole::kEmbeddings && !sources.embeddings.exists()) {
      const auto& dims = value.type().tensor_type().shape().dim();
      const Dim width = dims.size() > 0 && dims[dims.size() - 1].has_dim_value()
                            ? Dim(dims[dims.size() - 1].dim_value())
                            : Dim::symbol("hidden");
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

/// The output that is no cache: by name, or the only one that a graph of token ids has. nullopt for
/// a part of a decoder, which gives hidden rows.
std::optional<std::string> logits_of(const Part& part, const Roles& roles,
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

/// Rows for a graph that takes them in place of ids, from the files beside it.
Result<ValueId> embed(FileSet& files, Decoder& decoder, const FolderContents& beside,
                      const Part& part, const ImportOptions& options) {
  if (beside.embedding_table) return decoder.embed_with_table(files, *beside.embedding_table);
  if (!beside.embedding_graph)
    return part.bad("takes embedded rows, and there is no embedding beside it",
                    "put embedding.onnx or embeddings_bf16.bin into its folder");
  LLMC_TRY(const Part embedding, open_part(files, *beside.embedding_graph, FileRole::kEmbedding,
                                           options, {"inputs_embeds"}));
  return decoder.embed_with_graph(files, embedding);
}

Result<std::int64_t> declared_hidden(const Part& part, const Roles& roles) {
  for (const auto& [name, role] : roles) {
    if (role != InputRole::kEmbeddings) continue;
    const auto& dims = part.input(name)->type().tensor_type().shape().dim();
    const std::int64_t width = dims.empty() ? 0 : dims[dims.size() - 1].dim_value();
    if (width < 1 || width > kMaxHidden)
      return part.bad("does not declare the width of the embedded rows", {}, name);
    return width;
  }
  return std::int64_t{0};
}

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
      LLMC_TRY(inputs.values[name], b.add_one(ir::Gather{0}, {past, index}, origin));
    }
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

Result<ImportedModel> import_found(FileSet& files, Part part, const FoundCaches& found,
                                   const std::string& logits, const FolderContents& beside,
                                   const ImportOptions& options) {
  std::vector<std::string> wanted{logits};
  for (const LayerCache& layer : found.layers) {
    wanted.push_back(layer.key_present);
    if (!found.joined) wanted.push_back(layer.value_present);
  }
  LLMC_TRY(part.graph, order_graph(*part.file, std::move(wanted)));
  Roles roles = input_roles(part);
  for (const LayerCache& layer : found.layers) {
    roles.erase(layer.key);
    roles.erase(layer.value);
  }
  const bool takes_ids = has_role(roles, InputRole::kIds);
  Decoder::Shape shape;
  shape.cache = found.shape;
  shape.layers = static_cast<std::int64_t>(found.layers.size());
  shape.uses_mask = needs_mask(part, roles);
  shape.uses_positions = has_role(roles, InputRole::kPositions);
  if (!takes_ids) {
    LLMC_TRY(shape.hidden, declared_hidden(part, roles));
  }
  Decoder decoder(shape);
  InputSources sources;
  sources.ids = decoder.input_ids();
  sources.positions = decoder.positions();
  sources.mask = decoder.mask();
  const std::int64_t tokens = found.shape.layout == ir::CacheLayout::kSequenceFirst ? 2 : 3;
  LLMC_TRY(sources.past,
           decoder.builder().add_one(ir::Shape{tokens, tokens + 1}, {decoder.pasts()[0]},
                                     {part.file->name, "past"}));
  if (!takes_ids) {
    LLMC_TRY(sources.embeddings, embed(files, decoder, beside, part, options));
  }
  LLMC_TRY(Bindings inputs, bind_inputs(decoder.builder(), part, roles, sources));
  inputs.float_products = true;
  LLMC_RETURN_IF_ERROR(bind_caches(decoder, part, found, inputs));
  LLMC_TRY(const auto outputs,
           append_graph(decoder.builder(), files, *part.file, part.graph, inputs, "model/"));
  std::vector<ValueId> presents;
  const std::size_t step = found.joined ? 1 : 2;
  for (std::size_t i = 1; i < outputs.size(); i += step) {
    ValueId present = outputs[i];
    if (!found.joined) {
      LLMC_TRY(present, join_present(decoder, part, outputs[i], outputs[i + 1]));
    }
    presents.push_back(present);
  }
  ImportedModel model;
  LLMC_RETURN_IF_ERROR(decoder.finish(part, outputs[0], presents, model));
  LLMC_RETURN_IF_ERROR(read_tokenizer(files, beside, model));
  return model;
}

}  // namespace

Result<std::optional<ImportedModel>> import_hugging_face(FileSet& files, const Part& part,
                                                         const FolderContents& beside,
                                                         const ImportOptions& options) {
  std::optional<ImportedModel> none;
  const Roles roles = input_roles(part);
  if (!could_be_decoder(roles)) return none;
  // A graph whose ids are a guess is a decoder only when everything else fits.
  const bool guess = !names_its_tokens(part);
  if (guess && has_role(roles, InputRole::kUnknown)) return none;
  auto unsupported = unsupported_operators(*part.file, part.file->model.graph(), part.graph.nodes);
  if (!unsupported.empty()) return Error(std::move(unsupported));
  // Declared dims are often wrong; they are looked at where the graph needs numbers.
  auto found = probe(files, part, roles, false);
  if (!found.ok() && found.error().first().kind != ErrorKind::kUnsupported) {
    auto declared = probe(files, part, roles, true);
    if (declared.ok()) found = std::move(declared);
  }
  if (!found.ok() && guess) return none;
  if (!found.ok()) return std::move(found).error();
  if (!*found) return none;
  if ((*found)->layers.size() > static_cast<std::size_t>(kMaxLayers))
    return part.bad("has more than " + std::to_string(kMaxLayers) + " caches");
  if ((*found)->fixed_tokens > 0) {
    Diagnostic d = part.bad(
        "was exported for " + std::to_string((*found)->fixed_tokens) +
            " tokens at a time: it appends so many to its cache whatever it is given",
        "export it with a sequence length that may change (dynamic axes)", (*found)->layers[0].key);
    d.kind = ErrorKind::kUnsupported;
    return d;
  }
  const auto logits = logits_of(part, roles, **found);
  if (!logits) return none;
  LLMC_TRY(ImportedModel model, import_found(files, part, **found, *logits, beside, options));
  return std::optional(std::move(model));
}

}  // namespace llmc::importer
