#include "compiler/reference/interpreter.h"

#include <utility>

#include "compiler/ir/op_info.h"
#include "compiler/ir/verify.h"
#include "compiler/reference/eval.h"

namespace llmc::reference {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;
using TensorPtr = std::shared_ptr<const Tensor>;

Result<Tensors> run_node(const Node& node, const std::vector<const Tensor*>& operands,
                         Budget& budget, const Product& product = {}) {
  EvalContext context(node, operands, budget, product ? &product : nullptr);
  auto results = std::visit(
      [&]<class Op>(const Op& op) -> Result<Tensors> {
        if constexpr (std::is_same_v<Op, ir::Loop> || std::is_same_v<Op, ir::Parameter>) {
          return context.error("cannot be evaluated without a graph");
        } else {
          if constexpr (!ir::kOpInfo<Op>.takes_f64) {
            for (std::size_t i = 0; i < context.size(); ++i)
              if (context.has(i) && context.operand(i).element == ir::ElementType::kF64)
                return context.error("is not defined for f64");
          }
          return eval_op(context, op);
        }
      },
      node.op);
  if (results.ok())
    for (Tensor& tensor : *results) round_to_element(tensor);
  return results;
}

/// Returns the index of the last node that reads each value. Graph outputs are treated as read
/// after the last node.
std::vector<std::size_t> last_uses(const Graph& graph) {
  std::vector<std::size_t> last(graph.values().size(), 0);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (const ValueId input : graph.nodes()[n].inputs)
      if (input.exists()) last[input.index] = n;
  for (const ValueId output : graph.outputs()) last[output.index] = graph.nodes().size();
  return last;
}

/// The values of one run of one graph. Their memory is charged to the budget until they are
/// dropped.
class Frame {
 public:
  Frame(const Graph& graph, Budget& budget)
      : budget_(budget), values_(graph.values().size()), held_(graph.values().size(), 0) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    for (const std::uint64_t bytes : held_) budget_.used_bytes -= bytes;
  }

  /// Stores a value whose memory is charged elsewhere.
  void borrow(ValueId id, TensorPtr tensor) { values_[id.index] = std::move(tensor); }
  void own(ValueId id, TensorPtr tensor) {
    held_[id.index] = tensor->bytes();
    budget_.used_bytes += tensor->bytes();
    values_[id.index] = std::move(tensor);
  }
  void drop(ValueId id) {
    budget_.used_bytes -= std::exchange(held_[id.index], 0);
    values_[id.index] = nullptr;
  }
  const TensorPtr& value(ValueId id) const { return values_[id.index]; }

 private:
  Budget& budget_;
  std::vector<TensorPtr> values_;
  std::vector<std::uint64_t> held_;
};

/// The Loop whose body is being evaluated, and its current iteration.
struct Iteration {
  const ir::Loop& loop;
  std::size_t index;
};

/// Evaluates graphs. Keeps constants between runs.
class Session {
 public:
  explicit Session(InterpreterOptions options) : options_(options) {
    budget_.limit_bytes = options.memory_limit_bytes;
  }

