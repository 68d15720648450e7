#include "compiler/onnx/single_model.h"

#include <algorithm>

#include "compiler/onnx/split_model.h"

namespace llmc::importer {
namespace {

using ir::ValueId;

Result<ImportedModel> import_generic(FileSet& files, const Part& part) {
  ir::Builder builder;
  std::map<std::string, ValueId> inputs;
  for (const auto* input : part.graph.inputs) {
    LLMC_TRY(auto type, declared_type(*part.file, *input));
    inputs[input->name()] = builder.input(input->name(), std::move(type));
  }
  LLMC_TRY(const auto outputs, append_graph(builder, files, *part.file, part.graph, inputs, ""));
  for (const ValueId output : outputs) builder.output(output);
  ImportedModel model;
  model.kind = GraphKind::kGeneric;
  model.graph = std::move(builder).take();
  model.graph.name = "model";
  return model;
}

}  // namespace

Result<ImportedModel> import_single(FileSet& files, const std::string& name, const FolderContents&,
                                    const ImportOptions& options) {
  LLMC_TRY(const Part part, open_part(files, name, FileRole::kModel, options, {}));
  return import_generic(files, part);
}

}  // namespace llmc::importer
