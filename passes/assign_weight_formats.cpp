#include "passes/assign_weight_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/ir/constant.h"
#include "compiler/ir/index_map.h"

namespace llmc::passes {

namespace {

using ir::WeightFormat;
using ir::WeightRole;

bool is_one_row(const ir::TensorType& type) {
  return std::ranges::all_of(type.dims, [](const ir::Dim& dim) { return dim.is_constant(); });
}

WeightRole linear_role(const ir::Graph& graph, const ir::UseDef& uses, const ir::Node& node,
                       bool in_loop, bool is_decoder) {
  const auto& op = std::get<ir::Linear>(node.op);
  if (op.gated) return WeightRole::kGateUp;
  const ir::Node* producer = uses.producer(node.inputs[0]);
  while (ir::is_reshape(producer)) producer = uses.producer(producer->inputs[0]);
  if (ir::op_as<ir::Attention>(producer)) return WeightRole::kAttentionOut;
  const auto* before = ir::op_as<ir::Linear>(producer);
  const bool activated = before && (before->gated || before->function != ir::ActivationFn::kNone);
  if (ir::op_as<ir::GatedActivation>(producer) || activated) return WeightRole::kDown;
  if (op.function != ir::ActivationFn::kNone) return WeightRole::kUp;
  const bool head = !in_loop && ((is_decoder && is_one_row(graph.value(node.inputs[0]).type)) ||
                                 uses.is_graph_output(node.outputs[0]));
  return head ? WeightRole::kHead : WeightRole::kLinear;
}

/// Returns kDown if the input of the expert layer `node` is computed from the result of another one
/// by elementwise operators and views, otherwise kGateUp; kLinear for a layer without expert ids.
WeightRole expert_role(const ir::UseDef& uses, const ir::Node& node) {
  if (!node.operand(2).exists()) return WeightRole::kLinear;
  constexpr int kMaxSteps = 16;
  const ir::Node* producer = uses.producer(node.inputs[0]);
  for (int step = 0; producer && step < kMaxSteps; ++step) {
    if (ir::op_as<ir::GatedActivation>(producer) || ir::op_as<ir::ExpertLinear>(producer))
      return WeightRole::kDown;
    const bool passes = ir::is_reshape(producer) || ir::op_as<ir::Unary>(producer) ||
                        ir::op_as<ir::Binary>(producer);
    producer = passes ? uses.producer(producer->inputs[0]) : nullptr;
  }
  return WeightRole::kGateUp;
}

class Assigner {
 public:
  Assigner(const FormatPolicy& policy, const std::function<void(const WeightDecision&)>& on_weight,
           bool is_decoder)
      : policy_(policy), on_weight_(on_weight), is_decoder_(is_decoder) {}

  /// Processes a graph. `positions` contains its inputs with positions of tokens.
  void run(ir::Graph& graph, std::set<std::uint32_t> positions, bool in_loop) {
    const ir::UseDef uses(graph);
    for (ir::Node& node : graph.mutable_nodes()) {
      if (ir::is_reshape(&node) || ir::op_as<ir::Cast>(&node) || ir::op_as<ir::Transpose>(&node)) {
        if (positions.contains(node.inputs[0].index)) positions.insert(node.outputs[0].index);
      } else if (auto* embedding = std::get_if<ir::Embedding>(&node.op)) {
        const bool by_position = positions.contains(node.inputs[0].index);
        embedding->role = by_position ? WeightRole::kPositionEmbedding : WeightRole::kEmbedding;
        assign(node.origin, embedding->role, policy_[embedding->role], embedding->format);
      } else if (auto* linear = std::get_if<ir::Linear>(&node.op)) {
        linear->role = linear_role(graph, uses, node, in_loop, is_decoder_);
        FormatChoice choice = policy_[linear->role];
        if (choice.format == WeightFormat::kQ4 &&
            ir::op_as<ir::Unfold>(uses.producer(node.inputs[0])))
          choice = {WeightFormat::kQ6, "a convolution, which 4 bits make much less accurate"};
        assign(node.origin, linear->role, choice, linear->format);
      } else if (auto* experts = std::get_if<ir::ExpertLinear>(&node.op)) {
        experts->role = expert_role(uses, node);
        assign(node.origin, experts->role, policy_[experts->role], experts->format);
      } else if (auto* qkv = std::get_if<ir::QkvProjection>(&node.op)) {
        assign(node.origin, *qkv);
      } else if (auto* loop = std::get_if<ir::Loop>(&node.op)) {
        run_body(node, *loop, positions);
      }
    }
  }

