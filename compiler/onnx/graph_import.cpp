#include "compiler/onnx/graph_import.h"

#include "compiler/onnx/declared_values.h"
#include "compiler/onnx/graph_order.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::ValueId;
using onnx::NodeProto;

/// Converts one file.
class Importer {
 public:
  Importer(ir::Builder& builder, FileSet& files, const OnnxFile& file, const OrderedGraph& graph)
      : builder_(builder), files_(files), file_(file), graph_(graph), declared_(file) {}

  Result<std::vector<ValueId>> run(const Bindings& inputs, const std::string& prefix) {
    scope_.prefix = prefix;
    scope_.values = inputs.values;
    if (inputs.float_products) scope_.float_products = float_products(file_.model.graph());
    scope_.exact_casts = inputs.exact_casts;
    for (const auto& [name, values] : inputs.stacked) LLMC_RETURN_IF_ERROR(stack(name, values));
    tensors_ = inputs.constants;
    // Initializers are checked even if unused, so that damaged files are reported.
    for (const auto& [name, tensor] : graph_.initializers) {
      LLMC_TRY(tensors_[name], read_tensor(files_, file_, *tensor, file_.name + ":" + name));
    }
    note_inputs(inputs);
    LLMC_RETURN_IF_ERROR(convert_all(file_.model.graph(), graph_.nodes));
    if (!unsupported_.empty()) return Error(std::move(unsupported_));
    std::vector<ValueId> outputs;
    for (const auto& name : graph_.outputs) {
      LLMC_RETURN_IF_ERROR(materialize(name, name));
      outputs.push_back(scope_.values.at(name));
      // Values computed by nodes have been checked already.
      if (graph_.used_inputs.contains(name) || tensors_.contains(name))
        LLMC_RETURN_IF_ERROR(check_declared(name, nullptr));
    }
    files_.set_warnings(file_.name, declared_.take_warnings());
    return outputs;
  }

 private:
  void note_inputs(const Bindings& inputs) {
    const auto& graph = file_.model.graph();
    for (const auto& tensor : graph.initializer())
      scope_.declared_types.emplace(tensor.name(), tensor.data_type());
    for (const auto* values : {&graph.input(), &graph.value_info()})
      for (const auto& value : *values)
        scope_.declared_types.emplace(value.name(), value.type().tensor_type().elem_type());
    for (const auto* input : graph_.inputs) {
      float_types_.set(input->name(), input->type().tensor_type().elem_type());
      const auto bound = scope_.values.find(input->name());
      if (bound != scope_.values.end() && !inputs.resized.contains(input->name()))
        declared_.note_input(*input, builder_.graph().value(bound->second).type);
    }
    for (const auto& [name, tensor] : graph_.initializers)
      float_types_.set(name, tensor->data_type());
  }

  /// Compares a value with its declaration. `node` computes the value; nullptr for inputs and
  /// initializers.
  Status check_declared(const std::string& name, const NodeProto* node) {
    const auto& type = builder_.graph().value(scope_.values.at(name)).type;
    // If floats replace codes (Bindings::float_products), element types differ on purpose.
    const bool codes = node && !scope_.float_products.empty() &&
                       (node->op_type() == "DynamicQuantizeLinear" ||
                        node->op_type() == "MatMulInteger" || node->op_type() == "ConvInteger");
    return declared_.check(name, type, node, float_types_.find(name), !codes);
  }

  Status convert_all(const onnx::GraphProto& graph, const std::vector<int>& nodes) {
    auto unsupported = unsupported_operators(file_, graph, nodes);
    if (!unsupported.empty()) return Error(std::move(unsupported));
    for (const int index : nodes) LLMC_RETURN_IF_ERROR(convert(graph.node(index)));
    return ok_status();
  }

  Status convert(const NodeProto& node) {
    if (is_if(node)) return convert_if(node);
    for (const auto& name : node.input()) {
      if (name.empty()) continue;
      if (missing_.contains(name)) return skip(node);
      LLMC_RETURN_IF_ERROR(materialize(name, node_name(node)));
    }
    const std::int64_t opset = file_.opset(node);
    const OperatorRule* rule = find_rule(node.domain(), node.op_type(), opset);
    LLMC_CHECK(rule != nullptr);
    NodeContext context(builder_, files_, file_, node, opset, scope_);
    const auto count = context.input_count();
    const auto& [min, max] = rule->operands;
    if (count < min || count > max)
      context.bad("has " + std::to_string(count) + " operands, not " + std::to_string(min) +
                  (max == min         ? ""
                   : max == kAnyCount ? " or more"
                                      : " to " + std::to_string(max)));
    else
      rule->convert(context);
    context.refuse_unread();
    if (context.error()) {
      if (context.error()->kind != ErrorKind::kUnsupported) return *context.error();
      const Diagnostic& why = *context.error();
      if (reported_.emplace(why.op, why.message).second) unsupported_.push_back(why);
      return skip(node);
    }
    for (const auto& name : node.output())
      if (!name.empty() && !scope_.values.contains(name))
        return bad_node(file_, node_name(node), "has more outputs than its operator");
    if (const auto wrong = float_types_.infer(node)) {
      Diagnostic d =
          bad_node(file_, node_name(node), *wrong, "insert a Cast, or export the model again");
      d.op = node.op_type();
      return d;
    }
    for (const auto& name : node.output())
      if (!name.empty()) LLMC_RETURN_IF_ERROR(check_declared(name, &node));
    return ok_status();
  }

