#include "compiler/onnx/check_model.h"

#include <algorithm>
#include <set>

#include "compiler/onnx/graph_order.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using Imports = google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>;

std::string shown_domain(std::string_view domain) {
  return domain.empty() ? "ai.onnx" : printable(domain, 80);
}

/// Returns the type of the value field that is set in the attribute; UNDEFINED if none is set,
/// nullopt if several are.
std::optional<AttributeProto::AttributeType> value_field(const AttributeProto& a) {
  const std::pair<bool, AttributeProto::AttributeType> fields[] = {
      {a.has_f(), AttributeProto::FLOAT},
      {a.has_i(), AttributeProto::INT},
      {a.has_s(), AttributeProto::STRING},
      {a.has_t(), AttributeProto::TENSOR},
      {a.has_g(), AttributeProto::GRAPH},
      {a.has_sparse_tensor(), AttributeProto::SPARSE_TENSOR},
      {a.has_tp(), AttributeProto::TYPE_PROTO},
      {a.floats_size() > 0, AttributeProto::FLOATS},
      {a.ints_size() > 0, AttributeProto::INTS},
      {a.strings_size() > 0, AttributeProto::STRINGS},
      {a.tensors_size() > 0, AttributeProto::TENSORS},
      {a.graphs_size() > 0, AttributeProto::GRAPHS},
      {a.sparse_tensors_size() > 0, AttributeProto::SPARSE_TENSORS},
      {a.type_protos_size() > 0, AttributeProto::TYPE_PROTOS},
  };
  auto used = AttributeProto::UNDEFINED;
  for (const auto& [is_used, type] : fields) {
    if (!is_used) continue;
    if (used != AttributeProto::UNDEFINED) return std::nullopt;
    used = type;
  }
  return used;
}

class ModelChecker {
 public:
  explicit ModelChecker(const OnnxFile& file) : file_(file) {}

  Status run() {
    const onnx::ModelProto& model = file_.model;
    LLMC_RETURN_IF_ERROR(check_ir_version(model.ir_version()));
    if (model.opset_import().empty())
      return bad({}, "not a valid ONNX file: no operator set is imported");
    LLMC_RETURN_IF_ERROR(check_imports(model.opset_import(), {}));
    for (const auto& function : model.functions()) LLMC_RETURN_IF_ERROR(check_function(function));
    LLMC_RETURN_IF_ERROR(check_initialized_inputs(model.graph()));
    return check_nodes(model.graph().node());
  }

 private:
  Diagnostic bad(const std::string& node, std::string message,
                 std::string hint =
                     "the file is damaged or its exporter is broken; export it "
                     "again") const {
    return bad_node(file_, node, std::move(message), std::move(hint));
  }

  Diagnostic bad_node_of(const NodeProto& node, std::string message) const {
    Diagnostic d = bad(node.name(), std::move(message));
    if (d.node.empty() && node.output_size() > 0) d.node = node.output(0);
    d.op = node.op_type();
    return d;
  }

  Diagnostic too_new(const std::string& node, std::string message, std::string hint) const {
    return bad_node(file_, node, std::move(message), std::move(hint), ErrorKind::kUnsupported);
  }

  Status check_ir_version(std::int64_t version) const {
    if (version < 1)
      return bad({}, "not a valid ONNX file: its ir_version is " + std::to_string(version),
                 "export it again, or set ir_version (8 suits operator sets up to 18)");
    if (version > kNewestIrVersion)
      return too_new({},
                     "its ir_version " + std::to_string(version) + " is newer than " +
                         std::to_string(kNewestIrVersion) + ", the newest supported version",
                     "save it with ir_version " + std::to_string(kNewestIrVersion) + " or lower");
    return ok_status();
  }

  /// Checks the operator-set imports of a function, or of the model if `function` is empty.
  Status check_imports(const Imports& imports, const std::string& function) const {
    std::set<std::string_view> seen;
    for (const auto& set : imports) {
      const std::string_view domain = plain_domain(set.domain());
      if (!seen.insert(domain).second)
        return bad(function,
                   "imports the operator set of domain '" + shown_domain(domain) + "' twice",
                   "leave one entry for each domain in opset_import; '' and 'ai.onnx' are the same "
                   "domain");
      if (!domain.empty()) continue;
      if (set.version() < 1)
        return bad(
            function,
            "imports operator set " + std::to_string(set.version()) + ", which does not exist",
            "export it again, or correct opset_import");
      if (set.version() > kNewestOpset)
        return too_new(function,
                       "imports operator set " + std::to_string(set.version()) + ", newer than " +
                           std::to_string(kNewestOpset) + ", the newest supported version",
                       "export with operator set " + std::to_string(kNewestOpset) + " or lower");
    }
    return ok_status();
  }