  /// Runs a graph. `folded` caches the results of nodes that depend only on constants, by node. It
  /// is nullptr in loop bodies, whose parameters change.
  Result<std::vector<TensorPtr>> run(const Graph& graph, const std::vector<TensorPtr>& inputs,
                                     const Iteration* around, int depth,
                                     std::map<std::size_t, std::vector<TensorPtr>>* folded) {
    Frame frame(graph, budget_);
    const auto last = last_uses(graph);
    std::vector<bool> fixed(graph.values().size(), false);
    for (std::size_t i = 0; i < inputs.size(); ++i) frame.borrow(graph.inputs()[i], inputs[i]);
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.nodes()[n];
      bool is_fixed = folded != nullptr && !std::holds_alternative<ir::Loop>(node.op);
      for (const ValueId input : node.inputs)
        is_fixed = is_fixed && (!input.exists() || fixed[input.index]);
      for (const ValueId output : node.outputs) fixed[output.index] = is_fixed;
      if (is_fixed && folded->contains(n)) {
        const auto& kept = folded->at(n);
        for (std::size_t i = 0; i < kept.size(); ++i) frame.borrow(node.outputs[i], kept[i]);
      } else {
        LLMC_TRY(auto results, run_in_frame(graph, node, frame, around, depth));
        if (results.size() != node.outputs.size()) return broken(node, "wrong number of results");
        const bool is_constant = ir::is_any<ir::ConstantOp, ir::Parameter>(node.op);
        const bool keep = is_fixed && !is_constant && take_cache_room(results);
        for (std::size_t i = 0; i < results.size(); ++i) {
          if (keep || (is_constant && is_cached(node, around))) {
            frame.borrow(node.outputs[i], results[i]);
          } else {
            frame.own(node.outputs[i], results[i]);
          }
        }
        if (keep) folded->emplace(n, std::move(results));
      }
      for (const ValueId input : node.inputs)
        if (input.exists() && last[input.index] == n) frame.drop(input);
      for (const ValueId output : node.outputs)
        if (last[output.index] <= n) frame.drop(output);
    }
    std::vector<TensorPtr> outputs;
    for (const ValueId output : graph.outputs()) outputs.push_back(frame.value(output));
    return outputs;
  }

 private:
  static Diagnostic broken(const Node& node, std::string message) {
    const std::vector<const Tensor*> none;
    Budget budget;
    return EvalContext(node, none, budget).error(std::move(message));
  }

  Result<std::vector<TensorPtr>> run_in_frame(const Graph& graph, const Node& node,
                                              const Frame& frame, const Iteration* around,
                                              int depth) {
    if (auto problem = ir::operand_problem(node)) return broken(node, std::move(*problem));
    std::vector<const Tensor*> operands;
    std::vector<TensorPtr> shared;
    for (const ValueId input : node.inputs) {
      if (input.exists() && !frame.value(input))
        return broken(node, "operand '" + graph.value(input).name + "' has no value");
      shared.push_back(input.exists() ? frame.value(input) : nullptr);
      operands.push_back(shared.back().get());
    }
    if (const auto* loop = std::get_if<ir::Loop>(&node.op))
      return run_loop(node, *loop, shared, depth);
    if (const auto* parameter = std::get_if<ir::Parameter>(&node.op)) {
      const auto data = parameter_data(*parameter, around);
      if (!data) return broken(node, "the loop has no such parameter");
      return constant(node, data);
    }
    if (const auto* op = std::get_if<ir::ConstantOp>(&node.op)) {
      if (!op->data) return broken(node, "has no data");
      return constant(node, op->data);
    }
    LLMC_TRY(auto results, run_node(node, operands, budget_));
    std::vector<TensorPtr> out;
    for (Tensor& tensor : results) out.push_back(std::make_shared<Tensor>(std::move(tensor)));
    return out;
  }

  static ir::ConstantPtr parameter_data(const ir::Parameter& parameter, const Iteration* around) {
    if (!around || parameter.index < 0 ||
        static_cast<std::size_t>(parameter.index) >= around->loop.parameters.size())
      return nullptr;
    const auto& row = around->loop.parameters[static_cast<std::size_t>(parameter.index)];
    return around->index < row.size() ? row[around->index] : nullptr;
  }

  bool is_cached(const Node& node, const Iteration* around) const {
    const auto* op = std::get_if<ir::ConstantOp>(&node.op);
    const auto* parameter = std::get_if<ir::Parameter>(&node.op);
    const auto data = op ? op->data : parameter ? parameter_data(*parameter, around) : nullptr;
    return data && constants_.contains(data.get());
  }

  /// Reserves memory for tensors in the cache. Returns false if the limit of the cache would be
  /// exceeded.
  bool take_cache_room(const std::vector<TensorPtr>& tensors) {
    std::uint64_t bytes = 0;
    for (const auto& tensor : tensors) bytes += tensor->bytes();
    if (bytes > options_.constant_cache_bytes ||
        cached_bytes_ > options_.constant_cache_bytes - bytes)
      return false;
    cached_bytes_ += bytes;
    budget_.used_bytes += bytes;
    return true;
  }

  Result<std::vector<TensorPtr>> constant(const Node& node, const ir::ConstantPtr& data) {
    if (const auto found = constants_.find(data.get()); found != constants_.end())
      return std::vector<TensorPtr>{found->second.second};
    const std::vector<const Tensor*> none;
    EvalContext context(node, none, budget_);
    LLMC_TRY(auto made, eval_op(context, ir::ConstantOp{data}));
    std::vector<TensorPtr> out{std::make_shared<Tensor>(std::move(made[0]))};
    if (take_cache_room(out)) constants_.emplace(data.get(), std::pair(data, out[0]));
    return out;
  }

  Result<std::vector<TensorPtr>> run_loop(const Node& node, const ir::Loop& loop,
                                          const std::vector<TensorPtr>& operands, int depth) {
    if (!loop.body || depth >= ir::kMaxLoopDepth)
      return broken(node, "the body is missing or nested too deeply");
    const auto carried = static_cast<std::size_t>(loop.carried);
    const auto slots = static_cast<std::size_t>(loop.per_iteration_inputs);
    const auto count = static_cast<std::size_t>(loop.count);
    const std::size_t invariants = carried + count * slots;
    if (operands.size() < invariants ||
        loop.body->inputs().size() != operands.size() - invariants + carried + slots ||
        loop.body->outputs().size() !=
            carried + static_cast<std::size_t>(loop.per_iteration_outputs))
      return broken(node, "operands do not match the body");
    std::vector<TensorPtr> state(operands.begin(),
                                 operands.begin() + static_cast<std::ptrdiff_t>(carried));
    std::vector<TensorPtr> results;
    // Size of the results of finished iterations, charged to the budget here until the caller's
    // frame owns them.
    std::uint64_t held = 0;
    const auto release = [&] { budget_.used_bytes -= std::exchange(held, 0); };
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<TensorPtr> inputs = state;
      const auto slot = operands.begin() + static_cast<std::ptrdiff_t>(carried + i * slots);
      inputs.insert(inputs.end(), slot, slot + static_cast<std::ptrdiff_t>(slots));
      inputs.insert(inputs.end(), operands.begin() + static_cast<std::ptrdiff_t>(invariants),
                    operands.end());
      const Iteration iteration{loop, i};
      auto outputs = run(*loop.body, inputs, &iteration, depth + 1, nullptr);
      if (!outputs.ok()) {
        release();
        return outputs;
      }
      for (std::size_t k = carried; k < outputs->size(); ++k) {
        held += (*outputs)[k]->bytes();
        budget_.used_bytes += (*outputs)[k]->bytes();
        results.push_back((*outputs)[k]);
      }
      outputs->resize(carried);
      state = std::move(*outputs);
    }
    release();
    state.insert(state.end(), results.begin(), results.end());
    return state;
  }

  InterpreterOptions options_;
  Budget budget_;
  /// Cached constants by identity, because a body uses the same objects in every call.
  std::map<const ir::Constant*, std::pair<ir::ConstantPtr, TensorPtr>> constants_;
  std::uint64_t cached_bytes_ = 0;
};

