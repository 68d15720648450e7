#include <algorithm>
#include <set>

#include "passes/fusions.h"
#include "passes/head_elements.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// Returns the values of rank 4 of which `value` may be a part (a view or its negation), earliest
/// first.
std::vector<ValueId> sources(const Rewriter& rw, ValueId value) {
  constexpr int kMaxSteps = 16;
  std::vector<ValueId> found;
  const auto lead = [&](ValueId v) {
    const auto& dims = rw.type(v).dims;
    return std::vector<ir::Dim>(dims.begin(),
                                dims.begin() + std::min<std::ptrdiff_t>(3, std::ssize(dims)));
  };
  for (int step = 0; step < kMaxSteps; ++step) {
    if (rw.type(value).rank() == 4 && is_f32(rw, value) &&
        last_dim(rw, value).value_or(INT64_MAX) <= HeadElementAnalysis::kMaxHeadDim)
      found.insert(found.begin(), value);
    const ir::Node* node = rw.producer(value);
    if (!node) break;
    const auto* un = std::get_if<ir::Unary>(&node->op);
    const bool moves =
        (ir::is_view(node->op) && !std::holds_alternative<ir::Transpose>(node->op)) ||
        (un && un->kind == ir::UnaryKind::kNeg);
    if (!moves || lead(node->inputs[0]) != lead(value)) break;
    value = node->inputs[0];
  }
  return found;
}

struct RopeMatch {
  ValueId x, y;
  Rotation rotation;
  bool heads_first = false;
};

/// Returns the first value computed from `x` that is a rotation of `x`.
std::optional<RopeMatch> follow(const Rewriter& rw, HeadElementAnalysis& elements, ValueId x) {
  if (rw.type(x).dims[0].constant() != 1) return std::nullopt;
  elements.start(x);
  std::set<NodeIndex> pending(rw.users(x).begin(), rw.users(x).end());
  constexpr int kMaxVisits = 256;
  for (int visits = 0; !pending.empty() && visits < kMaxVisits; ++visits) {
    const NodeIndex i = *pending.begin();
    pending.erase(pending.begin());
    const ir::Node& node = rw.node(i);
    if (i >= rw.size() || !rw.alive(i) || !elements.visit(node)) continue;
    for (ValueId y : node.outputs) {
      const HeadElements* made = elements.elements_of(y);
      if (made && made->shape.size() == 1 && rw.type(y) == rw.type(x)) {
        auto rotation = match_rotation(made->elements);
        if (rotation && elements.sequence_axis())
          return RopeMatch{x, y, std::move(*rotation), *elements.sequence_axis() == 2};
      }
      pending.insert(rw.users(y).begin(), rw.users(y).end());
    }
  }
  return std::nullopt;
}

/// Returns f32[rotary/2] frequencies, or the cos | sin table [max_positions, rotary]; nullptr if
/// the tables of cosines and sines differ in length.
ir::ConstantPtr angle_data(const Rotation& rotation) {
  const auto pairs = static_cast<std::int64_t>(rotation.cosines.size());
  if (rotation.cosines[0].kind == RopeFactor::Kind::kCos) {
    std::vector<float> frequencies;
    for (const RopeFactor& f : rotation.cosines)
      frequencies.push_back(static_cast<float>(f.frequency));
    return ir::make_f32({pairs}, std::move(frequencies));
  }
  const std::int64_t rows = rotation.cosines[0].table->dims()[0];
  std::vector<float> table(static_cast<std::size_t>(rows * 2 * pairs));
  std::map<ir::ConstantPtr, std::vector<float>> read;
  const auto column = [&](const RopeFactor& factor, std::int64_t to) {
    const std::int64_t n = factor.table->dims()[1];
    std::vector<float>& data = read[factor.table];
    if (data.empty()) {
      data.resize(static_cast<std::size_t>(rows * n));
      factor.table->read_rows(0, rows, data);
    }
    for (std::int64_t r = 0; r < rows; ++r)
      table[static_cast<std::size_t>(r * 2 * pairs + to)] =
          data[static_cast<std::size_t>(r * n + factor.column)];
  };
  for (std::int64_t p = 0; p < pairs; ++p) {
    const RopeFactor& cosine = rotation.cosines[static_cast<std::size_t>(p)];
    const RopeFactor& sine = rotation.sines[static_cast<std::size_t>(p)];
    if (cosine.table->dims()[0] != rows || sine.table->dims()[0] != rows) return nullptr;
    column(cosine, p);
    column(sine, pairs + p);
  }
  return ir::make_constant(ir::ElementType::kF32, {rows, 2 * pairs},
                           {reinterpret_cast<const std::byte*>(table.data()),
                            reinterpret_cast<const std::byte*>(table.data() + table.size())});
}

/// Returns the origin of the node that computes `factor`: a cosine, a sine or a table lookup.
ir::Origin factor_origin(const Rewriter& rw, ValueId factor) {
  constexpr int kMaxSteps = 32;
  ir::Origin origin = rw.origin(factor);
  for (int step = 0; step < kMaxSteps; ++step) {
    const ir::Node* node = rw.producer(factor);
    if (!node) break;
    origin = node->origin;
    const auto* function = std::get_if<ir::Unary>(&node->op);
    if (function &&
        (function->kind == ir::UnaryKind::kCos || function->kind == ir::UnaryKind::kSin))
      break;
    const auto above = std::ranges::find_if(
        node->inputs, [&](ValueId input) { return input.exists() && !rw.constant(input); });
    if (std::holds_alternative<ir::Gather>(node->op) || above == node->inputs.end()) break;
    factor = *above;
  }
  return origin;
}

