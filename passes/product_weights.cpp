#include "passes/product_weights.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

namespace llmc::passes {

namespace {

constexpr std::size_t kWeight = 1;  // operand of all products

class WeightRewriter {
 public:
  explicit WeightRewriter(const WeightRewrite& rewrite) : rewrite_(rewrite) {}

  /// Processes a graph. `loop` is the operator whose body it is, or nullptr.
  void run(ir::Graph& graph, ir::Loop* loop) {
    std::map<ir::ValueId, std::vector<std::size_t>> products;  // nodes, by weight
    std::vector<ir::Node>& nodes = graph.mutable_nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (auto* inner = std::get_if<ir::Loop>(&nodes[i].op)) {
        auto body = std::make_shared<ir::Graph>(*inner->body);
        run(*body, inner);
        inner->body = std::move(body);
      } else if (has_quantized_format(nodes[i].op) && rewrite_.wants(nodes[i].op)) {
        products[nodes[i].inputs[kWeight]].push_back(i);
      }
    }
    std::vector<ir::Node> copies;
    const ir::UseDef uses(graph);
    for (const auto& [weight, users] : products) {
      const bool shared = uses.use_count(weight) != users.size();
      const ir::Node* const producer = uses.producer(weight);
      if (!producer) continue;
      ir::Node& node = nodes[static_cast<std::size_t>(producer - nodes.data())];
      ir::ValueId result = weight;
      if (auto* constant = std::get_if<ir::ConstantOp>(&node.op)) {
        if (!rewrite_.applies({&constant->data, 1})) continue;
        if (shared) {
          result = graph.add_value(graph.value(weight));
          graph.value(result).name.clear();
          copies.push_back({ir::ConstantOp{made(constant->data)}, {}, {result}, node.origin});
        } else {
          constant->data = made(constant->data);
        }
      } else if (const auto* parameter = std::get_if<ir::Parameter>(&node.op);
                 !parameter || shared || !loop || !replace(*loop, *parameter)) {
        continue;
      }
      graph.value(result).type.element = ir::ElementType::kF32;
      for (const std::size_t i : users) {
        nodes[i].inputs[kWeight] = result;
        rewrite_.replaced(nodes[i].op);
      }
    }
    nodes.insert(nodes.begin(), std::make_move_iterator(copies.begin()),
                 std::make_move_iterator(copies.end()));
  }

 private:
  ir::ConstantPtr made(const ir::ConstantPtr& matrix) {
    ir::ConstantPtr& result = made_[matrix.get()];
    if (!result) result = rewrite_.make(matrix);
    return result;
  }
  bool replace(ir::Loop& loop, const ir::Parameter& parameter) {
    std::vector<ir::ConstantPtr>& matrices =
        loop.parameters[static_cast<std::size_t>(parameter.index)];
    if (!rewrite_.applies(matrices)) return false;
    for (ir::ConstantPtr& matrix : matrices) matrix = made(matrix);
    return true;
  }

  const WeightRewrite& rewrite_;
  /// Views by matrix: products with the same matrix share one. A view keeps its matrix alive.
  std::map<const ir::Constant*, ir::ConstantPtr> made_;
};

}  // namespace

bool has_quantized_format(const ir::Op& op) {
  if (const auto* linear = std::get_if<ir::Linear>(&op)) return is_quantized(linear->format);
  if (const auto* experts = std::get_if<ir::ExpertLinear>(&op))
    return is_quantized(experts->format);
  const auto* qkv = std::get_if<ir::QkvProjection>(&op);
  return qkv && is_quantized(qkv->format) &&
         (qkv->value_format == ir::WeightFormat::kUnset || is_quantized(qkv->value_format));
}

void rewrite_weights(ir::Graph& graph, const WeightRewrite& rewrite) {
  WeightRewriter(rewrite).run(graph, nullptr);
}

std::optional<PlainLinear> match_plain_linear(const Rewriter& rw, ir::ValueId value) {
  const auto* linear = rw.op<ir::Linear>(value);
  if (!linear || linear->norm_epsilon || linear->gated ||
      linear->function != ir::ActivationFn::kNone)
    return std::nullopt;
  const ir::Node& node = *rw.producer(value);
  const ir::ValueId bias = node.operand(2);
  PlainLinear found{node.inputs[0], rw.constant(node.inputs[1]), rw.constant(bias),
                    rw.name(node.inputs[1])};
  if (node.operand(4).exists() || !found.weight || (bias.exists() && !found.bias))
    return std::nullopt;
  return found;
}

bool can_be_stacked(std::span<const PlainLinear> layers) {
  return std::ranges::all_of(layers, [&](const PlainLinear& layer) {
    return layer.x == layers[0].x && layer.weight->element() == layers[0].weight->element();
  });
}

std::vector<ir::ValueId> emit_stacked(Rewriter& rw, std::span<const PlainLinear> layers,
                                      NodeIndex anchor) {
  std::vector<ir::ConstantPtr> weights;
  std::vector<float> bias;
  std::string name;
  bool named = true, has_bias = false;
  for (const PlainLinear& layer : layers) {
    weights.push_back(layer.weight);
    named = named && !layer.name.empty();
    name += (name.empty() ? "" : " + ") + layer.name;
    has_bias = has_bias || layer.bias;
    if (!layer.bias)
      bias.resize(bias.size() + static_cast<std::size_t>(layer.weight->dims()[0]), 0.0f);
    else
      for (const double v : ir::to_doubles(*layer.bias)) bias.push_back(static_cast<float>(v));
  }
  const auto rows = static_cast<std::int64_t>(bias.size());
  std::vector<ir::ValueId> operands{
      layers[0].x,
      rw.emit_constant(ir::concat_rows(std::move(weights)), anchor, named ? name : "")};
  if (has_bias) operands.push_back(rw.emit_constant(ir::make_f32({rows}, std::move(bias)), anchor));
  return operands;
}

}  // namespace llmc::passes
