// Attention and RotaryEmbedding of ONNX's own domain, converted to the simple operators that fusion
// matches: one Mul for the scale, softcap, bias or Where, Softmax, MatMul.

#include <cmath>
#include <limits>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::UnaryKind;
using ir::ValueId;

/// The stage of the computation whose scores are output 3.
enum class ScoresStage : std::uint8_t { kRaw, kBiased, kCapped, kSoftmax };

struct AttentionNode {
  ValueId q, k, v;  // [B, heads, S, D], [B, kv_heads, T, D], [B, kv_heads, T, Dv], past included
  ValueId past_tokens;  // i64[1], or absent
  bool causal = false;
  double scale = 1, softcap = 0;
  ScoresStage returned_scores = ScoresStage::kRaw;
};

/// Returns x [B, S, heads * D] as [B, heads, S, D]. Returns a value of rank 4 unchanged.
ValueId heads_first(NodeContext& n, ValueId x, const char* attribute) {
  const std::int64_t heads = n.integer(attribute, 0);
  if (n.failed()) return ir::kNoValue;
  if (n.rank(x) == 4) {
    if (const auto given = known_dim(n, x, 1); heads > 0 && given && *given != heads)
      n.bad("has " + std::to_string(*given) + " heads, but attribute '" + attribute + "' is " +
            std::to_string(heads));
    return x;
  }
  const auto width = last_dim(n, x);
  if (n.failed()) return ir::kNoValue;
  if (n.rank(x) != 3 || heads < 1 || heads > kMaxHeads || (width && *width % heads != 0))
    return n.bad("operand " + ir::to_string(n.type(x)) + " does not divide into " +
                 std::to_string(heads) + " heads (" + attribute + ")"),
           ir::kNoValue;
  const std::int64_t size = width ? *width / heads : -1;
  return n.make(ir::Transpose{kSwapHeadsAndTokens}, {reshaped(n, x, {0, 0, heads, size})});
}

/// Returns the mask, operand 3, with one column per key; missing columns are masked.
ValueId full_mask(NodeContext& n, ValueId mask, ValueId k) {
  const auto columns = last_dim(n, mask), keys = known_dim(n, k, 2);
  if (n.failed() || !columns || !keys || *columns == 1 || *columns >= *keys) return mask;
  std::vector<std::int64_t> pads(static_cast<std::size_t>(2 * n.rank(mask)), 0);
  pads.back() = *keys - *columns;
  const bool is_bool = n.type(mask).element == ElementType::kBool;
  const ValueId hidden =
      n.make_scalar(is_bool ? 0 : -std::numeric_limits<double>::infinity(), mask);
  return n.make(ir::Pad{}, {mask, n.make_integers(std::move(pads)), hidden});
}

/// Returns a bool mask, broadcast to the scores: query i attends to key j if j <= i + number of
/// past tokens.
ValueId causal_mask(NodeContext& n, const AttentionNode& a) {
  const ValueId keys = positions(n, a.k, 2);
  ValueId queries = positions_along(n, a.q, 2);  // [S, 1]
  if (n.failed()) return ir::kNoValue;
  queries = reshaped(n, queries, {-1, 1});
  if (a.past_tokens.exists()) {
    queries = binary(n, BinaryKind::kAdd, queries, a.past_tokens);
  } else if (n.has(6)) {
    // The new tokens are the last valid tokens of each sequence.
    const ValueId valid = reshaped(n, n.cast(n.in(6), ElementType::kI64), {-1, 1, 1, 1});
    const ValueId before = binary(n, BinaryKind::kSub, valid, dim_of(n, a.q, 2));
    queries = binary(n, BinaryKind::kAdd, queries, before);
  }
  return binary(n, BinaryKind::kLessOrEqual, keys, queries);
}

