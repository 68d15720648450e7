// Attention operators of onnxruntime's domain com.microsoft.

#include <cmath>

#include "compiler/onnx/contrib_attention.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::Dim;
using ir::ElementType;
using ir::UnaryKind;
using ir::ValueId;

/// Returns the size of dim `axis` as an i64 scalar.
ValueId size_of(NodeContext& n, ValueId x, std::int64_t axis) {
  return n.make(ir::Squeeze{{0}}, {n.make(ir::Shape{axis, axis + 1}, {x})});
}

/// Returns 0, 1, …, size - 1.
ValueId count_to(NodeContext& n, ValueId size) {
  const ValueId zero = n.make_constant(ir::make_i64({}, {0}));
  const ValueId one = n.make_constant(ir::make_i64({}, {1}));
  return n.make(ir::Range{}, {zero, size, one});
}

}  // namespace

ValueId attend_core(NodeContext& n, const AttentionCore& core) {
  const ValueId k = repeated_heads(n, core.k, core.heads / core.kv_heads);
  const ValueId v = repeated_heads(n, core.v, core.heads / core.kv_heads);
  const ValueId turned = n.make(ir::Transpose{{0, 1, 3, 2}}, {k});
  ValueId scores = n.make(ir::MatMul{}, {core.q, turned});
  scores = binary(n, BinaryKind::kMul, scores, n.make_scalar(core.scale, scores));
  if (core.softcap > 0) {
    const ValueId cap = n.make_scalar(core.softcap, scores);
    const ValueId small =
        n.make(ir::Unary{UnaryKind::kTanh}, {binary(n, BinaryKind::kDiv, scores, cap)});
    scores = binary(n, BinaryKind::kMul, small, cap);
  }
  if (core.bias.exists()) scores = binary(n, BinaryKind::kAdd, scores, core.bias);
  ValueId visible = core.visible;
  if (core.causal) {
    const ValueId total = size_of(n, core.k, 2), count = size_of(n, core.q, 2);
    const ValueId past = binary(n, BinaryKind::kSub, total, count);
    const ValueId keys = count_to(n, total);
    const ValueId queries =
        unsqueezed(n, binary(n, BinaryKind::kAdd, count_to(n, count), past), {1});
    ValueId seen = binary(n, BinaryKind::kLessOrEqual, keys, queries);
    if (core.window > 0) {
      const ValueId first = binary(n, BinaryKind::kSub, queries,
                                   n.make_scalar(static_cast<double>(core.window), queries));
      seen = binary(n, BinaryKind::kAnd, seen, binary(n, BinaryKind::kGreater, keys, first));
    }
    visible = visible.exists() ? binary(n, BinaryKind::kAnd, visible, seen) : seen;
  }
  if (visible.exists())
    scores = n.make(ir::Where{}, {visible, scores, n.make_scalar(core.hidden, scores)});
  const ValueId weights = n.make(ir::Softmax{-1}, {scores});
  const ValueId out = n.make(ir::MatMul{}, {weights, v});
  return reshaped(n, n.make(ir::Transpose{kSwapHeadsAndTokens}, {out}),
                  {0, 0, core.heads * core.value_dim});
}

ValueId by_head(NodeContext& n, ValueId x, std::int64_t heads) {
  const auto width = last_dim(n, x);
  if (n.failed()) return ir::kNoValue;
  if (n.rank(x) != 3 || !width || heads < 1 || *width % heads != 0)
    return n.bad("the width of an operand is not a multiple of the number of heads"), ir::kNoValue;
  return reshaped(n, x, {0, 0, heads, *width / heads});
}