Diagnostic bad_input(const Graph& graph, std::size_t i, std::string message) {
  return Diagnostic{.node = graph.value(graph.inputs()[i]).name,
                    .message = "input " + std::to_string(i) + " " + std::move(message)};
}

/// Checks that element types, ranks and constant sizes of `inputs` match those of the graph's
/// inputs.
Status check_inputs(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size()) {
    return failure(ErrorKind::kBadInput, "the graph takes " +
                                             std::to_string(graph.inputs().size()) +
                                             " inputs, got " + std::to_string(inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& type = graph.value(graph.inputs()[i]).type;
    const Tensor& tensor = inputs[i];
    bool fits = tensor.element == type.element && tensor.rank() == type.rank() &&
                has_plain_size(tensor.dims);
    for (std::size_t d = 0; fits && d < type.rank(); ++d)
      fits = !type.dims[d].is_constant() || *type.dims[d].constant() == tensor.dims[d];
    if (!fits)
      return bad_input(graph, i, "is " + type_text(tensor) + ", not " + ir::to_string(type));
  }
  return ok_status();
}

}  // namespace

struct Interpreter::State {
  Graph graph;
  Session session;
  std::map<std::size_t, std::vector<TensorPtr>> folded;
};

Interpreter::Interpreter(Graph graph, InterpreterOptions options)
    : state_(new State{std::move(graph), Session(options), {}}) {}
Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;

const Graph& Interpreter::graph() const {
  return state_->graph;
}

Result<std::vector<Tensor>> Interpreter::evaluate(std::span<const Tensor> inputs) {
  LLMC_RETURN_IF_ERROR(check_inputs(state_->graph, inputs));
  std::vector<TensorPtr> borrowed;
  // The caller's tensors outlive the run, so they are neither copied nor deleted.
  for (const Tensor& tensor : inputs) borrowed.emplace_back(TensorPtr(), &tensor);
  LLMC_TRY(auto outputs, state_->session.run(state_->graph, borrowed, nullptr, 0, &state_->folded));
  std::vector<Tensor> results;
  for (const auto& output : outputs) {
    LLMC_CHECK(output != nullptr);
    results.push_back(*output);
  }
  return results;
}

Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                                     const InterpreterOptions& options) {
  return Interpreter(graph, options).evaluate(inputs);
}

Result<std::vector<Tensor>> evaluate_node(const Node& node,
                                          const std::vector<const Tensor*>& operands,
                                          const InterpreterOptions& options) {
  Budget budget{options.memory_limit_bytes, 0};
  // `operands` defines the number of operands; the node's own list is ignored.
  Node checked{node.op, {}, {}, node.origin};
  for (std::size_t i = 0; i < operands.size(); ++i)
    checked.inputs.push_back(operands[i] ? ValueId{static_cast<std::uint32_t>(i)} : ir::kNoValue);
  if (auto problem = ir::operand_problem(checked, false))
    return EvalContext(node, operands, budget).error(std::move(*problem));
  for (const Tensor* operand : operands)
    if (operand && !has_plain_size(operand->dims))
      return EvalContext(node, operands, budget).error("an operand's size is out of range");
  return run_node(node, operands, budget, options.product);
}

}  // namespace llmc::reference
