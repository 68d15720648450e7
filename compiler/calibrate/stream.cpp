#include "compiler/calibrate/stream.h"

#include <algorithm>
#include <map>

#include "compiler/calibrate/matrix_products.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

using ir::ConstantPtr;
using ir::Graph;
using ir::Node;
using ir::ValueId;
using reference::Tensor;

/// A loop whose body is run, and the current iteration.
struct Iteration {
  const ir::Loop& loop;
  std::size_t index;
};

/// Returns the constant of a ConstantOp or, in the body of a loop, of a Parameter in the iteration
/// `around`; nullptr for other nodes.
ConstantPtr constant_of(const Node& node, const Iteration* around) {
  if (const auto* op = std::get_if<ir::ConstantOp>(&node.op)) return op->data;
  const auto* parameter = std::get_if<ir::Parameter>(&node.op);
  if (parameter == nullptr || around == nullptr) return nullptr;
  return around->loop.parameters.at(static_cast<std::size_t>(parameter->index)).at(around->index);
}

class Streamer {
 public:
  Streamer(std::size_t windows, Products& products, WorkerPool& pool)
      : windows_(windows), products_(products), pool_(pool) {}

  /// Returns the wanted outputs of the graph; others are empty.
  Result<std::vector<Values>> run(const Graph& graph, std::vector<Values> inputs,
                                  const std::vector<bool>& wanted_outputs,
                                  const Iteration* around) {
    std::map<std::uint32_t, ConstantPtr> constants;
    for (const Node& node : graph.nodes())
      if (ConstantPtr data = constant_of(node, around))
        constants[node.outputs[0].index] = std::move(data);
    const auto [wanted, last] = uses(graph, wanted_outputs, constants);
    std::vector<Values> values(graph.values().size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (last[graph.inputs()[i].index] > 0) values[graph.inputs()[i].index] = std::move(inputs[i]);
    inputs.clear();
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.nodes()[n];
      if (!wanted[n] || constants.contains(node.outputs[0].index)) continue;
      std::vector<Values> operands = operand_values(node, values, constants);
      for (const ValueId input : node.inputs)
        if (input.exists() && last[input.index] == n + 1) values[input.index].clear();
      LLMC_TRY(auto results, run_node(node, std::move(operands), constants, wanted_of(node, last)));
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        if (last[node.outputs[i].index] > 0) values[node.outputs[i].index] = std::move(results[i]);
    }
    std::vector<Values> outputs(graph.outputs().size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (wanted_outputs[i]) outputs[i] = values[graph.outputs()[i].index];
    return outputs;
  }

 private:
  static std::vector<bool> wanted_of(const Node& node, const std::vector<std::size_t>& last) {
    std::vector<bool> wanted;
    for (const ValueId output : node.outputs) wanted.push_back(last[output.index] > 0);
    return wanted;
  }

  /// Returns whether the node, or one in its body, is a product that is wanted.
  bool has_wanted(const Node& node, const std::map<std::uint32_t, ConstantPtr>& constants) const {
    if (is_matrix_product(node)) {
      const auto weight = constants.find(node.inputs[1].index);
      return weight != constants.end() && products_.wants(node, *weight->second);
    }
    const auto* loop = std::get_if<ir::Loop>(&node.op);
    if (loop == nullptr || !loop->body) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(loop->count); ++i) {
      const Iteration iteration{*loop, i};
      std::map<std::uint32_t, ConstantPtr> inner;
      for (const Node& part : loop->body->nodes())
        if (ConstantPtr data = constant_of(part, &iteration))
          inner[part.outputs[0].index] = std::move(data);
      for (const Node& part : loop->body->nodes())
        if (has_wanted(part, inner)) return true;
    }
    return false;
  }

