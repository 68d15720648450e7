#include <algorithm>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::ValueId;

/// Returns the outputs of the decoder without a past that hold keys and values of the source, in
/// the order of the file.
Result<std::vector<std::string>> source_outputs(const Part& part, std::size_t layers) {
  std::vector<std::string> names;
  for (const auto& output : part.file->model.graph().output())
    if (output.name().find("encoder.") != std::string::npos ||
        output.name().find("cross") != std::string::npos)
      names.push_back(output.name());
  if (names.size() != 2 * layers)
    return part.bad("returns " + std::to_string(names.size()) +
                        " keys and values of the source, but the decoder reads " +
                        std::to_string(2 * layers),
                    "the files may be of different models");
  return names;
}

/// Appends the encoder and returns its rows, f32[1, source, width].
Result<ValueId> append_encoder(ir::Builder& builder, FileSet& files, const Part& part,
                               const InputSources& sources) {
  const InputRoles roles = input_roles(part);
  if (!has_role(roles, InputRole::kIds))
    return part.unsupported("an encoder that does not read token ids",
                            "compile it as a function of its own: --function", "");
  LLMC_TRY(const Bindings inputs, bind_inputs(builder, part, roles, sources));
  LLMC_TRY(const auto outputs,
           append_graph(builder, files, *part.file, part.graph, inputs, "encoder/"));
  return outputs.front();
}

/// Returns the graph of kEncode: token ids of a source to the states of all layers.
Result<ir::Graph> encode_graph(FileSet& files, const EncoderDecoderFiles& names,
                               const ir::Module& module) {
  ir::Builder builder;
  LLMC_TRY(const Part encoder, open_part(files, names.encoder, FileRole::kModel));
  InputSources sources;
  sources.ids = builder.input("source_ids", {ElementType::kI64, {Dim::symbol("source")}});
  sources.past = builder.constant(ir::make_i64({1}, {0}), {}, {names.encoder, "past"});
  LLMC_TRY(const ValueId rows, append_encoder(builder, files, encoder, sources));

  std::vector<const ir::State*> states;
  for (const ir::State& state : module.states)
    if (state.kind == ir::StateKind::kSource) states.push_back(&state);
  LLMC_TRY(const Part whole, open_part(files, names.first_decoder, FileRole::kModel));
  LLMC_TRY(const auto wanted, source_outputs(whole, states.size()));
  LLMC_TRY(const Part part, open_part(files, names.first_decoder, FileRole::kModel, wanted));
  Bindings inputs;
  const InputRoles roles = input_roles(part);
  const bool merged = has_role(roles, InputRole::kUseCache);
  for (const auto& [name, role] : roles) {
    if (role == InputRole::kUseCache) {
      const bool scalar = part.input(name)->type().tensor_type().shape().dim_size() == 0;
      inputs.constants[name] =
          ir::make_splat(ElementType::kBool,
                         scalar ? std::vector<std::int64_t>() : std::vector<std::int64_t>{1}, 0);
      continue;
    }
    // A branch that is not taken may read anything.
    if (role != InputRole::kSourceRows && merged) continue;
    if (role != InputRole::kSourceRows)
      return part.unsupported("keys and values of the source depend on this input",
                              "they must depend on the encoder's rows only", name);
    inputs.values[name] = rows;
  }
  LLMC_TRY(const auto halves,
           append_graph(builder, files, *part.file, part.graph, inputs, "decoder/"));
  for (std::size_t i = 0; i < states.size(); ++i) {
    const ir::Origin origin{names.first_decoder, wanted[2 * i]};
    LLMC_TRY(const ValueId state,
             builder.add_one(ir::Concat{0}, {halves[2 * i], halves[2 * i + 1]}, origin));
    ir::Value& value = builder.mutable_graph().value(state);
    const ir::TensorType expected{
        ElementType::kF32, {2, states[i]->kv_heads, Dim::symbol("source"), states[i]->head_dim}};
    if (!ir::compatible(value.type, expected))
      return part.bad("returns keys or values of type " + ir::to_string(value.type) +
                          " instead of " + ir::to_string(expected),
                      "the files may be of different models", wanted[2 * i]);
    value.type = expected;
    value.name = states[i]->input;
    builder.output(state);
  }
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
  LLMC_TRY(ir::Graph encoder, encode_graph(files, names, bound->module));
  bound->module.entries.push_back({std::string(ir::kEncode), std::move(encoder)});
  return *std::move(bound);
}

}  // namespace llmc::importer
