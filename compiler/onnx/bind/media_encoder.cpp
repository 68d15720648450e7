#include "compiler/onnx/bind/bind.h"

namespace llmc::importer {

Result<ir::Graph> bind_media_encoder(FileSet& files, const std::string& name) {
  const FileRole role = encoder_role(name);
  const std::string what = role == FileRole::kAudioEncoder ? "audio" : "image";
  LLMC_TRY(Part part, open_part(files, name, role));
  if (part.graph.outputs.empty()) return part.bad("the graph has no output");
  const std::string features = what + "_features";
  const std::string rows = part.has_output(features) ? features : part.graph.outputs.front();
  LLMC_TRY(part, open_part(files, name, role, {rows}));
  LLMC_TRY(
      ImportedModel model,
      bind_plain_graph(files, part,
                       {.values = {}, .types = {}, .wide_outputs = true, .float_products = true}));
  ir::Graph graph = std::move(model.module.graph());
  const ir::TensorType& type = graph.value(graph.outputs().front()).type;
  if (type.element != ir::ElementType::kF32 || type.rank() < 2 || !type.dims.back().is_constant())
    return part.bad("returns " + ir::to_string(type) + ", not rows of floats of a fixed size",
                    "the encoder returns the rows that take the place of the tokens of an " + what,
                    rows);
  if (graph.inputs().empty()) return part.bad("the graph reads no input");
  graph.name = what + "_encoder";
  return graph;
}

}  // namespace llmc::importer
