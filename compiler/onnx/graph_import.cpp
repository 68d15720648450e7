#include "compiler/onnx/graph_import.h"

#include <algorithm>
#include <queue>

#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::ValueId;
using onnx::NodeProto;

Diagnostic bad(const OnnxFile& file, const std::string& node, std::string message,
               std::string hint = {}) {
  Diagnostic d;
  d.file = file.name;
  d.node = node;
  d.message = std::move(message);
  d.hint = std::move(hint);
  return d;
}

std::string node_name(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : std::string();
}

/// Who makes each name: a node's index, or one of these.
constexpr int kInitializer = -1, kInput = -2;
using Makers = std::map<std::string, int>;

/// The names that a node reads: its operands, and what the graphs inside it read from outside.
void append_reads(const NodeProto& node, std::vector<std::string>& reads);

void append_captures(const onnx::GraphProto& graph, std::vector<std::string>& reads) {
  std::set<std::string> made;
  for (const auto& value : graph.input()) made.insert(value.name());
  for (const auto& tensor : graph.initializer()) made.insert(tensor.name());
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  std::vector<std::string> inner;
  for (const auto& node : graph.node()) append_reads(node, inner);
  for (const auto& value : graph.output()) inner.push_back(value.name());
  for (auto& name : inner)
    if (!made.contains(name)) reads.push_back(std::move(name));
}

void append_reads(const NodeProto& node, std::vector<std::string>& reads) {
  for (const auto& name : node.input())
    if (!name.empty()) reads.push_back(name);
  for (const auto& attribute : node.attribute())
    if (attribute.has_g()) append_captures(attribute.g(), reads);
}

std::vector<std::string> reads_of(const NodeProto& node) {
  std::vector<std::string> reads;
  append_reads(node, reads);
  return reads;
}

Result<Makers> find_makers(const OnnxFile& file, const onnx::GraphProto& proto,
                           OrderedGraph& graph) {
  if (proto.sparse_initializer_size() > 0) {
    Diagnostic d = bad(file, {}, "sparse tensors are not supported");
    d.kind = ErrorKind::kUnsupported;
    return d;
  }
  Makers makers;
  for (const auto& tensor : proto.initializer()) {
    if (tensor.name().empty()) return bad(file, {}, "an initializer has no name");
    if (!makers.emplace(tensor.name(), kInitializer).second)
      return bad(file, tensor.name(), "two initializers have this name");
    graph.initializers[tensor.name()] = &tensor;
  }
  for (const auto& input : proto.input()) {
    if (input.name().empty()) return bad(file, {}, "a graph input has no name");
    if (graph.initializers.contains(input.name())) continue;  // a default value, until IR version 3
    if (!makers.emplace(input.name(), kInput).second)
      return bad(file, input.name(), "two graph inputs have this name");
    graph.inputs.push_back(&input);
  }
  for (int i = 0; i < proto.node_size(); ++i)
    for (const auto& name : proto.node(i).output())
      if (!name.empty() && !makers.emplace(name, i).second)
        return bad(file, node_name(proto.node(i)),
                   "makes the value '" + printable(name, 80) + "', which exists already");
  return makers;
}

/// The nodes that `outputs` need. `outer`: names made outside, when `proto` is a branch.
Result<std::vector<bool>> find_live(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Makers& makers, const std::vector<std::string>& outputs,
                                    bool outer) {
  std::vector<bool> live(static_cast<std::size_t>(proto.node_size()));
  std::vector<int> pending;
  const auto need = [&](const std::string& name, const std::string& who) -> Status {
    const auto maker = makers.find(name);
    if (maker == makers.end() && outer) return ok_status();
    if (maker == makers.end())
      return bad(file, who, "the value '" + printable(name, 80) + "' is used but never made");
    if (maker->second >= 0 && !live[static_cast<std::size_t>(maker->second)]) {
      live[static_cast<std::size_t>(maker->second)] = true;
      pending.push_back(maker->second);
    }
    return ok_status();
  };
  for (const auto& name : outputs) {
    if (!outer && !makers.contains(name))
      return bad(file, name, "the graph output '" + printable(name, 80) + "' is never made");
    LLMC_RETURN_IF_ERROR(need(name, name));
  }
  while (!pending.empty()) {
    const auto& node = proto.node(pending.back());
    pending.pop_back();
    for (const auto& name : reads_of(node)) LLMC_RETURN_IF_ERROR(need(name, node_name(node)));
  }
  return live;
}

