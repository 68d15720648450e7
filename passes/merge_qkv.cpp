#include <array>

#include "passes/fusions.h"
#include "passes/match.h"
#include "passes/op_key.h"
#include "passes/product_weights.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// The nodes of q, k or v from the projection to the attention.
struct Path {
  PlainLinear layer;
  ir::Origin origin;  // origin of the projection
  std::optional<ir::Rope> rope;
  ValueId positions, angles;
  std::optional<float> norm_epsilon;  // set if there is a norm of each head
  ValueId norm_weight;
};

std::optional<Path> match_path(const Rewriter& rw, ValueId value, std::int64_t heads,
                               std::int64_t head_dim) {
  Path path;
  if (rw.use_count(value) != 1) return std::nullopt;
  if (const auto* rope = rw.op<ir::Rope>(value)) {
    if (rope->heads_first) return std::nullopt;
    const auto& inputs = rw.producer(value)->inputs;
    path.rope = *rope;
    path.positions = inputs[1];
    path.angles = inputs[2];
    value = inputs[0];
    if (rw.use_count(value) != 1) return std::nullopt;
  }
  if (const auto* norm = rw.op<ir::RmsNorm>(value)) {
    const auto& inputs = rw.producer(value)->inputs;
    if (!rw.constant(inputs[1])) return std::nullopt;
    path.norm_epsilon = norm->epsilon;
    path.norm_weight = inputs[1];
    value = inputs[0];
    if (rw.use_count(value) != 1) return std::nullopt;
  }
  const auto& dims = rw.type(value).dims;
  if (dims.size() != 4 || dims[0] != ir::Dim(1) || dims[2] != ir::Dim(heads) ||
      dims[3] != ir::Dim(head_dim))
    return std::nullopt;
  const ir::Dim tokens = dims[1];
  while (!rw.op<ir::Linear>(value)) {
    const ir::Node* view = rw.producer(value);
    if (!view || strip_views(rw, value) == value) return std::nullopt;
    value = view->inputs[0];
    if (rw.use_count(value) != 1) return std::nullopt;
  }
  // The rows of the product must be the tokens in order; then its columns are the heads.
  ir::Dim rows(1);
  const auto& product_dims = rw.type(value).dims;
  for (std::size_t i = 0; i + 1 < product_dims.size(); ++i) {
    const auto next = ir::mul(rows, product_dims[i]);
    if (!next) return std::nullopt;
    rows = *next;
  }
  if (rows != tokens || product_dims.back() != ir::Dim(heads * head_dim)) return std::nullopt;
  auto layer = match_plain_linear(rw, value);
  if (!layer) return std::nullopt;
  path.layer = *std::move(layer);
  path.origin = rw.origin(value);
  return path;
}

bool same_rotation(const Rewriter& rw, const Path& a, const Path& b) {
  if (a.rope.has_value() != b.rope.has_value()) return false;
  if (!a.rope) return true;
  return op_key(ir::Op(*a.rope)) == op_key(ir::Op(*b.rope)) && a.positions == b.positions &&
         (a.angles == b.angles || same_data(rw.constant(a.angles), rw.constant(b.angles)));
}

}  // namespace

Result<ir::Graph> merge_qkv(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::Attention>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const auto& attention = std::get<ir::Attention>(rw.node(i).op);
    const std::vector<ValueId> inputs = rw.node(i).inputs;
    const auto q = match_path(rw, inputs[0], attention.heads, attention.head_dim);
    const auto k = match_path(rw, inputs[1], attention.kv_heads, attention.head_dim);
    const auto v = match_path(rw, inputs[2], attention.kv_heads, attention.head_dim);
    if (!q || !k || !v || v->rope || !same_rotation(rw, *q, *k)) return;
    if (v->norm_epsilon || q->norm_epsilon != k->norm_epsilon) return;
    const std::array layers{q->layer, k->layer, v->layer};
    if (!can_be_stacked(layers)) return;
    ir::QkvProjection op;
    op.heads = attention.heads;
    op.kv_heads = attention.kv_heads;
    op.head_dim = attention.head_dim;
    op.rope = q->rope;
    std::vector<ValueId> operands = emit_stacked(rw, layers, i);
    operands.resize(9, ir::kNoValue);
    if (q->rope) {
      operands[4] = q->positions;
      operands[5] = q->angles;
    }
    if (q->norm_epsilon) {
      op.qk_norm_epsilon = q->norm_epsilon;
      operands[7] = q->norm_weight;
      operands[8] = k->norm_weight;
    }
    while (!operands.back().exists()) operands.pop_back();
    const auto outputs = rw.emit_all(op, std::move(operands), i);
    rw.set_origin(outputs[0], q->origin);
    for (std::size_t s = 0; s < 3; ++s) rw.replace(inputs[s], outputs[s]);
  });
}

}  // namespace llmc::passes
