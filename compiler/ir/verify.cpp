#include "compiler/ir/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "compiler/ir/infer.h"
#include "compiler/ir/op_info.h"

namespace llmc::ir {
namespace {

std::string name_of(InputKind kind) {
  return std::string(EnumInfo<InputKind>::names[static_cast<std::size_t>(kind)]);
}

bool is_state(InputKind kind) {
  return kind == InputKind::kAttentionCache || kind == InputKind::kSource ||
         kind == InputKind::kRecurrent;
}

class Verifier {
 public:
  Verifier(const Graph& graph, const Loop* around, int depth)
      : graph_(graph), around_(around), depth_(depth), fresh_(graph) {}

  Status run() {
    LLMC_RETURN_IF_ERROR(check_values());
    for (const ValueId input : graph_.inputs()) LLMC_RETURN_IF_ERROR(define(input, "an input"));
    LLMC_RETURN_IF_ERROR(check_kinds());
    std::vector<Diagnostic> problems;
    for (const Node& node : graph_.nodes()) {
      // Continue after an invalid node, so that one run reports all of them. Its outputs are
      // treated as defined.
      auto status = check_node(node);
      if (!status.ok()) {
        problems.push_back(at(node, status.error().first()));
        for (const ValueId output : node.outputs)
          if (output.index < defined_.size()) defined_[output.index] = true;
      } else {
        known_.record(graph_, node);
      }
    }
    for (const ValueId output : graph_.outputs())
      if (output.index >= defined_.size() || !defined_[output.index])
        problems.push_back(problem("a graph output is defined by no node"));
    if (!problems.empty()) return Error(std::move(problems));
    return ok_status();
  }

 private:
  Diagnostic problem(std::string message) const {
    Diagnostic d;
    d.kind = ErrorKind::kInternal;
    d.message = std::move(message);
    if (!graph_.name.empty()) d.message += " (graph @" + graph_.name + ")";
    return d;
  }
  Diagnostic at(const Node& node, Diagnostic d) const {
    d.kind = ErrorKind::kInternal;
    if (d.file.empty()) d.file = node.origin.file;
    if (d.node.empty()) d.node = node.origin.node;
    if (d.op.empty()) d.op = op_name(node.op);
    if (d.node.empty() && !node.outputs.empty() && node.outputs[0].index < graph_.values().size())
      d.node = "%" + graph_.value(node.outputs[0]).name;
    return d;
  }

  Status check_values() {
    defined_.assign(graph_.values().size(), false);
    std::unordered_set<std::string_view> names;
    for (const Value& value : graph_.values()) {
      if (!value.name.empty() && !names.insert(value.name).second)
        return problem("two values are called '" + value.name + "'");
      for (const Dim& dim : value.type.dims)
        if (dim.is_constant() && *dim.constant() < 0)
          return problem("value '" + value.name +
                         "' has a negative size: " + to_string(value.type));
    }
    return ok_status();
  }

  Status define(ValueId id, const char* what) {
    if (id.index >= defined_.size())
      return problem(std::string(what) + " is not a value of the graph");
    if (defined_[id.index])
      return problem("value '" + graph_.value(id).name + "' is defined twice");
    defined_[id.index] = true;
    return ok_status();
  }

  /// Checks that values with a kind are inputs of the outermost graph, that there is one of each
  /// kind or, of states, one of each layer 0, 1, …, and that their elements have the type of
  /// InputKind.
  Status check_kinds() {
    std::map<InputKind, std::set<std::int64_t>> layers;
    std::size_t count = 0;
    for (const ValueId id : graph_.inputs()) {
      const Value& input = graph_.value(id);
      if (input.kind == InputKind::kNone) continue;
      const std::string kind = name_of(input.kind);
      if (around_ != nullptr) return problem("an input of a loop body has the kind " + kind);
      if (!layers[input.kind].insert(input.layer).second)
        return problem("two inputs have the kind " + kind);
      ++count;
      const bool floats = input.kind == InputKind::kMask || is_state(input.kind);
      const bool scalar = input.kind == InputKind::kLastPosition;
      if (input.type.element != (floats ? ElementType::kF32 : ElementType::kI64) ||
          scalar != (input.type.rank() == 0))
        return problem("input '" + input.name + "' of the kind " + kind + " has the type " +
                       to_string(input.type));
    }
    for (const auto& [kind, numbers] : layers)
      if (*numbers.begin() != 0 || *numbers.rbegin() != std::ssize(numbers) - 1 ||
          (numbers.size() > 1 && !is_state(kind)))
        return problem("the layers of the kind " + name_of(kind) + " are not 0, 1, …");
    const auto has_kind = [](const Value& value) { return value.kind != InputKind::kNone; };
    if (std::ranges::count_if(graph_.values(), has_kind) != static_cast<std::ptrdiff_t>(count))
      return problem("a value that is no input has a kind");
    return ok_status();
  }

