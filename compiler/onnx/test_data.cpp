#include "compiler/onnx/test_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/onnx/graph_order.h"
#include "compiler/onnx/model_files.h"
#include "compiler/onnx/tensor.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/counted.h"
#include "compiler/support/parse_number.h"

namespace llmc::importer {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMaxStructureBytes = 1u << 30;

Diagnostic not_a_tensor(const std::string& name) {
  return file_failure(ErrorKind::kBadInput, name, "is not an ONNX tensor",
                      "test data are files of a TensorProto, which onnx.save_tensor writes");
}

Result<ir::ConstantPtr> read_one(FileSet& files, const std::string& name) {
  OnnxFile file;
  file.name = name;
  LLMC_TRY(file.mapped, files.map(name, FileRole::kModel));
  onnx::TensorProto tensor;
  auto stripped = strip_tensor(file.mapped->bytes(), kMaxStructureBytes);
  if (!stripped.ok()) return std::move(stripped).error().in_file(name);
  if (stripped->size() > INT32_MAX ||
      !tensor.ParseFromArray(stripped->data(), static_cast<int>(stripped->size()))) {
    return not_a_tensor(name);
  }
  // Protobuf also accepts other content, such as an empty file.
  if (tensor.data_type() == onnx::TensorProto::UNDEFINED) return not_a_tensor(name);
  return read_tensor(files, file, tensor, name);
}

Result<std::vector<ir::ConstantPtr>> read_all(FileSet& files, const fs::path& folder,
                                              const std::string& stem) {
  std::vector<ir::ConstantPtr> tensors;
  while (true) {
    const std::string name = stem + std::to_string(tensors.size()) + ".pb";
    std::error_code error;
    if (!fs::exists(folder / name, error)) return tensors;
    auto tensor = read_one(files, name);
    if (!tensor.ok()) {
      Diagnostic bad = tensor.error().first();
      bad.file = (folder / name).string();
      if (bad.node == name) bad.node.clear();
      return bad;
    }
    tensors.push_back(*std::move(tensor));
  }
}

bool is_static(const ir::Graph& graph) {
  return std::all_of(graph.values().begin(), graph.values().end(), [](const ir::Value& value) {
    return std::all_of(value.type.dims.begin(), value.type.dims.end(),
                       [](const ir::Dim& dim) { return dim.is_constant(); });
  });
}

constexpr int kLevels = 4;

/// Returns whether an input is bound as a constant at attempt `level`.
bool may_decide_shapes(const ir::Constant& data, int level) {
  const std::size_t rank = data.dims().size();
  if (!ir::is_float(data.element())) return level >= 1 && rank <= 1;
  return (level >= 2 && rank == 0) || (level >= 3 && rank <= 1);
}

std::optional<int> set_number(const std::string& name) {
  constexpr std::string_view kStem = "test_data_set_";
  if (!name.starts_with(kStem)) return std::nullopt;
  return parse_number<int>(std::string_view(name).substr(kStem.size()));
}

Diagnostic wrong_tensor_count(const fs::path& model, const char* what, std::size_t have,
                              std::size_t wanted) {
  return file_failure(
      ErrorKind::kBadInput, model.string(),
      fmt::format("the data set has {}, the graph {}", counted(have, what), wanted));
}

/// The declared name and type of an input or output.
struct DeclaredPort {
  std::string name;
  std::optional<ir::ElementType> element;
  std::optional<std::vector<std::optional<std::int64_t>>> dims;  // nullopt: the rank is unknown
};

/// Returns the declaration of a tensor. Fails for sequences, maps and optional values.
Result<DeclaredPort> declared_port(const OnnxFile& file, const onnx::ValueInfoProto& value) {
  const auto kind = value.type().value_case();
  if (kind == onnx::TypeProto::kTensorType) {
    const auto& type = value.type().tensor_type();
    DeclaredPort port{value.name(), element_type(type.elem_type()), std::nullopt};
    if (type.has_shape()) port.dims.emplace();
    for (const auto& dim : type.shape().dim())
      port.dims->push_back(dim.has_dim_value() ? std::optional(dim.dim_value()) : std::nullopt);
    return port;
  }
  if (kind == onnx::TypeProto::VALUE_NOT_SET)
    return DeclaredPort{value.name(), std::nullopt, std::nullopt};
  return bad_node(file, value.name(), "values other than tensors are not supported", {},
                  ErrorKind::kUnsupported);
}

/// Converts data to the declared type: older data sets store the bits of bf16 as u16.
ir::ConstantPtr as_declared(ir::ConstantPtr data, const DeclaredPort& what) {
  const bool narrow =
      what.element == ir::ElementType::kBF16 || what.element == ir::ElementType::kF16;
  if (!narrow || data->element() != ir::ElementType::kU16) return data;
  return ir::make_constant(*what.element, data->dims(), data->bytes());
}

/// Returns "input_0.pb has the dims [1, 3, 64, 64], and the model's input 'x' [1, 3, 32, 32]" for
/// the first input whose dims differ from the declared ones; empty if there is none.
std::string other_dims(const DataSet& data, const std::vector<DeclaredPort>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].dims) continue;
    const auto& dims = data.inputs[i]->dims();
    std::vector<std::string> declared;
    bool differs = inputs[i].dims->size() != dims.size();
    for (std::size_t a = 0; a < inputs[i].dims->size(); ++a) {
      const auto& size = (*inputs[i].dims)[a];
      declared.push_back(size ? std::to_string(*size) : "?");
      differs = differs || (size && *size != dims[a]);
    }
    if (differs)
      return fmt::format("input_{}.pb has the dims [{}], and the model's input '{}' [{}]", i,
                         fmt::join(dims, ", "), printable(inputs[i].name, 40),
                         fmt::join(declared, ", "));
  }
  return {};
}

}  // namespace