namespace {

/// Returns the rows of a table [max, n] at positions i64[B, S], as [B, S, 1, n].
ValueId rows_at(NodeContext& n, ValueId table, ValueId positions) {
  return unsqueezed(n, n.make(ir::Gather{0}, {table, positions}), {2});
}

/// RotaryEmbedding of x [B, S, heads * D] or [B, heads, S, D], with positions [B, S] or one offset.
void convert_contrib_rotary_embedding(NodeContext& n) {
  const ValueId x = n.in(0), cos = n.in(2), sin = n.in(3);
  ValueId positions = n.cast(n.in(1), ElementType::kI64);
  const std::int64_t heads = n.integer("num_heads", 0);
  const std::int64_t given = n.integer("rotary_embedding_dim", 0);
  const bool interleaved = n.integer("interleaved", 0) != 0;
  if (n.integer("is_packed_batching", 0) != 0)
    return n.unsupported("packed batches are not supported");
  if (n.number("scale", 1) != 1) return n.unsupported("scale other than 1 is not supported");
  const auto half = last_dim(n, cos);
  const auto width = last_dim(n, x);
  const std::int64_t rank = n.rank(x);
  if (n.failed()) return;
  if (!half || !width || *half < 1 || *half > kMaxHeads || (rank != 3 && rank != 4))
    return n.unsupported("operands of these types are not supported");
  const std::int64_t rotary = given > 0 ? given : 2 * *half;
  if (rotary != 2 * *half)
    return n.bad("rotary_embedding_dim is not twice the width of the caches");
  ValueId rows = x;  // [B, S, heads, D]
  if (rank == 4) {
    rows = n.make(ir::Transpose{kSwapHeadsAndTokens}, {x});
  } else {
    if (given > 0 && heads < 1) return n.bad("num_heads is missing");
    const std::int64_t count = heads > 0 ? heads : *width / rotary;
    if (count < 1 || *width % count != 0)
      return n.bad("the width is not a multiple of the number of heads");
    rows = reshaped(n, x, {0, 0, count, *width / count});
  }
  if (n.rank(positions) < 2)
    positions = unsqueezed(
        n, binary(n, BinaryKind::kAdd, count_to(n, size_of(n, rows, 1)), positions), {0});
  const auto head_dim = last_dim(n, rows);
  if (n.failed()) return;
  if (!head_dim || rotary > *head_dim) return n.bad("the caches are wider than a head");
  const ValueId turned =
      rotated(n, rows, rows_at(n, cos, positions), rows_at(n, sin, positions), rotary, interleaved);
  n.bind(0, rank == 4 ? n.make(ir::Transpose{kSwapHeadsAndTokens}, {turned})
                      : reshaped(n, turned, {0, 0, *width}));
}

bool is_single_sequence(NodeContext& n, ValueId x) {
  if (n.failed()) return false;
  if (n.rank(x) > 0 && n.type(x).dims[0] == Dim(1)) return true;
  n.unsupported("more than one sequence at a time is not supported");
  return false;
}

/// GroupQueryAttention, which is causal. q, k and v are separate, or packed in operand 0. Operands
/// 3 and 4 are the cache. Operand 5, the number of valid tokens minus 1, determines the positions.
void convert_group_query_attention(NodeContext& n) {
  AttentionCore core;
  core.heads = n.integer("num_heads", 0);
  core.kv_heads = n.integer("kv_num_heads", 0);
  const bool rotary = n.integer("do_rotary", 0) != 0;
  const bool interleaved = n.integer("rotary_interleaved", 0) != 0;
  const std::int64_t window = n.integer("local_window_size", -1);
  core.softcap = n.number("softcap", 0);
  if (n.integer("smooth_softmax", 0) > 0 || n.has(11))
    return n.unsupported("smooth softmax and attention sinks are not supported");
  if (n.integer("qk_output", 0) != 0) return n.unsupported("qk_output is not supported");
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (n.text(name, "NONE") != "NONE") return n.unsupported("a quantized cache is not supported");
  if (n.integer("kv_cache_bit_width", 0) != 0 || n.has(12) || n.has(13))
    return n.unsupported("a quantized cache is not supported");
  // The lengths follow from the operands. Only the rotation uses cos, sin and positions.
  n.ignore_operand(5);
  n.ignore_operand(6);
  if (!rotary)
    for (const std::size_t i : {7, 8, 9}) n.ignore_operand(i);
  const ValueId query = n.in(0);
  if (!is_single_sequence(n, query)) return;
  if (core.heads < 1 || core.heads > kMaxHeads || core.kv_heads < 1 ||
      core.heads % core.kv_heads != 0)
    return n.bad("num_heads is not a multiple of kv_num_heads");
  const auto width = last_dim(n, query);
  if (!width) return n.unsupported("a query of unknown width is not supported");
  const std::int64_t parts = n.has(1) ? core.heads : core.heads + 2 * core.kv_heads;
  if (*width % parts != 0) return n.bad("the width of the query does not fit the heads");
  core.head_dim = core.value_dim = *width / parts;
  ValueId q = query, k = n.optional_in(1), v = n.optional_in(2);
  if (!n.has(1)) {
    const std::int64_t a = core.heads * core.head_dim, b = core.kv_heads * core.head_dim;
    q = last_dim_part(n, query, 0, a);
    k = last_dim_part(n, query, a, a + b);
    v = last_dim_part(n, query, a + b, a + 2 * b);
  } else if (!n.has(2)) {
    return n.bad("has a key but no value");
  }
  q = by_head(n, q, core.heads);
  k = by_head(n, k, core.kv_heads);
  v = by_head(n, v, core.kv_heads);
  if (rotary) {
    const ValueId cos = n.in(7), sin = n.in(8);
    const auto half = last_dim(n, cos);
    if (n.failed()) return;
    if (!half || *half < 1 || 2 * *half > core.head_dim)
      return n.bad("the caches of cosines are wider than a head");
    ValueId positions;
    if (n.has(9)) {
      positions = n.cast(n.in(9), ElementType::kI64);
    } else {
      // The last valid token is the last query.
      const ValueId last = reshaped(n, n.cast(n.in(5), ElementType::kI64), {-1, 1});
      const ValueId count = size_of(n, query, 1);
      const ValueId first = binary(
          n, BinaryKind::kSub, binary(n, BinaryKind::kAdd, last, n.make_scalar(1, last)), count);
      positions = binary(n, BinaryKind::kAdd, first, count_to(n, count));
    }
    const ValueId c = rows_at(n, cos, positions), s = rows_at(n, sin, positions);
    q = rotated(n, q, c, s, 2 * *half, interleaved);
    k = rotated(n, k, c, s, 2 * *half, interleaved);
  }
  core.q = n.make(ir::Transpose{kSwapHeadsAndTokens}, {q});
  core.k = with_past(n, 3, n.make(ir::Transpose{kSwapHeadsAndTokens}, {k}), 1);
  core.v = with_past(n, 4, n.make(ir::Transpose{kSwapHeadsAndTokens}, {v}), 2);
  const float scale = n.number("scale", 0);
  core.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(core.head_dim));
  core.causal = true;
  if (window == 0 || window > INT32_MAX)
    return n.unsupported("this local_window_size is not supported");
  if (window > 0) core.window = window + 1;
  core.bias = n.optional_in(10);
  n.bind(0, attend_core(n, core));
  if (n.wants(3)) n.unsupported("output 3 is not supported");
}

