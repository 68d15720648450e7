#include "compiler/onnx/bind/part.h"

#include <algorithm>

#include "compiler/onnx/limits.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::CacheLayout;
using ir::Dim;
using ir::ElementType;
using ir::ValueId;

/// Returns the rank of the constant `name`, an initializer or the value of a Constant node;
/// otherwise nullopt.
std::optional<int> constant_rank(const Part& part, const std::string& name) {
  const auto it = part.graph.initializers.find(name);
  if (it != part.graph.initializers.end()) return it->second->dims_size();
  for (const int index : part.graph.nodes) {
    const auto& node = part.file->model.graph().node(index);
    if (node.op_type() != "Constant" || node.output_size() != 1 || node.output(0) != name) continue;
    if (const auto* value = find_attribute(node, "value")) return value->t().dims_size();
    if (find_attribute(node, "value_int")) return 0;
  }
  return std::nullopt;
}

std::optional<CacheShape> declared_cache(const Part& part, std::size_t leading) {
  auto dims = declared_sizes(part, kPastInput);
  for (auto& dim : dims)
    if (dim && *dim <= 0) dim.reset();  // a variable size, like a symbol
  if (dims.size() != leading + 5) return std::nullopt;
  const auto &first = dims[leading + 2], &second = dims[leading + 3], &width = dims[leading + 4];
  if (!width || first.has_value() == second.has_value()) return std::nullopt;
  const CacheShape shape{first ? CacheLayout::kHeadsFirst : CacheLayout::kSequenceFirst,
                         first ? *first : *second, *width};
  if (shape.kv_heads > kMaxHeads || shape.head_dim > kMaxHeadDim) return std::nullopt;
  return shape;
}

/// Returns whether the part uses input `name` only as the data operand of Reshape nodes.
bool is_only_reshaped(const Part& part, const std::string& name) {
  for (const auto& output : part.graph.outputs)
    if (output == name) return false;
  for (const int index : part.graph.nodes) {
    const auto& node = part.file->model.graph().node(index);
    for (int i = 0; i < node.input_size(); ++i)
      if (node.input(i) == name && (node.op_type() != "Reshape" || i != 0)) return false;
  }
  return true;
}

/// Returns the axis along which the part appends to past_key_values, as a layout; nullopt if no
/// Concat does.
std::optional<CacheLayout> written_layout(const Part& part, std::int64_t leading) {
  // Ranks of the values that are the past or a slice of it.
  std::map<std::string, std::int64_t> ranks{{kPastInput, leading + 5}};
  for (const int index : part.graph.nodes) {
    const auto& node = part.file->model.graph().node(index);
    if (node.op_type() == "Concat") {
      for (const auto& name : node.input()) {
        const auto it = ranks.find(name);
        if (it == ranks.end()) continue;
        // The dims are [.., past, kv, D] or [.., kv, past, D]: count from the end.
        const auto* attribute = find_attribute(node, "axis");
        const std::int64_t axis = attribute ? attribute->i() : 0;
        const std::int64_t from_end = axis < 0 ? axis : axis - it->second;
        if (from_end == -3) return CacheLayout::kSequenceFirst;
        if (from_end == -2) return CacheLayout::kHeadsFirst;
        return std::nullopt;
      }
      continue;
    }
    if (node.input_size() == 0 || node.output_size() == 0) continue;
    const auto it = ranks.find(node.input(0));
    if (it == ranks.end()) continue;
    if (node.op_type() == "Gather" && node.input_size() == 2) {
      const auto rank = constant_rank(part, node.input(1));
      if (rank) ranks[node.output(0)] = it->second - 1 + *rank;
    } else if (node.op_type() == "Cast" || node.op_type() == "Identity") {
      ranks[node.output(0)] = it->second;
    }
  }
  return std::nullopt;
}

}  // namespace

const onnx::ValueInfoProto* Part::input(const std::string& name) const {
  for (const auto* value : graph.inputs)
    if (value->name() == name) return value;
  return nullptr;
}

bool Part::has_output(const std::string& name) const {
  const auto& outputs = file->model.graph().output();
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](const auto& output) { return output.name() == name; });
}

Diagnostic Part::bad(std::string message, std::string hint, std::string node,
                     ErrorKind kind) const {
  return {.kind = kind,
          .file = file->name,
          .node = std::move(node),
          .message = std::move(message),
          .hint = std::move(hint)};
}

Diagnostic Part::unsupported(std::string message, std::string hint, std::string node) const {
  return bad(std::move(message), std::move(hint), std::move(node), ErrorKind::kUnsupported);
}

