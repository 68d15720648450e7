#include "compiler/onnx/inspect.h"

#include "compiler/onnx/graph_import.h"
#include "compiler/onnx/model_files.h"
#include "compiler/onnx/tensor.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/file.h"

namespace llmc::importer {
namespace fs = std::filesystem;
namespace {

/// Describes an input or output. A dim without a size or name is shown as its --dim name for an
/// input, as "?" for an output.
DeclaredValue describe(const onnx::ValueInfoProto& value, bool is_input) {
  DeclaredValue out;
  out.name = value.name();
  const auto& tensor = value.type().tensor_type();
  const auto element = element_type(tensor.elem_type());
  out.element = element              ? std::string(ir::to_string(*element))
                : tensor.elem_type() ? data_type_name(tensor.elem_type())
                                     : "?";
  for (const auto& dim : tensor.shape().dim())
    out.dims.push_back(dim.has_dim_value()        ? std::to_string(dim.dim_value())
                       : !dim.dim_param().empty() ? dim.dim_param()
                       : is_input                 ? unnamed_dim(value.name(), out.dims.size())
                                                  : "?");
  return out;
}

/// Returns the size of a tensor's data in bytes, computed from its dims. Returns 0 for invalid
/// dims, which binding reports, and for element types that the importer does not read.
std::uint64_t data_bytes(const onnx::TensorProto& tensor) {
  const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  const auto count = checked_product(dims);
  if (tensor.data_type() == kInt4 || tensor.data_type() == kUint4)
    return count ? static_cast<std::uint64_t>(*count / 2 + *count % 2) : 0;
  const auto element = element_type(tensor.data_type());
  if (!element) return 0;
  const auto size =
      count ? checked_mul(*count, static_cast<std::int64_t>(ir::element_bytes(*element)))
            : std::nullopt;
  return size ? static_cast<std::uint64_t>(*size) : 0;
}

InspectedOnnx describe(const OnnxFile& file) {
  InspectedOnnx out;
  out.file = file.name;
  const auto& model = file.model;
  const auto& graph = model.graph();
  out.producer = model.producer_name();
  if (!model.producer_version().empty()) out.producer += " " + model.producer_version();
  out.ir_version = model.ir_version();
  for (const auto& set : model.opset_import())
    out.opsets[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  const auto add_weight = [&](std::uint64_t bytes) {
    out.weight_bytes = checked_add(out.weight_bytes, bytes).value_or(UINT64_MAX);
  };
  std::map<std::string, bool> initialized;
  for (const auto& tensor : graph.initializer()) {
    initialized[tensor.name()] = true;
    add_weight(data_bytes(tensor));
  }
  for (const auto& input : graph.input())
    if (!initialized.contains(input.name())) out.inputs.push_back(describe(input, true));
  for (const auto& output : graph.output()) out.outputs.push_back(describe(output, false));
  for (const auto& node : graph.node()) {
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    ++out.operators[standard ? node.op_type() : node.domain() + "." + node.op_type()];
    if (node.op_type() == "Constant")
      for (const auto& attribute : node.attribute())
        if (attribute.has_t()) add_weight(data_bytes(attribute.t()));
  }
  out.nodes = graph.node_size();
  out.initializers = graph.initializer_size();
  return out;
}

/// Returns the .onnx files to describe, and lists every file with its role.
std::vector<std::pair<std::string, FileRole>> note_files(FileSet& files, const ModelFiles& model) {
  const FolderContents& contents = model.contents;
  std::vector<std::pair<std::string, FileRole>> graphs;
  const bool split = !contents.blocks.empty();
  for (const auto& name : contents.blocks) graphs.emplace_back(name, FileRole::kBlock);
  if (contents.embedding_graph) {
    const bool used = split && !contents.embedding_table;
    graphs.emplace_back(*contents.embedding_graph,
                        used ? FileRole::kEmbedding : FileRole::kIgnored);
  }
  if (contents.head) graphs.emplace_back(*contents.head, FileRole::kHead);
  for (const auto& name : contents.others) {
    FileRole role = FileRole::kIgnored;
    if (!split && name == model.name) role = FileRole::kModel;
    if (!split && name == model.media_encoder) role = encoder_role(name);
    if (role != FileRole::kIgnored) graphs.emplace_back(name, role);
    files.note(name, role);
  }
  for (const auto& [name, role] : graphs) files.note(name, role);
  if (contents.embedding_table) files.note(*contents.embedding_table, FileRole::kEmbedding);
  if (contents.config) files.note(*contents.config, FileRole::kConfig);
  if (contents.tokenizer_text) files.note(*contents.tokenizer_text, FileRole::kTokenizer);
  if (contents.tokenizer_model)
    files.note(*contents.tokenizer_model,
               contents.tokenizer_text ? FileRole::kIgnored : FileRole::kTokenizer);
  return graphs;
}

}  // namespace

Result<Inspection> inspect_model(const fs::path& path, const ModelReader& reader) {
  LLMC_TRY(const ModelFiles* const found, reader.open(path));
  Inspection result;
  result.path = path;
  FileSet files = found->files;
  std::vector<std::pair<std::string, FileRole>> graphs{{found->name, FileRole::kModel}};
  if (!found->media_encoder.empty())
    graphs.emplace_back(found->media_encoder, encoder_role(found->media_encoder));
  if (found->whole_folder) graphs = note_files(files, *found);
  for (const auto& [name, role] : graphs)
    if (const auto file = files.parse(name, role); file.ok())
      result.onnx.push_back(describe(**file));

  auto model = reader.bind(path);
  if (model.ok()) {
    result.files = model->files;
    result.warnings = model->warnings;
    result.model = std::move(model).value();
    return result;
  }
  if (result.onnx.empty()) return std::move(model).error();
  result.files = files.list();
  result.refused = std::move(model).error();
  return result;
}

}  // namespace llmc::importer
