#include "passes/recognise.h"

#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "compiler/ir/index_map.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// Combines a number that several nodes have: `fact` becomes 0 if they differ. `first`: whether
/// `value` is that of the first node.
void agree(std::int64_t& fact, std::int64_t value, bool first) {
  fact = first || fact == value ? value : 0;
}

float round_to(ir::ElementType element, float value) {
  if (element != ir::ElementType::kBF16) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return std::bit_cast<float>(rounded & 0xffff0000u);
}

bool same_matrix(const ir::ConstantPtr& table, const ir::ConstantPtr& head) {
  if (table == head) return table != nullptr;
  if (!table || !head || table->dims() != head->dims()) return false;
  const std::int64_t rows = table->dims()[0], width = table->dims()[1];
  if (rows <= 0 || width <= 0) return false;
  std::vector<float> a(static_cast<std::size_t>(width)), b(a.size());
  constexpr std::int64_t kSamples = 64;
  for (std::int64_t s = 0; s < std::min(kSamples, rows); ++s) {
    const std::int64_t row = rows <= kSamples ? s : s * (rows / kSamples);
    table->read_rows(row, 1, a);
    head->read_rows(row, 1, b);
    for (std::size_t i = 0; i < a.size(); ++i)
      if (round_to(head->element(), a[i]) != round_to(table->element(), b[i])) return false;
  }
  return true;
}

class Reader {
 public:
  explicit Reader(ModelProperties& facts) : facts_(facts) {}

  /// Counts the nodes of a graph that is executed `times` times. `loop` is the loop whose body it
  /// is, or nullptr.
  void read(const ir::Graph& graph, std::int64_t times, const ir::Loop* loop) {
    const ir::UseDef uses(graph);
    const auto constant = [&](ValueId value) -> ir::ConstantPtr {
      if (!value.exists()) return nullptr;
      if (const auto* parameter = ir::op_as<ir::Parameter>(uses.producer(value))) {
        const auto index = static_cast<std::size_t>(parameter->index);
        return loop && index < loop->parameters.size() && !loop->parameters[index].empty()
                   ? loop->parameters[index][0]
                   : nullptr;
      }
      return uses.constant(value);
    };
    std::set<std::array<ValueId, 3>> norms;  // rows, weight and bias of layers
    for (const ir::Node& node : graph.nodes()) {
      if (ir::is_any<ir::ConstantOp, ir::Parameter>(node.op)) continue;
      facts_.operators[std::string(ir::op_name(node.op))] += times;
      if (const auto* inner = std::get_if<ir::Loop>(&node.op)) {
        read(*inner->body, times * inner->count, inner);
      } else if (const auto* attention = std::get_if<ir::Attention>(&node.op)) {
        const bool first = facts_.fused.attentions == 0;
        agree(facts_.heads, attention->heads, first);
        agree(facts_.kv_heads, attention->kv_heads, first);
        agree(facts_.head_dim, attention->head_dim, first);
        facts_.cache_layout = attention->cache_layout;
        facts_.fused.attentions += times;
        (attention->chunked ? facts_.chunks : facts_.windows)[attention->window] += times;
        facts_.softcap = attention->softcap;
      } else if (const auto* scaled = std::get_if<ir::ScaledAttention>(&node.op)) {
        facts_.fused.attentions += times;
        facts_.softcap = scaled->softcap;
      } else if (std::holds_alternative<ir::CrossAttention>(node.op)) {
        facts_.fused.cross_attentions += times;
      } else if (const auto* qkv = std::get_if<ir::QkvProjection>(&node.op)) {
        facts_.fused.linears += times;
        facts_.qkv_bias = facts_.qkv_bias || node.operand(2).exists();
        if (qkv->norm_epsilon) norm(*qkv->norm_epsilon, qkv->norm_kind, times);
        if (qkv->qk_norm_epsilon) facts_.fused.head_norms += 2 * times;
        if (qkv->rope) rope(*qkv->rope, constant(node.operand(5)), 2 * times);
      } else if (const auto* plain = std::get_if<ir::Rope>(&node.op)) {
        rope(*plain, constant(node.operand(2)), times);
      } else if (const auto* linear = std::get_if<ir::Linear>(&node.op)) {
        facts_.fused.linears += times;
        // Layers that read the same rows have the same norm, each a copy.
        if (linear->norm_epsilon &&
            norms.insert({node.inputs[0], node.operand(3), node.operand(5)}).second)
          norm(*linear->norm_epsilon, linear->norm_kind, times);
        if (linear->function != ir::ActivationFn::kNone)
          mlp(graph, node, linear->function, linear->gated, times);
      } else if (const auto* experts = std::get_if<ir::ExpertLinear>(&node.op)) {
        if (node.operand(2).exists()) {
          facts_.fused.experts += times;
          facts_.experts = experts->experts;
        } else {
          facts_.fused.linears += times;
        }
      } else if (const auto* gated = std::get_if<ir::GatedActivation>(&node.op)) {
        mlp(graph, node, gated->function, true, times);
      } else if (const auto* rms = std::get_if<ir::RmsNorm>(&node.op)) {
        if (graph.value(node.outputs[0]).type.rank() == 4)
          facts_.fused.head_norms += times;
        else
          norm(rms->epsilon, ir::NormKind::kRms, times);
      } else if (const auto* layer = std::get_if<ir::LayerNorm>(&node.op)) {
        norm(layer->epsilon, ir::NormKind::kLayer, times);
      } else if (std::holds_alternative<ir::Embedding>(node.op)) {
        if (const auto table = constant(node.operand(1)); table && !table_) {
          table_ = table;
          facts_.vocabulary = table->dims()[0];
          facts_.hidden = table->dims()[1];
        }
      } else if (is_elementwise(graph, node)) {
        facts_.elementwise[std::string(ir::op_name(node.op))] += times;
      } else if (!is_view_or_stage(node.op)) {
        facts_.unfused[std::string(ir::op_name(node.op))] += times;
      }
    }
  }