  /// Converts the selected branch of an If whose condition is constant.
  Status convert_if(const NodeProto& node) {
    if (node.input_size() != 1 || node.input(0).empty())
      return bad_node(file_, node_name(node), "has no condition");
    if (missing_.contains(node.input(0))) return skip(node);
    LLMC_RETURN_IF_ERROR(materialize(node.input(0), node_name(node)));
    const auto* known = builder_.shape_values().find(scope_.values.at(node.input(0)));
    if (!known || known->size() != 1 || !known->front().is_constant()) {
      Diagnostic d =
          bad_node(file_, node_name(node), "a condition that is not constant is not supported",
                   "export the model without control flow", ErrorKind::kUnsupported);
      d.op = "If";
      if (reported_.emplace(d.op, d.message).second) unsupported_.push_back(d);
      return skip(node);
    }
    const char* wanted = known->front() == ir::Dim(0) ? "else_branch" : "then_branch";
    const auto* attribute = find_attribute(node, wanted);
    if (!attribute || !attribute->has_g() || attribute->g().output_size() < node.output_size())
      return bad_node(file_, node_name(node),
                      std::string("has no ") + wanted + " with its outputs");
    if (++depth_ > kMaxDepth) return bad_node(file_, node_name(node), "is nested too deeply");
    LLMC_RETURN_IF_ERROR(convert_branch(node, attribute->g()));
    --depth_;
    return ok_status();
  }

  /// Returns whether something reads an output of an If. Inside branches all outputs count as read.
  bool is_read(const std::string& output) {
    if (output.empty() || depth_ > 1) return !output.empty();
    if (reads_.empty()) {
      reads_.insert(graph_.outputs.begin(), graph_.outputs.end());
      for (const int index : graph_.nodes)
        for (std::string& name : reads_of(file_.model.graph().node(index)))
          reads_.insert(std::move(name));
    }
    return reads_.contains(output);
  }

  Status convert_branch(const NodeProto& node, const onnx::GraphProto& branch) {
    OrderedGraph graph;
    LLMC_TRY(const Definitions definitions, find_definitions(file_, branch, graph));
    std::vector<std::string> wanted;
    for (int i = 0; i < node.output_size(); ++i)
      if (is_read(node.output(i))) wanted.push_back(branch.output(i).name());
    LLMC_TRY(const std::vector<bool> live, find_live(file_, branch, definitions, wanted, true));
    LLMC_TRY(const std::vector<int> nodes, sort_nodes(file_, branch, definitions, live));
    for (const auto& [name, maker] : definitions)
      if (scope_.values.contains(name) || tensors_.contains(name) || missing_.contains(name))
        return bad_node(
            file_, node_name(node),
            "a branch makes the value '" + printable(name, 80) + "', which exists already");
    for (const auto& [name, tensor] : graph.initializers) {
      LLMC_TRY(tensors_[name], read_tensor(files_, file_, *tensor, file_.name + ":" + name));
      float_types_.set(name, tensor->data_type());
    }
    declared_.enter(branch);
    LLMC_RETURN_IF_ERROR(convert_all(branch, nodes));
    declared_.leave(branch);
    std::vector<std::pair<std::string, ValueId>> results;
    for (int i = 0; i < node.output_size(); ++i) {
      const std::string &outer = node.output(i), &inner = branch.output(i).name();
      if (!is_read(outer)) continue;
      if (missing_.contains(inner)) {
        missing_.insert(outer);
        continue;
      }
      LLMC_RETURN_IF_ERROR(materialize(inner, node_name(node)));
      results.emplace_back(outer, scope_.values.at(inner));
    }
    // Names inside a branch are local to it; another branch may define them again.
    for (const auto& [name, maker] : definitions) {
      scope_.values.erase(name);
      tensors_.erase(name);
      missing_.erase(name);
      float_types_.erase(name);
    }
    for (auto& [name, value] : results) {
      scope_.values[name] = value;
      LLMC_RETURN_IF_ERROR(check_declared(name, &node));
    }
    return ok_status();
  }