  struct Uses {
    std::vector<bool> wanted;       // by node: whether it is run
    std::vector<std::size_t> last;  // by value: 1 + the last such node that reads it; 0: none
  };
  Uses uses(const Graph& graph, const std::vector<bool>& wanted_outputs,
            const std::map<std::uint32_t, ConstantPtr>& constants) const {
    const std::size_t count = graph.nodes().size();
    std::vector<std::size_t> last(graph.values().size(), 0);
    std::vector<bool> wanted(count, false);
    for (std::size_t i = 0; i < wanted_outputs.size(); ++i)
      if (wanted_outputs[i]) last[graph.outputs()[i].index] = count + 1;
    for (std::size_t n = count; n-- > 0;) {
      const Node& node = graph.nodes()[n];
      const bool read =
          std::ranges::any_of(node.outputs, [&](ValueId output) { return last[output.index] > 0; });
      wanted[n] = read || has_wanted(node, constants);
      if (!wanted[n]) continue;
      for (const ValueId input : node.inputs)
        if (input.exists()) last[input.index] = std::max(last[input.index], n + 1);
    }
    return {std::move(wanted), std::move(last)};
  }

  /// Returns the operands of a node. The weight of a product and the table of an embedding have
  /// only their dims.
  static std::vector<Values> operand_values(const Node& node, const std::vector<Values>& values,
                                            const std::map<std::uint32_t, ConstantPtr>& constants) {
    const bool reads_table =
        is_matrix_product(node) || std::holds_alternative<ir::Embedding>(node.op);
    std::vector<Values> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      const auto constant = input.exists() ? constants.find(input.index) : constants.end();
      if (!input.exists()) {
        operands.push_back({nullptr});
      } else if (constant == constants.end()) {
        operands.push_back(values[input.index]);
      } else if (i == 1 && reads_table) {
        operands.push_back({std::make_shared<Tensor>(
            Tensor{.dims = constant->second->dims(), .floats = {}, .integers = {}})});
      } else {
        operands.push_back({std::make_shared<Tensor>(reference::to_tensor(*constant->second))});
      }
    }
    return operands;
  }

  /// Runs a node. `operands` has the last references to values that no later node reads. A window's
  /// references are released after their use, except to values that every iteration of a loop
  /// reads.
  Result<std::vector<Values>> run_node(const Node& node, std::vector<Values> operands,
                                       const std::map<std::uint32_t, ConstantPtr>& constants,
                                       const std::vector<bool>& wanted) {
    if (const auto* loop = std::get_if<ir::Loop>(&node.op))
      return run_loop(*loop, std::move(operands), wanted);
    const bool has_table = node.operand(1).exists() && constants.contains(node.inputs[1].index);
    if (is_matrix_product(node) && has_table) {
      const ConstantPtr& weight = constants.at(node.inputs[1].index);
      LLMC_RETURN_IF_ERROR(products_.visit(node, weight, operands));
      if (std::ranges::find(wanted, true) == wanted.end())
        return std::vector<Values>(node.outputs.size());
      return products_.run(node, weight, std::move(operands));
    }
    const bool lookup = has_table && std::holds_alternative<ir::Embedding>(node.op);
    const bool same = std::ranges::all_of(operands, [](const Values& v) { return v.size() == 1; });
    const std::size_t count = same ? 1 : windows_;
    std::vector<Values> results(node.outputs.size(), Values(count));
    const std::vector<std::size_t> first = first_with_same(operands, count);
    LLMC_RETURN_IF_ERROR(pool_.run(count, [&](std::size_t window) -> Status {
      if (first[window] != window) {
        release_window(operands, window);
        return ok_status();
      }
      std::vector<const Tensor*> given;
      for (const Values& operand : operands) given.push_back(of_window(operand, window).get());
      auto made = lookup ? look_up(node, *constants.at(node.inputs[1].index), *given[0])
                         : reference::evaluate_node(node, given);
      if (!made.ok()) return std::move(made).error();
      for (std::size_t i = 0; i < results.size(); ++i)
        if (wanted[i]) results[i][window] = std::make_shared<Tensor>(std::move((*made)[i]));
      release_window(operands, window);
      return ok_status();
    }));
    for (Values& result : results)
      for (std::size_t window = 0; window < count; ++window) result[window] = result[first[window]];
    return results;
  }

  /// Evaluates an embedding without a copy of its table: reads only the rows of the ids.
  static Result<std::vector<Tensor>> look_up(const Node& node, const ir::Constant& table,
                                             const Tensor& ids) {
    const std::int64_t width = table.dims()[1];
    std::vector<float> rows(ids.integers.size() * static_cast<std::size_t>(width));
    Tensor places = ids;
    for (std::size_t i = 0; i < ids.integers.size(); ++i) {
      const std::int64_t id =
          ids.integers[i] < 0 ? ids.integers[i] + table.dims()[0] : ids.integers[i];
      if (id >= 0 && id < table.dims()[0])
        table.read_rows(id, 1,
                        std::span(rows).subspan(i * static_cast<std::size_t>(width),
                                                static_cast<std::size_t>(width)));
      else
        return Diagnostic{.kind = ErrorKind::kBadInput,
                          .node = node.origin.node,
                          .message = "token id " + std::to_string(id) +
                                     " is outside the table of " + std::to_string(table.dims()[0])};
      places.integers[i] = static_cast<std::int64_t>(i);
    }
    const Tensor part = reference::f32_tensor(
        {static_cast<std::int64_t>(ids.integers.size()), width}, std::move(rows));
    return reference::evaluate_node(node, {&places, &part});
  }

  Result<std::vector<Values>> run_loop(const ir::Loop& loop, std::vector<Values> operands,
                                       const std::vector<bool>& wanted) {
    const auto carried = static_cast<std::size_t>(loop.carried);
    const auto slots = static_cast<std::size_t>(loop.per_iteration_inputs);
    const auto made = static_cast<std::size_t>(loop.per_iteration_outputs);
    const auto count = static_cast<std::size_t>(loop.count);
    LLMC_CHECK(loop.body && operands.size() >= carried + count * slots &&
               wanted.size() == carried + count * made);
    const bool wants_last =
        std::any_of(wanted.begin(), wanted.begin() + loop.carried, [](bool w) { return w; });
    std::vector<Values> state(std::make_move_iterator(operands.begin()),
                              std::make_move_iterator(operands.begin() + loop.carried));
    std::vector<Values> results;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Values> inputs = std::move(state);
      const auto slot = std::make_move_iterator(operands.begin() +
                                                static_cast<std::ptrdiff_t>(carried + i * slots));
      inputs.insert(inputs.end(), slot, slot + static_cast<std::ptrdiff_t>(slots));
      inputs.insert(inputs.end(),
                    operands.begin() + static_cast<std::ptrdiff_t>(carried + count * slots),
                    operands.end());
      std::vector<bool> wanted_outputs(carried, i + 1 < count || wants_last);
      for (std::size_t k = 0; k < made; ++k)
        wanted_outputs.push_back(wanted[carried + i * made + k]);
      const Iteration iteration{loop, i};
      LLMC_TRY(auto outputs, run(*loop.body, std::move(inputs), wanted_outputs, &iteration));
      state.assign(outputs.begin(), outputs.begin() + loop.carried);
      results.insert(results.end(), outputs.begin() + loop.carried, outputs.end());
    }
    state.insert(state.end(), results.begin(), results.end());
    return state;
  }

  const std::size_t windows_;
  Products& products_;
  WorkerPool& pool_;
};

}  // namespace

std::vector<std::size_t> first_with_same(const std::vector<Values>& operands, std::size_t windows) {
  std::vector<std::size_t> first(windows);
  std::map<std::vector<const Tensor*>, std::size_t> seen;
  for (std::size_t window = 0; window < windows; ++window) {
    std::vector<const Tensor*> given;
    for (const Values& operand : operands) given.push_back(of_window(operand, window).get());
    first[window] = seen.emplace(std::move(given), window).first->second;
  }
  return first;
}

Result<Values> stream(const Graph& graph, std::vector<Values> inputs, std::size_t windows,
                      Products& products, WorkerPool& pool, bool wants_output) {
  LLMC_CHECK(inputs.size() == graph.inputs().size() && !graph.outputs().empty());
  std::vector<bool> wanted(graph.outputs().size(), false);
  wanted[0] = wants_output;
  LLMC_TRY(auto outputs,
           Streamer(windows, products, pool).run(graph, std::move(inputs), wanted, nullptr));
  return std::move(outputs[0]);
}

}  // namespace llmc::calibrate
