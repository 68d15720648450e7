#include "compiler/ir/infer.h"

#include "compiler/ir/infer_rules.h"
#include "compiler/ir/shape_rules.h"

namespace llmc::ir {

// ---- Symbols ------------------------------------------------------------------------------------

void FreshSymbols::avoid(const TensorType& type) {
  for (const Dim& dim : type.dims)
    for (const auto& [symbol, coefficient] : dim.terms()) taken_.emplace(symbol, false);
}

void FreshSymbols::avoid(const Graph& graph) {
  for (const Value& value : graph.values()) avoid(value.type);
}

Dim FreshSymbols::next() {
  while (true) {
    auto name = "d" + std::to_string(counter_++);
    if (taken_.emplace(name, true).second) return Dim::symbol(std::move(name));
  }
}

bool FreshSymbols::made(const Dim& dim) const {
  if (dim.terms().size() != 1) return false;
  const auto it = taken_.find(dim.terms().begin()->first);
  return it != taken_.end() && it->second;
}

// ---- Context ------------------------------------------------------------------------------------

std::optional<std::vector<std::int64_t>> InferContext::numbers(std::size_t i) const {
  const auto* known = values(i);
  return known ? as_numbers(*known) : std::nullopt;
}

Diagnostic InferContext::error(std::string message, std::string hint) const {
  return node_failure(ErrorKind::kBadInput, node_, std::move(message), std::move(hint));
}

Status InferContext::want_rank(std::size_t i, std::size_t wanted) const {
  if (rank(i) == wanted) return ok_status();
  return error("operand " + std::to_string(i) + " has rank " + std::to_string(rank(i)) + ", not " +
               std::to_string(wanted) + " (" + to_string(type(i)) + ")");
}

Status InferContext::want_float(std::size_t i) const {
  if (is_float(type(i).element)) return ok_status();
  return error("operand " + std::to_string(i) + " is " + std::string(to_string(type(i).element)) +
               ", not a float tensor");
}

Status InferContext::want_integer(std::size_t i) const {
  if (is_integer(type(i).element)) return ok_status();
  return error("operand " + std::to_string(i) + " is " + std::string(to_string(type(i).element)) +
               ", not an integer tensor");
}

Status InferContext::want_equal(const Dim& a, const Dim& b, const std::string& what) const {
  if (compatible(a, b)) return ok_status();
  return error(what + ": " + a.to_string() + " against " + b.to_string());
}

Result<std::size_t> InferContext::axis(std::int64_t axis) const {
  if (const auto normal = normalize_axis(axis, rank(0))) return *normal;
  return error("axis " + std::to_string(axis) + " is outside " + to_string(type(0)));
}

Result<std::vector<Dim>> InferContext::broadcast(const std::vector<Dim>& a,
                                                 const std::vector<Dim>& b) const {
  std::vector<Dim> out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // starting with the last dim
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    Dim& result = out[out.size() - 1 - i];
    if (x == y || y == Dim(1)) {
      result = x;
    } else if (x == Dim(1)) {
      result = y;
    } else if (x.is_constant() && y.is_constant()) {
      return error("shapes do not broadcast: " + to_string(TensorType{type(0).element, a}) +
                   " against " + to_string(TensorType{type(0).element, b}));
    } else {
      // Either could be 1 at run time; a number other than 1 is the size if the model is valid.
      result = merged(x, y);
    }
  }
  return out;
}

// ---- Entry points -------------------------------------------------------------------------------

bool compatible(const Dim& a, const Dim& b) {
  return known_equal(a, b) != false;
}

bool compatible(const TensorType& a, const TensorType& b) {
  if (a.element != b.element || a.rank() != b.rank()) return false;
  for (std::size_t i = 0; i < a.rank(); ++i)
    if (!compatible(a.dims[i], b.dims[i])) return false;
  return true;
}

Result<Types> infer(const Graph& graph, const Node& node, const ShapeValues& known,
                    FreshSymbols& fresh) {
  const InferContext context(graph, node, known, fresh);
  if (auto problem = operand_problem(node, false)) return context.error(std::move(*problem));
  for (const ValueId input : node.inputs)
    if (input.exists() && input.index >= graph.values().size())
      return context.error("an operand is not a value of the graph");
  auto types = std::visit([&](const auto& op) { return infer_op(context, op); }, node.op);
  if (!types.ok()) return types;
  for (const TensorType& type : *types)
    for (const Dim& dim : type.dims)
      if (dim.is_constant() && *dim.constant() < 0)
        return context.error("the result would have a negative size: " + to_string(type));
  return types;
}

Result<Types> infer(const Graph& graph, const Node& node) {
  FreshSymbols fresh(graph);
  return infer(graph, node, ShapeValues::of(graph), fresh);
}

Result<Graph> infer_graph(Graph graph) {
  FreshSymbols fresh(graph);
  ShapeValues known;
  for (Node& node : graph.mutable_nodes()) {
    if (auto* loop = std::get_if<Loop>(&node.op); loop && loop->body) {
      LLMC_TRY(Graph body, infer_graph(*loop->body));
      loop->body = std::make_shared<const Graph>(std::move(body));
    }
    LLMC_TRY(Types types, infer(graph, node, known, fresh));
    if (types.size() != node.outputs.size())
      return InferContext(graph, node, known, fresh).error("wrong number of results");
    for (std::size_t i = 0; i < types.size(); ++i) {
      TensorType& old = graph.value(node.outputs[i]).type;
      for (std::size_t d = 0; d < types[i].rank() && old.rank() == types[i].rank(); ++d)
        if (fresh.made(types[i].dims[d])) types[i].dims[d] = old.dims[d];
      old = std::move(types[i]);
    }
    known.record(graph, node);
  }
  return graph;
}

}  // namespace llmc::ir
