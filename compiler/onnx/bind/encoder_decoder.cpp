#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/bind/source_states.h"
#include "compiler/onnx/limits.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;

/// Returns the outputs of the decoder without a past that hold keys and values of the source, for
/// the same layers as `inputs` of the decoder with a past.
Result<std::vector<std::string>> source_outputs(const Part& part, const SourceNames& inputs) {
  std::vector<std::string> names;
  for (const auto& output : part.file->model.graph().output())
    if (output.name().find("encoder.") != std::string::npos ||
        output.name().find("cross") != std::string::npos)
      names.push_back(output.name());
  LLMC_TRY(const SourceNames outputs, pair_source_names(part, names));
  if (outputs.layers.size() != inputs.layers.size())
    return part.bad("returns keys and values of the source for " +
                        std::to_string(outputs.layers.size()) + " layers, but the decoder reads " +
                        std::to_string(inputs.layers.size()),
                    "the files may be of different models");
  if (outputs.numbers != inputs.numbers)
    return part.bad("names other layers of the source than the inputs of the decoder",
                    "the files may be of different models", outputs.layers.front()[0]);
  names.clear();
  for (const auto& layer : outputs.layers) names.insert(names.end(), layer.begin(), layer.end());
  return names;
}

/// Returns the only input of an encoder without token ids that is not a mask: features of sound or
/// an image, f32[batch, …]. Fails with kUnsupported if there are several.
Result<std::string> features_input(const Part& part, const InputRoles& roles) {
  std::string found;
  for (const auto& [name, role] : roles) {
    if (role == InputRole::kMask) continue;
    if (!found.empty())
      return part.unsupported("an encoder of features with several inputs",
                              "compile it as a function of its own: --function", name);
    found = name;
  }
  if (found.empty()) return part.bad("the encoder reads no input");
  LLMC_RETURN_IF_ERROR(require_float(part, found));
  return found;
}

/// Returns the type of features for batch size 1: at most one other dim, `source`, is open.
Result<ir::TensorType> features_type(const Part& part, const std::string& name) {
  const auto sizes = declared_sizes(part, name);
  ir::TensorType type{ElementType::kF32, {1}};
  bool open = false;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i] ? *sizes[i] < 1 || *sizes[i] > kMaxHidden : open)
      return part.unsupported(
          "the features have no shape [batch, …] with at most one more open size",
          "export the encoder with fixed sizes of channels and features", name);
    open = open || !sizes[i];
    type.dims.push_back(sizes[i] ? Dim(*sizes[i]) : Dim::symbol("source"));
  }
  if (sizes.size() < 2 || sizes[0].value_or(1) != 1)
    return part.unsupported("the features have no shape [batch, …]",
                            "export the encoder with batch size 1 or an open one", name);
  return type;
}

/// Adds the features as an input of the graph. Sets `sources.ids` to one number per frame, for
/// masks. The length is the open dim, otherwise the last one.
Result<ValueId> features(ir::Builder& builder, const Part& part, const std::string& name,
                         InputSources& sources) {
  LLMC_TRY(const ir::TensorType type, features_type(part, name));
  const auto open =
      std::ranges::find_if(type.dims, [](const Dim& dim) { return !dim.is_constant(); });
  const auto axis = open == type.dims.end() ? type.rank() - 1
                                            : static_cast<std::size_t>(open - type.dims.begin());
  const ValueId value = builder.input("source_features", type);
  const ir::Origin origin{part.file->name, name};
  LLMC_TRY(const ValueId length, builder.add_one(ir::Shape{static_cast<std::int64_t>(axis),
                                                           static_cast<std::int64_t>(axis) + 1},
                                                 {value}, origin));
  LLMC_TRY(sources.ids,
           builder.add_one(ir::ConstantOfShape{ir::make_splat(ElementType::kI64, {1}, 1)}, {length},
                           origin));
  return value;
}

/// Appends the encoder and returns its rows, f32[1, rows, width]. Adds its input: token ids
/// i64[source], or features.
Result<ValueId> append_encoder(ir::Builder& builder, FileSet& files, const Part& part) {
  InputRoles roles = input_roles(part);
  InputSources sources;
  sources.past = builder.constant(ir::make_i64({1}, {0}), {}, {part.file->name, "past"});
  std::string features_name;
  ValueId value;
  if (has_role(roles, InputRole::kIds)) {
    sources.ids = builder.input("source_ids", {ElementType::kI64, {Dim::symbol("source")}});
  } else {
    LLMC_TRY(features_name, features_input(part, roles));
    LLMC_TRY(value, features(builder, part, features_name, sources));
    roles.erase(features_name);
  }
  LLMC_TRY(Bindings inputs, bind_inputs(builder, part, roles, sources));
  if (!features_name.empty()) inputs.values[features_name] = value;
  inputs.float_products = true;
  LLMC_TRY(const auto outputs,
           append_graph(builder, files, *part.file, part.graph, inputs, "encoder/"));
  return outputs.front();
}

Diagnostic depends_on(const Part& part, const std::string& input) {
  return part.unsupported("keys and values of the source depend on this input",
                          "they must depend on the encoder's rows only", input);
}

/// Returns whether the elements of `source`, not only its shape, affect one of `values`.
bool reads_elements(const ir::Graph& graph, std::vector<ValueId> values, ValueId source) {
  const ir::UseDef uses(graph);
  std::set<ValueId> seen(values.begin(), values.end());
  while (!values.empty()) {
    const ValueId value = values.back();
    values.pop_back();
    if (value == source) return true;
    const ir::Node* const node = uses.producer(value);
    if (node == nullptr || ir::op_as<ir::Shape>(node)) continue;
    for (const ValueId input : node->inputs)
      if (input.exists() && seen.insert(input).second) values.push_back(input);
  }
  return false;
}