Result<DataSet> read_data_set(const fs::path& folder) {
  LLMC_TRY(FileSet files, FileSet::open(folder));
  DataSet data;
  LLMC_TRY(data.inputs, read_all(files, folder, "input_"));
  LLMC_TRY(data.outputs, read_all(files, folder, "output_"));
  return data;
}

std::vector<fs::path> data_set_folders(const fs::path& model_folder) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(model_folder, error))
    if (const auto number = set_number(entry.path().filename().string()))
      found.emplace_back(*number, entry.path());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> folders;
  for (auto& [number, path] : found) folders.push_back(std::move(path));
  return folders;
}

Result<BoundModel> import_with_data(const fs::path& model, const fs::path& folder,
                                    const ModelReader& reader) {
  std::vector<DeclaredPort> inputs, outputs;
  {
    LLMC_TRY(const ModelFiles* const found, reader.open(model));
    FileSet files = found->files;
    LLMC_TRY(const auto file, files.parse(found->name, FileRole::kModel));
    LLMC_TRY(const OrderedGraph graph, order_graph(*file));
    for (const auto* input : graph.inputs) {
      LLMC_TRY(inputs.emplace_back(), declared_port(*file, *input));
    }
    for (const auto& output : file->model.graph().output()) {
      LLMC_TRY(outputs.emplace_back(), declared_port(*file, output));
    }
  }
  LLMC_TRY(DataSet data, read_data_set(folder));
  if (data.outputs.size() != outputs.size())
    return wrong_tensor_count(model, "output", data.outputs.size(), outputs.size());
  if (data.inputs.size() != inputs.size())
    return wrong_tensor_count(model, "input", data.inputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    data.inputs[i] = as_declared(std::move(data.inputs[i]), inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    data.outputs[i] = as_declared(std::move(data.outputs[i]), outputs[i]);
  std::optional<Result<BoundModel>> best;
  for (int level = 0; level < kLevels; ++level) {
    PlainInputs attempt;
    BoundModel bound;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ir::Constant& tensor = *data.inputs[i];
      if (may_decide_shapes(tensor, level)) {
        attempt.values[inputs[i].name] = data.inputs[i];
        bound.bound.push_back(inputs[i].name);
      } else {
        attempt.types[inputs[i].name] = {tensor.element(),
                                         {tensor.dims().begin(), tensor.dims().end()}};
        bound.inputs.push_back(data.inputs[i]);
      }
    }
    auto imported = reader.bind_plain(model, attempt);
    if (!imported.ok()) {
      if (!best || !best->ok()) best = std::move(imported).error();
      continue;
    }
    bound.model = *std::move(imported);
    bound.outputs = data.outputs;
    const bool done = is_static(bound.model.graph());
    best = std::move(bound);
    if (done) break;
  }
  // Some models are sound with other dims than they declare, so this is not an error by itself.
  if (const std::string difference = best->ok() ? "" : other_dims(data, inputs);
      !difference.empty()) {
    std::vector<Diagnostic> diagnostics = best->error().diagnostics();
    diagnostics.back().hint = difference;
    return Error(std::move(diagnostics));
  }
  return *std::move(best);
}

}  // namespace llmc::importer