/// MultiHeadAttention: q [B, S, N D]; k and v [B, L, N D] or [B, N, L, D]. Operand 3 is the bias of
/// q, k and v, 4 the padding mask [B, L], 5 the bias of the scores, 6 and 7 the cache.
void convert_multi_head_attention(NodeContext& n) {
  AttentionCore core;
  core.heads = core.kv_heads = n.integer("num_heads", 0);
  core.causal = n.integer("unidirectional", 0) != 0;
  core.hidden = n.number("mask_filter_value", -10000);
  if (n.has(8) || n.has(9)) return n.unsupported("a shared cache buffer is not supported");
  if (core.heads < 1 || core.heads > kMaxHeads) return n.bad("num_heads is missing");
  if (!n.has(1) || !n.has(2))
    return n.unsupported("query, key and value packed in one operand are not supported");
  const ValueId query = n.in(0);
  const auto width = last_dim(n, query);
  if (n.failed()) return;
  if (n.rank(query) != 3 || !width || *width % core.heads != 0)
    return n.unsupported("operands of these types are not supported");
  core.head_dim = *width / core.heads;
  const ValueId bias = n.optional_in(3);
  std::int64_t bias_at = 0;
  const auto prepare = [&](std::size_t i) {
    ValueId x = n.in(i);
    if (n.failed()) return x;
    if (n.rank(x) == 4) return x;
    const auto columns = last_dim(n, x);
    if (bias.exists() && columns) {
      x = binary(n, BinaryKind::kAdd, x, last_dim_part(n, bias, bias_at, bias_at + *columns));
      bias_at += *columns;
    }
    return n.make(ir::Transpose{kSwapHeadsAndTokens}, {by_head(n, x, core.heads)});
  };
  core.q = prepare(0);
  const ValueId k = prepare(1), v = prepare(2);
  if (n.failed()) return;
  core.value_dim = last_dim(n, v).value_or(0);
  if (core.value_dim < 1) return n.unsupported("values of unknown width are not supported");
  core.k = with_past(n, 6, k, 1);
  core.v = with_past(n, 7, v, 2);
  if (n.has(4)) {
    const ValueId mask = n.in(4);
    if (n.failed()) return;
    if (n.rank(mask) != 2)
      return n.unsupported("a padding mask that is not [batch, keys] is not supported");
    core.visible = unsqueezed(n, n.cast(mask, ElementType::kBool), {1, 2});
  }
  core.bias = n.optional_in(5);
  const float scale = n.number("scale", 0);
  core.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(core.head_dim));
  n.bind(0, attend_core(n, core));
  if (n.wants(3)) n.unsupported("output 3 is not supported");
}

}  // namespace

std::vector<OperatorRule> contrib_attention_rules() {
  return {
      contrib_rule(
          "RotaryEmbedding", 4, convert_contrib_rotary_embedding,
          {"interleaved", "num_heads", "rotary_embedding_dim", "scale", "is_packed_batching"}),
      contrib_rule("GroupQueryAttention", {7, 14}, convert_group_query_attention,
                   {"num_heads", "kv_num_heads", "scale", "softcap", "do_rotary",
                    "rotary_interleaved", "local_window_size", "smooth_softmax", "qk_output",
                    "k_quant_type", "v_quant_type", "kv_cache_bit_width"}),
      contrib_rule("MultiHeadAttention", {1, 10}, convert_multi_head_attention,
                   {"num_heads", "mask_filter_value", "scale", "unidirectional"}),
  };
}

}  // namespace llmc::importer
