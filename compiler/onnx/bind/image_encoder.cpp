#include "compiler/onnx/bind/bind.h"

namespace llmc::importer {

Result<ir::Graph> bind_image_encoder(FileSet& files, const std::string& name) {
  LLMC_TRY(Part part, open_part(files, name, FileRole::kImageEncoder));
  if (part.graph.outputs.empty()) return part.bad("the graph has no output");
  const std::string rows =
      part.has_output("image_features") ? "image_features" : part.graph.outputs.front();
  LLMC_TRY(part, open_part(files, name, FileRole::kImageEncoder, {rows}));
  LLMC_TRY(
      ImportedModel model,
      bind_plain_graph(files, part,
                       {.values = {}, .types = {}, .wide_outputs = true, .float_products = true}));
  ir::Graph graph = std::move(model.module.graph());
  const ir::TensorType& type = graph.value(graph.outputs().front()).type;
  if (type.element != ir::ElementType::kF32 || type.rank() < 2 || !type.dims.back().is_constant())
    return part.bad("returns " + ir::to_string(type) + ", not rows of floats of a fixed size",
                    "an image encoder returns the rows that take the place of an image's tokens",
                    rows);
  if (graph.inputs().empty()) return part.bad("the graph reads no input");
  graph.name = "image_encoder";
  return graph;
}

}  // namespace llmc::importer
