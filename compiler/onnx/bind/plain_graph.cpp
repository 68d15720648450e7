#include <algorithm>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::ElementType;
using ir::ValueId;

bool is_narrow(ElementType element) {
  return element == ElementType::kF16 || element == ElementType::kBF16;
}

/// Binds inputs with a value in `given` to constants, and adds the others as inputs of `builder`.
/// Converts f16 and bf16 inputs to f32.
Result<Bindings> bind_inputs(ir::Builder& builder, const Part& part, const PlainInputs& given) {
  Bindings inputs;
  inputs.exact_casts = true;
  inputs.float_products = given.float_products;
  for (const auto* input : part.graph.inputs) {
    const std::string& name = input->name();
    if (const auto value = given.values.find(name); value != given.values.end()) {
      inputs.constants[name] = value->second;
      continue;
    }
    ir::TensorType type;
    if (const auto known = given.types.find(name); known != given.types.end()) {
      type = known->second;
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

/// Returns the element type that the file declares for output `name`, otherwise nullopt.
std::optional<ElementType> declared_output(const Part& part, const std::string& name) {
  for (const auto& output : part.file->model.graph().output())
    if (output.name() == name && output.type().has_tensor_type())
      return element_type(output.type().tensor_type().elem_type());
  return std::nullopt;
}

/// Returns whether the graph has token ids and logits with symbolic sizes, and no input of an
/// encoder.
bool is_decoder_without_cache(const Part& part, const ir::Graph& graph) {
  const bool encoder = has_encoder_input(input_roles(part));
  const bool open = std::ranges::any_of(
      graph.inputs(), [&](ValueId input) { return !ir::element_count(graph.value(input).type); });
  return takes_ids(part) && part.has_output("logits") && open && !encoder;
}

}  // namespace

Result<ImportedModel> bind_plain_graph(FileSet& files, const Part& part, const PlainInputs& given) {
  ir::Builder builder;
  LLMC_TRY(const Bindings inputs, bind_inputs(builder, part, given));
  LLMC_TRY(auto outputs, append_graph(builder, files, *part.file, part.graph, inputs, ""));
  // An output that is an input or another output gets a separate value, because each value has one
  // name.
  std::set<ValueId> named(builder.graph().inputs().begin(), builder.graph().inputs().end());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = part.graph.outputs[i];
    const ir::Origin origin{part.file->name, name};
    ValueId output = outputs[i];
    const auto declared = declared_output(part, name);
    if (!given.wide_outputs && declared && is_narrow(*declared) &&
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
  model.lacks_cache = is_decoder_without_cache(part, builder.graph());
  model.module = ir::plain_module(std::move(builder).take());
  model.module.graph().name = "model";
  return model;
}

}  // namespace llmc::importer