/// Kahn's algorithm; among the nodes that are ready, the first in the file goes first, so that a
/// file in order stays as it is.
Result<std::vector<int>> sort_nodes(const OnnxFile& file, const onnx::GraphProto& proto,
                                    const Makers& makers, const std::vector<bool>& live) {
  std::vector<int> waiting_for(live.size());
  std::vector<std::vector<int>> users(live.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  std::size_t total = 0;
  for (int i = 0; i < proto.node_size(); ++i) {
    if (!live[static_cast<std::size_t>(i)]) continue;
    ++total;
    std::set<int> before;
    for (const auto& name : reads_of(proto.node(i))) {
      const auto maker = makers.find(name);
      if (maker != makers.end() && maker->second >= 0) before.insert(maker->second);
    }
    for (const int b : before) users[static_cast<std::size_t>(b)].push_back(i);
    waiting_for[static_cast<std::size_t>(i)] = static_cast<int>(before.size());
    if (before.empty()) ready.push(i);
  }
  std::vector<int> order;
  order.reserve(total);
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int user : users[static_cast<std::size_t>(order.back())])
      if (--waiting_for[static_cast<std::size_t>(user)] == 0) ready.push(user);
  }
  if (order.size() == total) return order;
  for (int i = 0; i < proto.node_size(); ++i)
    if (live[static_cast<std::size_t>(i)] && waiting_for[static_cast<std::size_t>(i)] > 0)
      return bad(file, node_name(proto.node(i)), "is part of a cycle, or behind one");
  LLMC_CHECK(false);
  return order;
}

/// Converts one file; holds what that takes.
class Importer {
 public:
  Importer(ir::Builder& builder, FileSet& files, const OnnxFile& file, const OrderedGraph& graph)
      : builder_(builder), files_(files), file_(file), graph_(graph) {}

  Result<std::vector<ValueId>> run(const Bindings& inputs, const std::string& prefix) {
    scope_.prefix = prefix;
    scope_.values = inputs.values;
    if (inputs.float_products) scope_.float_products = float_products(file_.model.graph());
    scope_.exact_casts = inputs.exact_casts;
    for (const auto& [name, values] : inputs.stacked) LLMC_RETURN_IF_ERROR(stack(name, values));
    tensors_ = inputs.constants;
    // Every initializer is looked at, so that a damaged one is found even where it is not used.
    for (const auto& [name, tensor] : graph_.initializers) {
      LLMC_TRY(tensors_[name], read_tensor(files_, file_, *tensor, file_.name + ":" + name));
    }
    LLMC_RETURN_IF_ERROR(convert_all(file_.model.graph(), graph_.nodes));
    if (!unsupported_.empty()) return Error(std::move(unsupported_));
    std::vector<ValueId> outputs;
    for (const auto& name : graph_.outputs) {
      LLMC_RETURN_IF_ERROR(materialize(name, name));
      outputs.push_back(scope_.values.at(name));
    }
    return outputs;
  }