/// Moves the last `count` nodes of a graph, each to directly after the nodes that compute its
/// operands, so that fewer values are in memory at the same time.
void move_to_operands(ir::Graph& graph, std::size_t count) {
  std::vector<ir::Node>& nodes = graph.mutable_nodes();
  std::map<ValueId, std::size_t> producers;
  std::vector<std::pair<std::size_t, std::size_t>> order;  // place, index
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::size_t place = 0;
    for (const ValueId input : nodes[i].inputs)
      if (const auto found = producers.find(input); found != producers.end())
        place = std::max(place, found->second);
    for (const ValueId output : nodes[i].outputs) producers[output] = i;
    order.emplace_back(i + count < nodes.size() ? i : place, i);
  }
  std::ranges::sort(order);
  std::vector<ir::Node> moved;
  for (const auto& [place, index] : order) moved.push_back(std::move(nodes[index]));
  nodes = std::move(moved);
}

/// Returns the graph of kEncode, which computes the states of all layers from a source.
Result<ir::Graph> encode_graph(FileSet& files, const EncoderDecoderFiles& names,
                               const Part& decoder, const ir::Module& module) {
  ir::Builder builder;
  LLMC_TRY(const Part encoder, open_part(files, names.encoder, FileRole::kModel));
  LLMC_TRY(const ValueId rows, append_encoder(builder, files, encoder));

  std::vector<const ir::State*> states;
  for (const ir::State& state : module.states)
    if (state.kind == ir::StateKind::kSource) states.push_back(&state);
  LLMC_TRY(const Part whole, open_part(files, names.first_decoder, FileRole::kModel));
  LLMC_TRY(const SourceNames inputs_of_source, source_state_inputs(decoder));
  LLMC_TRY(const auto wanted, source_outputs(whole, inputs_of_source));
  LLMC_TRY(const Part part, open_part(files, names.first_decoder, FileRole::kModel, wanted));
  Bindings inputs;
  inputs.float_products = true;
  const InputRoles roles = input_roles(part);
  const bool merged = has_role(roles, InputRole::kUseCache);
  InputRoles of_shape;  // inputs of which only the shape may be used, such as the batch size
  InputSources sources;
  for (const auto& [name, role] : roles) {
    if (role == InputRole::kUseCache) {
      const bool scalar = part.input(name)->type().tensor_type().shape().dim_size() == 0;
      inputs.constants[name] =
          ir::make_splat(ElementType::kBool,
                         scalar ? std::vector<std::int64_t>() : std::vector<std::int64_t>{1}, 0);
      continue;
    }
    if (role == InputRole::kSourceRows) {
      inputs.values[name] = rows;
    } else if (role == InputRole::kIds || role == InputRole::kSourceMask) {
      of_shape.emplace(name, role);
    } else if (!merged) {  // a branch that is not taken may read anything
      return depends_on(part, name);
    }
  }
  if (!of_shape.empty()) {
    const ir::Origin origin{names.first_decoder, of_shape.begin()->first};
    sources.ids = builder.constant(ir::make_i64({1}, {0}), {}, origin);
    LLMC_TRY(sources.source, builder.add_one(ir::Shape{1, 2}, {rows}, origin));
    LLMC_TRY(const Bindings bound, bind_inputs(builder, part, of_shape, sources));
    inputs.values.insert(bound.values.begin(), bound.values.end());
  }
  LLMC_TRY(const auto halves,
           append_graph(builder, files, *part.file, part.graph, inputs, "decoder/"));
  for (const auto& [name, role] : of_shape)
    if (reads_elements(builder.graph(), halves, inputs.values.at(name)))
      return depends_on(part, name);
  std::optional<Dim> rows_of_all;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const ir::Origin origin{names.first_decoder, wanted[2 * i]};
    LLMC_TRY(const ValueId state,
             builder.add_one(ir::Concat{0}, {halves[2 * i], halves[2 * i + 1]}, origin));
    ir::Value& value = builder.mutable_graph().value(state);
    const Dim length = value.type.rank() == 4 ? value.type.dims[2] : Dim();
    const ir::TensorType expected{ElementType::kF32,
                                  {2, states[i]->kv_heads, length, states[i]->head_dim}};
    if (!ir::compatible(value.type, expected))
      return part.bad("returns keys or values of type " + ir::to_string(value.type) +
                          " instead of " + ir::to_string(expected),
                      "the files may be of different models", wanted[2 * i]);
    if (rows_of_all.value_or(length) != length)
      return part.unsupported("keys and values of the source have different lengths in the layers",
                              "all layers must attend to the same rows", wanted[2 * i]);
    rows_of_all = length;
    value.type = expected;
    value.name = "source." + std::to_string(i);
    builder.output(state);
  }
  move_to_operands(builder.mutable_graph(), states.size());
  builder.mutable_graph().name = "encoder";
  return std::move(builder).take();
}

}  // namespace

Result<ImportedModel> bind_encoder_decoder(FileSet& files, const EncoderDecoderFiles& names,
                                           const FolderContents& siblings) {
  LLMC_TRY(const Part part, open_part(files, names.decoder, FileRole::kModel));
  LLMC_TRY(auto bound, bind_layer_caches(files, part, siblings, /*with_source=*/true));
  if (!bound)
    return part.bad("is not a decoder with caches and the state of a source",
                    "export the model with Optimum: --task text2text-generation-with-past");
  LLMC_TRY(ir::Graph encoder, encode_graph(files, names, part, bound->module));
  bound->module.entries.push_back({ir::EntryKind::kEncode, std::move(encoder)});
  return *std::move(bound);
}

}  // namespace llmc::importer