  /// Finds the head: the layer that computes the first output. Views may follow it.
  void read_head(const ir::Graph& graph) {
    if (graph.outputs().empty()) return;
    const ir::UseDef uses(graph);
    ValueId value = graph.outputs().front();
    while (ir::is_reshape(uses.producer(value))) value = uses.producer(value)->inputs[0];
    const ir::Node* node = uses.producer(value);
    if (!ir::op_as<ir::Linear>(node)) return;
    const ir::ConstantPtr head = uses.constant(node->inputs[1]);
    if (!head) return;
    if (facts_.vocabulary == 0) facts_.vocabulary = head->dims()[0];
    if (facts_.hidden == 0) facts_.hidden = head->dims()[1];
    facts_.tied = same_matrix(table_, head);
  }

 private:
  /// Returns whether the operator is a reshape, a lookup or an identity.
  static bool is_view_or_stage(const ir::Op& op) {
    const auto* un = std::get_if<ir::Unary>(&op);
    return ir::is_reshape(op) || std::holds_alternative<ir::Gather>(op) ||
           (un && un->kind == ir::UnaryKind::kIdentity);
  }

  /// Returns whether the node is a unary (not identity) or binary operator with an f32 result.
  static bool is_elementwise(const ir::Graph& graph, const ir::Node& node) {
    const auto* un = std::get_if<ir::Unary>(&node.op);
    const bool computes =
        un ? un->kind != ir::UnaryKind::kIdentity : std::holds_alternative<ir::Binary>(node.op);
    return computes && graph.value(node.outputs[0]).type.element == ir::ElementType::kF32;
  }

  void norm(float epsilon, ir::NormKind kind, std::int64_t times) {
    if (facts_.fused.norms == 0 && facts_.fused.layer_norms == 0)
      facts_.norm_epsilon = epsilon;
    else if (facts_.norm_epsilon != epsilon)
      facts_.norm_epsilon.reset();
    (kind == ir::NormKind::kRms ? facts_.fused.norms : facts_.fused.layer_norms) += times;
  }

  void rope(const ir::Rope& op, const ir::ConstantPtr& angles, std::int64_t times) {
    agree(facts_.rotary_dim, op.rotary_dim, facts_.fused.ropes == 0);
    facts_.rope_interleaved = op.interleaved;
    facts_.rope_table = op.table;
    facts_.image_positions = !op.position_axes.empty();
    if (facts_.fused.ropes == 0 && angles && !op.table)
      facts_.rope_theta = theta_of(ir::to_doubles(*angles));
    facts_.fused.ropes += times;
  }

  void mlp(const ir::Graph& graph, const ir::Node& node, ir::ActivationFn function, bool gated,
           std::int64_t times) {
    const auto& dims = graph.value(node.outputs[0]).type.dims;
    if (!dims.empty() && dims.back().constant())
      agree(facts_.intermediate, *dims.back().constant(), facts_.fused.mlps == 0);
    facts_.fused.mlps += times;
    const std::string name(ir::op_name(ir::Unary{ir::unary_kind(function)}));
    facts_.activations[gated ? "gated " + name : name] += times;
  }

  ModelProperties& facts_;
  ir::ConstantPtr table_;
};

}  // namespace

std::optional<double> theta_of(const std::vector<double>& frequencies) {
  constexpr double kTolerance = 1e-3;
  const auto pairs = static_cast<double>(frequencies.size());
  if (frequencies.size() < 2 || std::abs(frequencies[0] - 1) > kTolerance ||
      !(frequencies[1] > 0) || !(frequencies[1] < 1))
    return std::nullopt;
  // The last frequency, theta^(-(pairs - 1) / pairs), determines the base most precisely.
  const double theta = std::pow(frequencies.back(), -pairs / (pairs - 1));
  if (!std::isfinite(theta) || !(theta > 1)) return std::nullopt;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double expected = std::pow(theta, -static_cast<double>(i) / pairs);
    if (!(std::abs(frequencies[i] - expected) <= kTolerance * expected)) return std::nullopt;
  }
  // f32 and f16 frequencies determine only a few digits of the base: round to them.
  for (const auto& [digits, tolerance] :
       {std::pair(1, kTolerance), std::pair(3, kTolerance / 10)}) {
    const double scale = std::pow(10.0, std::floor(std::log10(theta)) - digits);
    const double rounded = std::round(theta / scale) * scale;
    if (std::abs(rounded - theta) <= tolerance * theta) return rounded;
  }
  return theta;
}

ModelProperties recognise(const ir::Graph& graph) {
  ModelProperties facts;
  Reader reader(facts);
  reader.read(graph, 1, nullptr);
  reader.read_head(graph);
  facts.layers = facts.fused.attentions;
  return facts;
}

}  // namespace llmc::passes