 private:
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
      if (missing_.contains(name)) return give_up(node);
      LLMC_RETURN_IF_ERROR(materialize(name, node_name(node)));
    }
    const std::int64_t opset = file_.opset(node);
    const OperatorRule* rule = find_rule(node.domain(), node.op_type(), opset);
    LLMC_CHECK(rule != nullptr);
    NodeContext context(builder_, files_, file_, node, opset, scope_);
    const auto count = context.input_count();
    if (count < rule->min_inputs || count > rule->max_inputs)
      context.bad("has " + std::to_string(count) + " operands, not " +
                  std::to_string(rule->min_inputs) +
                  (rule->max_inputs == rule->min_inputs ? ""
                   : rule->max_inputs == kAnyCount      ? " or more"
                                                   : " to " + std::to_string(rule->max_inputs)));
    else
      rule->convert(context);
    context.refuse_unread();
    if (context.error()) {
      if (context.error()->kind != ErrorKind::kUnsupported) return *context.error();
      const Diagnostic& why = *context.error();
      if (reported_.emplace(why.op, why.message).second) unsupported_.push_back(why);
      return give_up(node);
    }
    for (const auto& name : node.output())
      if (!name.empty() && !scope_.values.contains(name))
        return bad(file_, node_name(node), "has more outputs than its operator makes");
    return ok_status();
  }

  /// An If whose condition is known: the nodes of the branch that it takes.
  Status convert_if(const NodeProto& node) {
    if (node.input_size() != 1 || node.input(0).empty())
      return bad(file_, node_name(node), "has no condition");
    if (missing_.contains(node.input(0))) return give_up(node);
    LLMC_RETURN_IF_ERROR(materialize(node.input(0), node_name(node)));
    const auto* known = builder_.shape_values().find(scope_.values.at(node.input(0)));
    if (!known || known->size() != 1 || !known->front().is_constant()) {
      Diagnostic d = bad(file_, node_name(node),
                         "its condition is only known when the model runs, which is not supported",
                         "export the model without control flow");
      d.kind = ErrorKind::kUnsupported;
      d.op = "If";
      if (reported_.emplace(d.op, d.message).second) unsupported_.push_back(d);
      return give_up(node);
    }
    const char* wanted = known->front() == ir::Dim(0) ? "else_branch" : "then_branch";
    const onnx::GraphProto* branch = nullptr;
    for (const auto& attribute : node.attribute())
      if (attribute.name() == wanted && attribute.has_g()) branch = &attribute.g();
    if (!branch || branch->output_size() < node.output_size())
      return bad(file_, node_name(node), std::string("has no ") + wanted + " with its outputs");
    if (++depth_ > kMaxDepth) return bad(file_, node_name(node), "is nested too deeply");
    LLMC_RETURN_IF_ERROR(convert_branch(node, *branch));
    --depth_;
    return ok_status();
  }

  Status convert_branch(const NodeProto& node, const onnx::GraphProto& branch) {
    OrderedGraph graph;
    LLMC_TRY(const Makers makers, find_makers(file_, branch, graph));
    std::vector<std::string> wanted;
    for (int i = 0; i < node.output_size(); ++i)
      if (!node.output(i).empty()) wanted.push_back(branch.output(i).name());
    LLMC_TRY(const std::vector<bool> live, find_live(file_, branch, makers, wanted, true));
    LLMC_TRY(const std::vector<int> nodes, sort_nodes(file_, branch, makers, live));
    for (const auto& [name, maker] : makers)
      if (scope_.values.contains(name) || tensors_.contains(name) || missing_.contains(name))
        return bad(file_, node_name(node),
                   "a branch makes the value '" + printable(name, 80) + "', which exists already");
    for (const auto& [name, tensor] : graph.initializers) {
      LLMC_TRY(tensors_[name], read_tensor(files_, file_, *tensor, file_.name + ":" + name));
    }
    LLMC_RETURN_IF_ERROR(convert_all(branch, nodes));
    std::vector<std::pair<std::string, ValueId>> results;
    for (int i = 0; i < node.output_size(); ++i) {
      const std::string &outer = node.output(i), &inner = branch.output(i).name();
      if (outer.empty()) continue;
      if (missing_.contains(inner)) {
        missing_.insert(outer);
        continue;
      }
      LLMC_RETURN_IF_ERROR(materialize(inner, node_name(node)));
      results.emplace_back(outer, scope_.values.at(inner));
    }
    // The names inside a branch are its own: another branch may use them again.
    for (const auto& [name, maker] : makers) {
      scope_.values.erase(name);
      tensors_.erase(name);
      missing_.erase(name);
    }
    for (auto& [name, value] : results) scope_.values[name] = value;
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

  /// Goes on without this node's results, to find what else is unsupported.
  Status give_up(const NodeProto& node) {
    missing_.insert(node.output().begin(), node.output().end());
    return ok_status();
  }

  /// Makes sure `name` has a value: initializers enter the graph where they are used first.
  Status materialize(const std::string& name, const std::string& who) {
    if (scope_.values.contains(name)) return ok_status();
    const auto tensor = tensors_.find(name);
    if (tensor == tensors_.end())
      return bad(
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
  std::map<std::string, ir::ConstantPtr> tensors_;
  std::set<std::string> missing_;
  std::vector<Diagnostic> unsupported_;
  std::set<std::pair<std::string, std::string>> reported_;  // operator, message
  static constexpr int kMaxDepth = 32;
  int depth_ = 0;  // of branches
};

bool is_word(const std::string& text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text.size() <= 60 && letter(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Result<OrderedGraph> order_graph(const OnnxFile& file, std::vector<std::string> outputs) {
  OrderedGraph graph;
  const auto& proto = file.model.graph();
  LLMC_TRY(const Makers makers, find_makers(file, proto, graph));
  graph.outputs = std::move(outputs);
  if (graph.outputs.empty())
    for (const auto& output : proto.output()) graph.outputs.push_back(output.name());
  if (graph.outputs.empty()) return bad(file, {}, "the graph has no outputs");
  LLMC_TRY(const std::vector<bool> live, find_live(file, proto, makers, graph.outputs, false));
  LLMC_TRY(graph.nodes, sort_nodes(file, proto, makers, live));
  const auto use = [&](const std::string& name) {
    if (!name.empty() && makers.at(name) == kInput) graph.used_inputs.insert(name);
  };
  for (const auto& name : graph.outputs) use(name);
  for (const int node : graph.nodes)
    for (const auto& name : reads_of(proto.node(node))) use(name);
  return graph;
}

Result<std::vector<ValueId>> append_graph(ir::Builder& builder, FileSet& files,
                                          const OnnxFile& file, const OrderedGraph& graph,
                                          const Bindings& inputs, const std::string& prefix) {
  return Importer(builder, files, file, graph).run(inputs, prefix);
}

Result<ir::TensorType> declared_type(const OnnxFile& file, const onnx::ValueInfoProto& value) {
  const auto& tensor = value.type().tensor_type();
  if (!value.type().has_tensor_type() || !tensor.has_shape())
    return bad(file, value.name(), "the graph input declares no tensor type with a rank");
  const auto element = element_type(tensor.elem_type());
  if (!element) {
    Diagnostic d = bad(file, value.name(),
                       "inputs with elements of type " + data_type_name(tensor.elem_type()) +
                           " are not supported");
    d.kind = ErrorKind::kUnsupported;
    return d;
  }
  if (tensor.shape().dim_size() > kMaxRank)
    return bad(file, value.name(),
               "the graph input declares rank " + std::to_string(tensor.shape().dim_size()) +
                   ", more than " + std::to_string(kMaxRank));
  ir::TensorType type;
  type.element = *element;
  const std::string stem = is_word(value.name()) ? value.name() : "input";
  for (const auto& dim : tensor.shape().dim()) {
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0)
        return bad(file, value.name(),
                   "the graph input declares the negative dim " + std::to_string(dim.dim_value()));
      type.dims.emplace_back(dim.dim_value());
    } else if (is_word(dim.dim_param())) {
      type.dims.push_back(ir::Dim::symbol(dim.dim_param()));
    } else {
      type.dims.push_back(ir::Dim::symbol(stem + "_dim" + std::to_string(type.dims.size())));
    }
  }
  return type;
}

}  // namespace llmc::importer