  Status stack(const std::string& name, const std::vector<ValueId>& values) {
    const ir::Origin origin{file_.name, name};
    std::vector<ValueId> layers;
    for (const ValueId value : values) {
      LLMC_TRY(const ValueId layer, builder_.add_one(ir::Unsqueeze{{0}}, {value}, origin));
      layers.push_back(layer);
    }
    LLMC_TRY(const ValueId stacked, builder_.add_one(ir::Concat{0}, std::move(layers), origin));
    scope_.values[name] = stacked;
    scope_.stacks[stacked] = values;
    return ok_status();
  }

  /// Skips an unsupported node, so that conversion continues and finds all of them.
  Status skip(const NodeProto& node) {
    missing_.insert(node.output().begin(), node.output().end());
    return ok_status();
  }

  /// Checks that `name` has a value; adds an initializer to the graph when it is first used.
  Status materialize(const std::string& name, const std::string& who) {
    if (scope_.values.contains(name)) return ok_status();
    const auto tensor = tensors_.find(name);
    if (tensor == tensors_.end())
      return bad_node(
          file_, who,
          "needs the graph input '" + printable(name, 80) + "', for which llmc has no value");
    LLMC_TRY(scope_.values[name],
             append_constant(builder_, scope_, tensor->second, name, ir::Origin{file_.name, name}));
    return ok_status();
  }

  ir::Builder& builder_;
  FileSet& files_;
  const OnnxFile& file_;
  const OrderedGraph& graph_;
  Scope scope_;
  DeclaredValues declared_;
  FloatTypes float_types_;
  std::map<std::string, ir::ConstantPtr> tensors_;
  std::set<std::string> missing_;
  std::set<std::string> reads_;  // names that nodes read, and the graph's outputs; filled on demand
  std::vector<Diagnostic> unsupported_;
  std::set<std::pair<std::string, std::string>> reported_;  // operator, message
  static constexpr int kMaxDepth = 32;
  int depth_ = 0;  // nesting depth of branches
};

constexpr std::size_t kMaxDimNameBytes = 200;

/// Returns whether a user can type the name in --dim: it is short, valid UTF-8 without control
/// characters.
bool is_usable_name(const std::string& name) {
  return !name.empty() && printable(name, kMaxDimNameBytes) == name;
}

/// Returns the symbolic size that a dim's name declares: a symbol, or a sum such as
/// "past_sequence_length + 1". Returns nullopt for a dim without a usable name.
std::optional<ir::Dim> declared_size(const std::string& name) {
  if (!is_usable_name(name)) return std::nullopt;
  if (const auto sum = ir::parse_dim(name)) return sum->is_constant() ? std::nullopt : sum;
  return ir::Dim::symbol(name);
}

}  // namespace

std::string unnamed_dim(const std::string& input, std::size_t index) {
  return (is_usable_name(input) ? input : "input") + "_dim" + std::to_string(index);
}

Result<std::vector<ValueId>> append_graph(ir::Builder& builder, FileSet& files,
                                          const OnnxFile& file, const OrderedGraph& graph,
                                          const Bindings& inputs, const std::string& prefix) {
  return Importer(builder, files, file, graph).run(inputs, prefix);
}

Result<ir::TensorType> declared_type(const OnnxFile& file, const onnx::ValueInfoProto& value) {
  const auto& tensor = value.type().tensor_type();
  if (!value.type().has_tensor_type() || !tensor.has_shape())
    return bad_node(file, value.name(), "the graph input declares no tensor type with a rank");
  const auto element = element_type(tensor.elem_type());
  if (!element)
    return bad_node(
        file, value.name(),
        "inputs with elements of type " + data_type_name(tensor.elem_type()) + " are not supported",
        {}, ErrorKind::kUnsupported);
  if (tensor.shape().dim_size() > kMaxRank)
    return bad_node(file, value.name(),
                    "the graph input declares rank " + std::to_string(tensor.shape().dim_size()) +
                        ", more than " + std::to_string(kMaxRank));
  ir::TensorType type;
  type.element = *element;
  for (const auto& dim : tensor.shape().dim()) {
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0)
        return bad_node(
            file, value.name(),
            "the graph input declares the negative dim " + std::to_string(dim.dim_value()));
      type.dims.emplace_back(dim.dim_value());
    } else if (auto size = declared_size(dim.dim_param())) {
      type.dims.push_back(*std::move(size));
    } else {
      type.dims.push_back(ir::Dim::symbol(unnamed_dim(value.name(), type.dims.size())));
    }
  }
  return type;
}

}  // namespace llmc::importer