/// The frequencies or the table of rotations that were rewritten, shared by layers with the same
/// factors.
struct Known {
  std::vector<RopeFactor> cosines, sines;
  ir::ConstantPtr data;
};

bool rewrite(Rewriter& rw, const RopeMatch& match, NodeIndex anchor, ir::Origin angles_origin,
             std::vector<Known>& known) {
  ir::ConstantPtr data;
  for (const Known& k : known)
    if (k.cosines == match.rotation.cosines && k.sines == match.rotation.sines) data = k.data;
  if (!data) {
    data = angle_data(match.rotation);
    if (!data) return false;
    known.push_back({match.rotation.cosines, match.rotation.sines, data});
  }
  ir::Rope rope;
  rope.rotary_dim = match.rotation.rotary_dim;
  rope.interleaved = match.rotation.interleaved;
  rope.table = match.rotation.cosines[0].kind == RopeFactor::Kind::kColumn;
  const ValueId positions = match.rotation.positions;
  if (rw.graph().value(positions).kind == ir::InputKind::kPositionAxes) {
    if (rope.table) return false;
    for (const RopeFactor& factor : match.rotation.cosines)
      rope.position_axes.push_back(factor.axis);
  }
  const ValueId angles = rw.emit_constant(data, anchor);
  rw.set_origin(angles, std::move(angles_origin));
  const std::vector<std::int64_t> swap{0, 2, 1, 3};
  const auto* above = rw.op<ir::Transpose>(match.x);
  if (match.heads_first && above && above->perm == swap) {
    const ValueId rows = rw.producer(match.x)->inputs[0];
    const ValueId turned = rw.emit(rope, {rows, positions, angles}, anchor);
    rw.replace(match.y, rw.emit(ir::Transpose{swap}, {turned}, anchor));
    return true;
  }
  rope.heads_first = match.heads_first;
  rw.replace(match.y, rw.emit(rope, {match.x, positions, angles}, anchor));
  return true;
}

Result<ir::Graph> fuse(ir::Graph graph) {
  Rewriter rw(std::move(graph));
  HeadElementAnalysis elements(rw);
  std::vector<Known> known;
  for (const NodeIndex i : rw.nodes<ir::Binary>()) {
    // Elements of x are multiplied by factors that depend on the token. Find the value of which the
    // elements are a part.
    for (const auto& [x, factor] : either_order(rw, rw.node(i).outputs[0], ir::BinaryKind::kMul)) {
      if (!rw.alive(i) || elements.factors(x) || !elements.factors(factor)) continue;
      for (ValueId source : sources(rw, x)) {
        const auto match = follow(rw, elements, source);
        const auto anchor = match ? rw.producer_index(match->y) : std::nullopt;
        if (anchor && rewrite(rw, *match, *anchor, factor_origin(rw, factor), known)) break;
      }
    }
  }
  return std::move(rw).finish();
}

/// Returns whether at least one rotation reads the elements of `positions`, the input of kind
/// kPositionAxes, and nothing else does. Other nodes may read its shape.
bool only_rotations_read(const ir::Graph& graph, ValueId positions) {
  std::set<ValueId> views{positions};
  const auto is_read = [&](const std::vector<ValueId>& values) {
    return std::ranges::any_of(values, [&](ValueId value) { return views.contains(value); });
  };
  bool rotated = false;
  for (const ir::Node& node : graph.nodes()) {
    if (!is_read(node.inputs) || std::holds_alternative<ir::Shape>(node.op)) continue;
    const auto* rope = std::get_if<ir::Rope>(&node.op);
    if (rope && !rope->position_axes.empty() && node.inputs[1] == positions) {
      rotated = true;
    } else if (ir::is_view(node.op)) {
      views.insert(node.outputs.begin(), node.outputs.end());
    } else {
      return false;
    }
  }
  return rotated && !is_read(graph.outputs());
}

/// Replaces the input `positions` i64[n, seq] by n copies of the positions of text.
Result<ir::Graph> with_text_positions(ir::Graph graph, ValueId positions) {
  Rewriter rw(std::move(graph));
  const ir::TensorType type = rw.type(positions);
  ValueId text = rw.graph().input(ir::InputKind::kPositions);
  if (!text.exists())
    text = rw.add_input(
        {"position_ids", {type.element, {1, type.dims[1]}}, ir::InputKind::kPositions});
  const auto axes = static_cast<std::size_t>(*type.dims[0].constant());
  rw.replace(positions, rw.emit(ir::Concat{0}, std::vector<ValueId>(axes, text), 0));
  rw.drop_input_if_unused(positions);
  return std::move(rw).finish();
}

}  // namespace

Result<ir::Graph> fuse_rope(ir::Graph graph, const PassContext&) {
  const ValueId positions = graph.input(ir::InputKind::kPositionAxes);
  const auto& dims = positions.exists() ? graph.value(positions).type.dims : std::vector<ir::Dim>();
  if (dims.size() != 2 || !dims[0].is_constant()) return fuse(std::move(graph));
  LLMC_TRY(ir::Graph fused, fuse(ir::Graph(graph)));
  if (only_rotations_read(fused, fused.input(ir::InputKind::kPositionAxes))) return fused;
  LLMC_TRY(graph, with_text_positions(std::move(graph), positions));
  return fuse(std::move(graph));
}

}  // namespace llmc::passes