 private:
  void assign(const ir::Origin& origin, WeightRole role, const FormatChoice& choice,
              WeightFormat& format) {
    const bool own = format != WeightFormat::kUnset;
    if (!own) format = choice.format;
    if (on_weight_) on_weight_({origin, role, format, own ? "the graph's own" : choice.reason});
  }

  void assign(const ir::Origin& origin, ir::QkvProjection& op) {
    const FormatChoice& query_key = policy_[WeightRole::kQueryKey];
    const FormatChoice& value = policy_[WeightRole::kValue];
    if (op.format != WeightFormat::kUnset || query_key.format == value.format)
      return assign(origin, op.role, query_key, op.format);
    assign(origin, WeightRole::kQueryKey, query_key, op.format);
    assign(origin, WeightRole::kValue, value, op.value_format);
  }

  void run_body(const ir::Node& node, ir::Loop& loop, const std::set<std::uint32_t>& positions) {
    auto body = std::make_shared<ir::Graph>(*loop.body);
    const auto first = static_cast<std::size_t>(loop.carried + loop.per_iteration_inputs);
    const auto outer =
        static_cast<std::size_t>(loop.carried + loop.count * loop.per_iteration_inputs);
    std::set<std::uint32_t> inner;
    for (std::size_t i = first; i < body->inputs().size(); ++i)
      if (positions.contains(node.inputs[outer + i - first].index))
        inner.insert(body->inputs()[i].index);
    run(*body, std::move(inner), true);
    loop.body = std::move(body);
  }

  const FormatPolicy& policy_;
  const std::function<void(const WeightDecision&)>& on_weight_;
  bool is_decoder_;
};

/// Counts the weights of a graph whose matrices have roles.
class SizeCounter {
 public:
  /// `keeps_codes`: whether matrices with integer codes are not rounded, so that they do not count.
  explicit SizeCounter(bool keeps_codes) : keeps_codes_(keeps_codes) {}

  /// Adds the graph's matrices, `times` of each, to `sizes`. `loop` is the operator whose body the
  /// graph is, or nullptr.
  void add(const ir::Graph& graph, const ir::Loop* loop, std::uint64_t times, MatrixSizes& sizes) {
    const ir::UseDef uses(graph);
    for (const ir::Node& node : graph.nodes()) {
      const auto count = [&](WeightRole role, WeightFormat format) {
        const bool counts = format == WeightFormat::kUnset &&
                            !(keeps_codes_ && has_codes(uses.producer(node.inputs[1]), loop));
        std::uint64_t weights = counts ? times : 0;
        for (const ir::Dim& dim : graph.value(node.inputs[1]).type.dims)
          weights *= static_cast<std::uint64_t>(dim.constant().value_or(0));
        if (role == WeightRole::kHead) {
          sizes.head += weights;
        } else if (role != WeightRole::kQueryKeyValue && role != WeightRole::kAttentionOut &&
                   role != WeightRole::kDown) {
          sizes.others += weights;
        }
      };
      if (const auto* linear = ir::op_as<ir::Linear>(&node)) count(linear->role, linear->format);
      if (const auto* experts = ir::op_as<ir::ExpertLinear>(&node))
        count(experts->role, experts->format);
      if (const auto* inner = ir::op_as<ir::Loop>(&node))
        add(*inner->body, inner, times * static_cast<std::uint64_t>(inner->count), sizes);
    }
  }

 private:
  /// Returns whether the result of `producer` is a matrix with integer codes.
  static bool has_codes(const ir::Node* producer, const ir::Loop* loop) {
    if (const auto* constant = ir::op_as<ir::ConstantOp>(producer))
      return ir::has_quantized_rows(*constant->data);
    const auto* parameter = ir::op_as<ir::Parameter>(producer);
    return parameter && loop &&
           std::ranges::any_of(
               loop->parameters[static_cast<std::size_t>(parameter->index)],
               [](const ir::ConstantPtr& matrix) { return ir::has_quantized_rows(*matrix); });
  }