  template <class Names>
  Status check_distinct(const onnx::FunctionProto& function, const Names& names,
                        const char* what) const {
    std::set<std::string_view> seen;
    for (const std::string& name : names)
      if (!seen.insert(name).second)
        return bad(function.name(), "the function has two " + std::string(what) + " called '" +
                                        printable(name, 80) + "'");
    return ok_status();
  }

  Status check_function(const onnx::FunctionProto& function) const {
    if (function.name().empty()) return bad({}, "the model has a function without a name");
    LLMC_RETURN_IF_ERROR(check_imports(function.opset_import(), function.name()));
    LLMC_RETURN_IF_ERROR(check_distinct(function, function.input(), "inputs"));
    LLMC_RETURN_IF_ERROR(check_distinct(function, function.output(), "outputs"));
    LLMC_RETURN_IF_ERROR(check_distinct(function, function.attribute(), "attributes"));
    return check_nodes(function.node());
  }

  Status check_initialized_inputs(const GraphProto& graph) const {
    std::map<std::string_view, const onnx::TypeProto*> declared;
    for (const auto& input : graph.input())
      if (input.has_type()) declared.emplace(input.name(), &input.type());
    for (const auto& tensor : graph.initializer()) {
      const auto found = declared.find(tensor.name());
      if (found == declared.end()) continue;
      const auto& type = found->second->tensor_type();
      bool fits = found->second->has_tensor_type() && type.elem_type() == tensor.data_type();
      std::string dims;
      if (type.has_shape()) {
        fits = fits && type.shape().dim_size() == tensor.dims_size();
        for (int i = 0; i < type.shape().dim_size() && i <= kMaxRank; ++i) {
          const auto& dim = type.shape().dim(i);
          dims += (i > 0 ? ", " : "");
          dims += dim.has_dim_value() ? std::to_string(dim.dim_value())
                                      : "'" + printable(dim.dim_param(), 40) + "'";
          const bool is_size = dim.has_dim_value() && dim.dim_value() >= 0;
          fits = fits && (!is_size || dim.dim_value() == tensor.dims(i));
        }
      }
      if (fits) continue;
      std::string has;
      for (int i = 0; i < tensor.dims_size() && i <= kMaxRank; ++i)
        has += (i > 0 ? ", " : "") + std::to_string(tensor.dims(i));
      return bad(tensor.name(), "is a graph input declared as " + data_type_name(type.elem_type()) +
                                    " [" + dims + "], but its initializer is " +
                                    data_type_name(tensor.data_type()) + " [" + has + "]");
    }
    return ok_status();
  }

  Status check_nodes(const google::protobuf::RepeatedPtrField<NodeProto>& nodes) const {
    for (const NodeProto& node : nodes) LLMC_RETURN_IF_ERROR(check_node(node));
    return ok_status();
  }

  Status check_node(const NodeProto& node) const {
    if (node.op_type().empty()) return bad_node_of(node, "the node has no operator type");
    if (std::ranges::all_of(node.output(), &std::string::empty))
      return bad_node_of(node, "the node has no output");
    std::set<std::string_view> names;
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.name().empty()) return bad_node_of(node, "an attribute has no name");
      if (!names.insert(attribute.name()).second)
        return bad_node_of(node,
                           "has the attribute '" + printable(attribute.name(), 80) + "' twice");
      LLMC_RETURN_IF_ERROR(check_attribute(node, attribute));
    }
    return ok_status();
  }

  /// Checks the type of an attribute. An absent value is 0 or an empty list, as encoded by proto3.
  Status check_attribute(const NodeProto& node, const AttributeProto& attribute) const {
    const auto used = value_field(attribute);
    const std::string name = "attribute '" + printable(attribute.name(), 80) + "' ";
    if (!used) return bad_node_of(node, name + "has values of more than one type");
    const bool empty = *used == AttributeProto::UNDEFINED;
    if (!empty && !attribute.ref_attr_name().empty())
      return bad_node_of(node, name + "has a value and refers to a function's attribute");
    if (!empty && *used != attribute.type())
      return bad_node_of(node, name + "has the wrong type: it is declared as " +
                                   printable(AttributeProto::AttributeType_Name(attribute.type())) +
                                   ", but its value is " +
                                   AttributeProto::AttributeType_Name(*used));
    if (attribute.has_g()) LLMC_RETURN_IF_ERROR(check_nodes(attribute.g().node()));
    for (const GraphProto& graph : attribute.graphs())
      LLMC_RETURN_IF_ERROR(check_nodes(graph.node()));
    return ok_status();
  }

  const OnnxFile& file_;
};

}  // namespace

Status check_model(const OnnxFile& file) {
  return ModelChecker(file).run();
}

}  // namespace llmc::importer