/// Returns the conjunction of all boolean masks; kNoValue if there is none.
ValueId visible_keys(NodeContext& n, const AttentionNode& a, ValueId bool_mask) {
  ValueId visible = bool_mask;
  const auto also = [&](ValueId mask) {
    visible = visible.exists() ? binary(n, BinaryKind::kAnd, visible, mask) : mask;
  };
  if (a.causal) also(causal_mask(n, a));
  if (n.has(6)) {
    const ValueId valid = reshaped(n, n.cast(n.in(6), ElementType::kI64), {-1, 1, 1, 1});
    also(binary(n, BinaryKind::kLess, positions(n, a.k, 2), valid));
  }
  return visible;
}

/// Computes outputs 0 and 3 from the scores. A float mask is added before the softcap, as ONNX 1.20
/// specifies; boolean masks, the causal mask and padding apply after it, because softcap(-inf) is
/// finite.
ValueId attend(NodeContext& n, const AttentionNode& a) {
  const auto heads = known_dim(n, a.q, 1), kv_heads = known_dim(n, a.k, 1);
  if (n.failed()) return ir::kNoValue;
  if (!heads || !kv_heads)
    return n.unsupported("an unknown number of heads is not supported"), ir::kNoValue;
  if (*kv_heads < 1 || *heads % *kv_heads != 0)
    return n.bad("the number of query heads is not a multiple of the number of key heads"),
           ir::kNoValue;
  const ValueId k = repeated_heads(n, a.k, *heads / *kv_heads);
  const ValueId v = repeated_heads(n, a.v, *heads / *kv_heads);
  ValueId scores = n.make(ir::MatMul{}, {a.q, n.make(ir::Transpose{{0, 1, 3, 2}}, {k})});
  scores = with_scalar(n, BinaryKind::kMul, scores, a.scale);
  const auto show = [&](ScoresStage when, ValueId value) {
    if (a.returned_scores == when) n.bind(3, value);
  };
  show(ScoresStage::kRaw, scores);
  ValueId bias, bool_mask;
  if (n.has(3)) {
    const ValueId mask = full_mask(n, n.in(3), a.k);
    if (n.failed()) return ir::kNoValue;
    (n.type(mask).element == ElementType::kBool ? bool_mask : bias) = mask;
  }
  const ValueId visible = visible_keys(n, a, bool_mask);
  const auto masked = [&](ValueId x) {
    const double hidden = -std::numeric_limits<double>::infinity();
    return visible.exists() ? n.make(ir::Where{}, {visible, x, n.make_scalar(hidden, x)}) : x;
  };
  if (bias.exists()) scores = binary(n, BinaryKind::kAdd, scores, bias);
  if (a.returned_scores == ScoresStage::kBiased) show(ScoresStage::kBiased, masked(scores));
  if (a.softcap != 0) {
    const ValueId small =
        unary(n, UnaryKind::kTanh, with_scalar(n, BinaryKind::kDiv, scores, a.softcap));
    scores = with_scalar(n, BinaryKind::kMul, small, a.softcap);
  }
  scores = masked(scores);
  show(ScoresStage::kCapped, scores);
  const ValueId weights = n.make(ir::Softmax{-1}, {scores});
  show(ScoresStage::kSoftmax, weights);
  return n.make(ir::MatMul{}, {weights, v});
}