  bool keeps_codes_;
};

}  // namespace

FormatPolicy format_policy(QuantScheme scheme, const MatrixSizes& sizes) {
  FormatPolicy policy;
  policy.choices.fill({scheme.format, "--quant"});
  if (scheme.format != WeightFormat::kQ4) return policy;
  policy[WeightRole::kHead] = {WeightFormat::kQ6, "the head, with q4"};
  if (!scheme.mixed || sizes.hidden >= kNarrowHidden) return policy;
  const bool large_head = sizes.head > 0 && sizes.head >= sizes.others;
  const FormatChoice finer{
      WeightFormat::kQ6, large_head ? "beside a large head, with q4m" : "a narrow model, with q4m"};
  for (const WeightRole role :
       {WeightRole::kQueryKey, WeightRole::kValue, WeightRole::kAttentionOut, WeightRole::kDown})
    policy[role] = finer;
  if (!large_head) return policy;
  for (const WeightRole role : {WeightRole::kGateUp, WeightRole::kUp, WeightRole::kLinear})
    policy[role] = finer;
  policy[WeightRole::kHead] = {WeightFormat::kQ4, "a large head, with q4m"};
  return policy;
}

MatrixSizes matrix_sizes(const ir::Graph& graph, bool requantize) {
  MatrixSizes sizes{.hidden = hidden_size(graph)};
  SizeCounter(!requantize).add(assign_weight_formats(graph, FormatPolicy()), nullptr, 1, sizes);
  if (!graph.is_decoder()) sizes.others += std::exchange(sizes.head, 0);
  return sizes;
}

std::uint64_t hidden_size(const ir::Graph& graph) {
  const auto width_of = [&](ir::ValueId rows) -> std::uint64_t {
    const ir::TensorType& type = graph.value(rows).type;
    const auto width = type.dims.empty() ? std::nullopt : type.dims.back().constant();
    return width && *width > 0 ? static_cast<std::uint64_t>(*width) : 0;
  };
  std::map<std::uint64_t, std::size_t> read;  // width -> number of linear layers
  for (const ir::Node& node : graph.nodes()) {
    if (ir::op_as<ir::Embedding>(&node)) return width_of(node.outputs[0]);
    if (ir::op_as<ir::Linear>(&node)) ++read[width_of(node.inputs[0])];
  }
  const auto largest = std::ranges::max_element(
      read, {}, [](const auto& width_and_count) { return width_and_count.second; });
  return largest == read.end() ? 0 : largest->first;
}

std::string to_string(const WeightDecision& decision) {
  const auto& formats = ir::EnumInfo<WeightFormat>::names;
  return fmt::format("'{}': {}, {}: {}", printable(decision.origin.node),
                     ir::to_string(decision.role),
                     formats[static_cast<std::size_t>(decision.format)], decision.reason);
}

ir::Graph assign_weight_formats(ir::Graph graph, const FormatPolicy& policy,
                                const std::function<void(const WeightDecision&)>& on_weight) {
  std::set<std::uint32_t> positions;
  const ir::ValueId input = graph.input(ir::InputKind::kPositions);
  if (input.exists()) positions.insert(input.index);
  Assigner(policy, on_weight, graph.is_decoder()).run(graph, std::move(positions), false);
  return graph;
}

Result<ir::Graph> assign_weight_formats(ir::Graph graph, const PassContext& context) {
  const PassOptions& options = context.options;
  MatrixSizes sizes;  // only q4m needs them
  if (options.weights.mixed) sizes = matrix_sizes(graph, options.requantize);
  FormatPolicy policy = format_policy(options.weights, sizes);
  // The projections of plain graphs are not merged into a qkv_projection.
  if (!graph.is_decoder()) policy[WeightRole::kLinear] = policy[WeightRole::kQueryKey];
  return assign_weight_formats(std::move(graph), policy, context.on_weight);
}

}  // namespace llmc::passes