  Status check_node(const Node& node) {
    if (auto wrong = operand_problem(node)) return problem(std::move(*wrong));
    for (const ValueId input : node.inputs) {
      if (!input.exists()) continue;
      if (input.index >= defined_.size()) return problem("an operand is not a value of the graph");
      if (!defined_[input.index])
        return problem("operand '" + graph_.value(input).name + "' is used before it is defined");
    }
    for (const ValueId output : node.outputs) LLMC_RETURN_IF_ERROR(define(output, "a result"));
    if (const auto* loop = std::get_if<Loop>(&node.op)) LLMC_RETURN_IF_ERROR(check_loop(*loop));
    if (const auto* parameter = std::get_if<Parameter>(&node.op))
      LLMC_RETURN_IF_ERROR(check_parameter(*parameter, node));
    LLMC_TRY(auto types, infer(graph_, node, known_, fresh_));
    if (types.size() != node.outputs.size())
      return problem("has " + std::to_string(node.outputs.size()) + " results, not " +
                     std::to_string(types.size()));
    for (std::size_t i = 0; i < types.size(); ++i) {
      const auto& written = graph_.value(node.outputs[i]).type;
      // Types of constants must be equal; other types may use different symbols.
      const bool same = std::holds_alternative<ConstantOp>(node.op) ? written == types[i]
                                                                    : compatible(written, types[i]);
      if (!same)
        return problem("result " + std::to_string(i) + " has type " + to_string(written) +
                       ", but it is " + to_string(types[i]));
    }
    return ok_status();
  }

  Status check_loop(const Loop& loop) {
    if (!loop.body) return problem("has no body");
    if (depth_ >= kMaxLoopDepth) return problem("loops are nested too deeply");
    for (const auto& row : loop.parameters) {
      if (static_cast<std::int64_t>(row.size()) != loop.count)
        return problem("a parameter has " + std::to_string(row.size()) + " constants for " +
                       std::to_string(loop.count) + " iterations");
      for (const auto& data : row) {
        if (!data) return problem("a parameter lacks a constant");
        if (data->element() != row[0]->element() || data->dims() != row[0]->dims())
          return problem("the constants of a parameter differ in type");
      }
    }
    if (!loop.parameter_names.empty()) {
      bool same = loop.parameter_names.size() == loop.parameters.size();
      for (std::size_t p = 0; same && p < loop.parameters.size(); ++p)
        same = loop.parameter_names[p].size() == loop.parameters[p].size();
      if (!same) return problem("parameter names do not match the parameters");
    }
    auto body = Verifier(*loop.body, &loop, depth_ + 1).run();
    if (!body.ok()) return body;
    return ok_status();
  }

  Status check_parameter(const Parameter& parameter, const Node& node) {
    if (!around_) return problem("is outside a loop");
    if (parameter.index < 0 ||
        parameter.index >= static_cast<std::int64_t>(around_->parameters.size()))
      return problem("the loop has no parameter " + std::to_string(parameter.index));
    const auto& row = around_->parameters[static_cast<std::size_t>(parameter.index)];
    const TensorType type{row[0]->element(), {row[0]->dims().begin(), row[0]->dims().end()}};
    if (graph_.value(node.outputs[0]).type != type)
      return problem("parameter " + std::to_string(parameter.index) + " is " + to_string(type) +
                     ", not " + to_string(graph_.value(node.outputs[0]).type));
    return ok_status();
  }

  const Graph& graph_;
  const Loop* around_;
  int depth_;
  std::vector<bool> defined_;
  ShapeValues known_;
  FreshSymbols fresh_;
};

}  // namespace

Status verify(const Graph& graph) {
  return Verifier(graph, nullptr, 0).run();
}

}  // namespace llmc::ir