/// ONNX Attention-23 and -24. Operands: q, k, v, mask?, past key?, past value?, valid keys?.
/// Outputs: y, present key, present value, scores.
void convert_attention(NodeContext& n) {
  AttentionNode a;
  n.ignore("softmax_precision");  // at least f32
  const bool by_token = n.rank(n.in(0)) == 3;
  a.q = heads_first(n, n.in(0), "q_num_heads");
  const ValueId k = heads_first(n, n.in(1), "kv_num_heads");
  const ValueId v = heads_first(n, n.in(2), "kv_num_heads");
  if (n.failed()) return;
  if (n.rank(a.q) != 4 || n.rank(k) != 4 || n.rank(v) != 4)
    return n.bad("query, key and value must have three or four dims");
  if (n.has(4) != n.has(5)) return n.bad("has a past key without a past value, or the reverse");
  if (n.has(6) && n.has(4)) return n.bad("has both a past and a number of valid keys");
  a.k = with_past(n, 4, k, 1);
  a.v = with_past(n, 5, v, 2);
  if (n.has(4)) a.past_tokens = dim_of(n, n.in(4), 2);
  a.causal = n.integer("is_causal", 0) != 0;
  a.softcap = n.number("softcap", 0);
  const std::int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) return n.bad("qk_matmul_output_mode is not between 0 and 3");
  a.returned_scores = static_cast<ScoresStage>(mode);
  if (n.has_attribute("scale")) {
    a.scale = n.number("scale", 1);
  } else {
    const auto size = last_dim(n, a.q);
    if (n.failed()) return;
    if (!size || *size < 1)
      return n.unsupported("a head of unknown size needs the attribute 'scale'");
    a.scale = 1 / std::sqrt(static_cast<double>(*size));
  }
  ValueId y = attend(n, a);
  if (by_token) y = reshaped(n, n.make(ir::Transpose{kSwapHeadsAndTokens}, {y}), {0, 0, -1});
  n.bind(0, y);
}

/// ONNX RotaryEmbedding-23. x is [B, S, heads * D] or [B, heads, S, D]. cos and sin are [max, r]
/// with positions [B, S], or [B, S, r] without positions; r is half the number of rotated elements.
void convert_rotary_embedding(NodeContext& n) {
  const ValueId x = n.in(0);
  ValueId cosine = n.in(1), sine = n.in(2);
  const std::int64_t heads = n.integer("num_heads", 0), rank = n.rank(x);
  const std::int64_t given = n.integer("rotary_embedding_dim", 0);
  const bool interleaved = n.integer("interleaved", 0) != 0;
  const auto half = last_dim(n, cosine);
  if (n.failed()) return;
  if (!half || *half < 1 || *half > INT32_MAX)
    return n.unsupported("a cache of unknown width is not supported");
  if (given != 0 && given != 2 * *half)
    return n.bad("rotary_embedding_dim is not twice the width of the caches");
  if (rank != 3 && rank != 4) return n.bad("the operand has neither three nor four dims");
  if (n.has(3)) {
    cosine = n.make(ir::Gather{0}, {cosine, n.in(3)});
    sine = n.make(ir::Gather{0}, {sine, n.in(3)});
  }
  ValueId rows = x;
  if (rank == 3) {  // use [B, S, heads, D], without a transpose
    const auto width = last_dim(n, x);
    if (heads < 1 || heads > kMaxHeads || !width || *width % heads != 0)
      return n.bad("the width of the operand is not a multiple of num_heads");
    rows = reshaped(n, x, {0, 0, heads, *width / heads});
  }
  const auto head_dim = last_dim(n, rows);
  if (n.failed()) return;
  if (!head_dim) return n.unsupported("a head of unknown size is not supported");
  if (2 * *half > *head_dim) return n.bad("the caches are wider than a head");
  const std::int64_t heads_axis = rank == 3 ? 2 : 1;
  const ValueId turned = rotated(n, rows, unsqueezed(n, cosine, {heads_axis}),
                                 unsqueezed(n, sine, {heads_axis}), 2 * *half, interleaved);
  n.bind(0, rank == 3 ? reshaped(n, turned, {0, 0, heads * *head_dim}) : turned);
}

}  // namespace

std::vector<OperatorRule> attention_rules() {
  return {
      onnx_rule("Attention", 23, {3, 7}, convert_attention,
                {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale",
                 "softcap", "softmax_precision"}),
      onnx_rule("RotaryEmbedding", 23, {3, 4}, convert_rotary_embedding,
                {"interleaved", "num_heads", "rotary_embedding_dim"}),
  };
}

}  // namespace llmc::importer