Result<Part> open_part(FileSet& files, const std::string& name, FileRole role,
                       std::vector<std::string> outputs) {
  Part part;
  LLMC_TRY(part.file, files.parse(name, role));
  for (const auto& output : outputs)
    if (!part.has_output(output)) return part.bad("the graph has no output '" + output + "'");
  LLMC_TRY(part.graph, order_graph(*part.file, std::move(outputs)));
  return part;
}

Status require_cache(const Part& part) {
  if (part.uses(kPastInput)) return ok_status();
  return part.bad(
      "was exported with the cache folded away (the graph reads no past_key_values), so it cannot "
      "generate",
      "export again with a past that is not empty, or without the simplifier that removed it");
}

std::vector<std::optional<std::int64_t>> declared_sizes(const Part& part, const std::string& name) {
  std::vector<std::optional<std::int64_t>> sizes;
  const auto* value = part.input(name);
  if (!value) return sizes;
  for (const auto& dim : value->type().tensor_type().shape().dim())
    sizes.push_back(dim.has_dim_value() ? std::optional(dim.dim_value()) : std::nullopt);
  return sizes;
}

std::int64_t declared_width(const Part& part, const std::string& name) {
  const auto sizes = declared_sizes(part, name);
  const std::int64_t width = sizes.empty() ? 0 : sizes.back().value_or(0);
  return width <= kMaxHidden ? std::max<std::int64_t>(width, 0) : 0;
}

std::string used_input(const Part& part, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (part.uses(name)) return name;
  return {};
}

Result<CacheShape> find_cache_shape(const Part& part, const LlmConfig& config,
                                    std::int64_t leading) {
  auto shape =
      config.cache ? config.cache : declared_cache(part, static_cast<std::size_t>(leading));
  if (!shape)
    return part.bad("the graph does not determine the shape of its cache",
                    "give key_value_shape in llm_config.json, for example [2, 1, 0, 8, 64]",
                    kPastInput);
  if (const auto written = written_layout(part, leading)) shape->layout = *written;
  return *shape;
}

ir::TensorType cache_type(const CacheShape& shape, const Dim& length) {
  if (shape.layout == CacheLayout::kSequenceFirst)
    return {ElementType::kF32, {2, 1, length, shape.kv_heads, shape.head_dim}};
  return {ElementType::kF32, {2, 1, shape.kv_heads, length, shape.head_dim}};
}

Result<ValueId> fit_hidden(ir::Builder& builder, const Part& part, const std::string& name,
                           ValueId value) {
  LLMC_RETURN_IF_ERROR(require_float(part, name));
  const auto dims = declared_sizes(part, name);
  const auto& type = builder.graph().value(value).type;
  const auto width = type.dims.empty() ? std::nullopt : type.dims.back().constant();
  LLMC_CHECK(width.has_value());
  const auto is_one = [](const Dim& dim) { return dim == Dim(1); };
  std::vector<std::int64_t> wanted;
  bool fits = false;
  if (dims.size() == 2) {
    wanted = {-1, *width};
    fits = type.rank() == 2;
  } else if (dims.size() == 3 && dims[1] == 1 && dims[0] != 1) {
    wanted = {-1, 1, *width};
    fits = type.rank() == 3 && is_one(type.dims[1]);
  } else if (dims.size() == 3 && dims[0] == 1 && dims[1] != 1) {
    wanted = {1, -1, *width};
    fits = type.rank() == 3 && is_one(type.dims[0]);
  } else {
    return value;
  }
  if (fits || (type.rank() == dims.size() && is_only_reshaped(part, name))) return value;
  const ir::Origin origin{part.file->name, name};
  const ValueId shape = builder.constant(
      ir::make_i64({static_cast<std::int64_t>(wanted.size())}, wanted), {}, origin);
  return builder.add_one(ir::Reshape{}, {value, shape}, origin);
}

Result<ValueId> fit_integers(ir::Builder& builder, const Part& part, const std::string& name,
                             ValueId value) {
  const auto* declared = part.input(name);
  const auto element =
      declared ? element_type(declared->type().tensor_type().elem_type()) : std::nullopt;
  if (!element || (*element != ElementType::kI64 && *element != ElementType::kI32)) {
    return part.unsupported("is not declared as i32 or i64", {}, name);
  }
  if (*element == builder.graph().value(value).type.element) return value;
  return builder.add_one(ir::Cast{*element}, {value}, {part.file->name, name});
}

Status require_float(const Part& part, const std::string& name) {
  const auto* declared = part.input(name);
  LLMC_CHECK(declared != nullptr);
  const auto element = element_type(declared->type().tensor_type().elem_type());
  if (element && ir::is_float(*element) && *element != ElementType::kF64) return ok_status();
  return part.unsupported("is not declared as f32, f16 or bf16", {}, name);
}

}  // namespace llmc::importer
