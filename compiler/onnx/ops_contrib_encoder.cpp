// Operators of com.microsoft that onnxruntime's optimizer creates in encoders, and their quantized
// forms: embeddings with a layer norm, and attention with the projection of its operands.

#include <cmath>

#include "compiler/onnx/codes.h"
#include "compiler/onnx/contrib_attention.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::Dim;
using ir::ElementType;
using ir::ValueId;

/// The operands of an embedding with a layer norm, dequantized.
struct Embedding {
  ValueId words, positions, segments, scale, bias;  // segments may be missing
  std::size_t position_ids = kNoOperand;
};

/// Layer norm of the sum of rows of words, positions and segments. Operands: token ids, segment
/// ids?, the tables and parameters of `e`, mask?. Outputs: y, the number of unmasked tokens (0
/// without a mask), the sum.
void embed(NodeContext& n, const Embedding& e) {
  const ValueId ids = n.in(0);
  n.ignore("mask_index_type");  // output 1 is always the number of tokens
  if (n.failed()) return;
  if (n.rank(ids) != 2) return n.bad("its token ids are not [batch, tokens]");
  const ValueId at = n.has(e.position_ids) ? n.in(e.position_ids) : positions(n, ids, 1);
  ValueId sum = binary(n, BinaryKind::kAdd, n.make(ir::Gather{0}, {e.words, ids}),
                       n.make(ir::Gather{0}, {e.positions, at}));
  if (n.has(1) != e.segments.exists())
    return n.bad("has segment ids without their table, or the reverse");
  if (n.has(1))
    sum = binary(n, BinaryKind::kAdd, sum, n.make(ir::Gather{0}, {e.segments, n.in(1)}));
  n.bind(0, n.make(ir::LayerNorm{n.number("epsilon", 1e-12f)}, {sum, e.scale, e.bias}));
  n.bind(2, sum);
  const ValueId mask = n.has(7) ? n.cast(n.in(7), ElementType::kI32) : ir::kNoValue;
  if (!n.wants(1)) return;
  const ValueId shown =
      mask.exists() ? with_scalar(n, BinaryKind::kEqual, mask, 1)
                    : n.make(ir::ConstantOfShape{ir::make_splat(ElementType::kBool, {1}, 0)},
                             {shape_of(n, ids)});
  n.bind(1, reduce(n, ir::ReduceKind::kSum, n.cast(shown, ElementType::kI32), {1}, false));
}

void convert_embed_layer_norm(NodeContext& n) {
  embed(n, {.words = n.in(2),
            .positions = n.in(3),
            .segments = n.optional_in(4),
            .scale = n.in(5),
            .bias = n.in(6),
            .position_ids = 8});
}

/// The same with codes: operands 8 to 12 are the scales of operands 2 to 6, and 13 to 17 the zero
/// points.
void convert_quantized_embed_layer_norm(NodeContext& n) {
  const auto operand = [&](std::size_t i) {
    return dequantized(n, {.codes = i, .scale = i + 6, .zero = i + 11});
  };
  Embedding e{.words = operand(2),
              .positions = operand(3),
              .segments = {},
              .scale = operand(5),
              .bias = operand(6)};
  if (n.has(4)) e.segments = operand(4);
  for (const std::size_t i : {10, 15}) n.ignore_operand(i);
  embed(n, e);
}

/// Operands of attention whose queries, keys and values are computed in one product.
struct ProjectedAttention {
  ValueId qkv;  // [B, S, columns of queries, then of keys, then of values]
  std::size_t mask = kNoOperand, past = kNoOperand, bias = kNoOperand;
};

/// Returns the term that a mask adds to the scores [B, heads, S, T]: 0, or `filter` for masked
/// keys. A mask [B, T] or [B, S, T] is positive for keys that are not masked. A mask [B] has the
/// end of each sequence's keys, and a mask [2 B] has the ends, then the starts.
ValueId mask_term(NodeContext& n, ValueId mask, ValueId keys, double filter) {
  const std::int64_t rank = n.rank(mask);
  if (n.failed()) return ir::kNoValue;
  ValueId shown;
  if (rank == 2 || rank == 3) {
    shown = with_scalar(n, BinaryKind::kGreater, n.cast(mask, ElementType::kI32), 0);
    shown = unsqueezed(n, shown, rank == 2 ? axis_range(1, 3) : axis_range(1, 2));
  } else if (rank == 1) {
    const Dim count = n.type(mask).dims[0], batch = n.type(keys).dims[0];
    const bool both = batch.constant() && count == Dim(2 * *batch.constant());
    if (count != batch && !both)
      return n.unsupported(
                 "a mask of one dim that is neither [batch] nor [2 * batch] is not "
                 "supported"),
             ir::kNoValue;
    const ValueId each = reshaped(n, n.cast(mask, ElementType::kI64), {-1, 1, 1, 1});
    const ValueId at = positions(n, keys, 2);
    const auto part = [&](std::int64_t begin) {
      return both ? n.make(ir::Slice{}, {each, n.make_integers({begin * *batch.constant()}),
                                         n.make_integers({(begin + 1) * *batch.constant()}),
                                         n.make_integers({0})})
                  : each;
    };
    shown = binary(n, BinaryKind::kLess, at, part(0));
    if (both)
      shown =
          binary(n, BinaryKind::kAnd, shown, binary(n, BinaryKind::kGreaterOrEqual, at, part(1)));
  } else {
    return n.unsupported("a mask of rank " + std::to_string(rank) + " is not supported"),
           ir::kNoValue;
  }
  const ValueId like = n.make_constant(ir::make_splat(ElementType::kF32, {}, 0));
  return n.make(ir::Where{}, {shown, like, n.make_scalar(filter, like)});
}

/// Binds output 0, softmax(scale q k^T + masks) v, and output 1, the cache [2, B, heads, T, D].
void attend_projected(NodeContext& n, const ProjectedAttention& a) {
  AttentionCore core;
  core.heads = core.kv_heads = n.integer("num_heads", 0);
  core.causal = n.integer("unidirectional", 0) != 0;
  const double filter = n.number("mask_filter_value", -10000);
  const auto width = last_dim(n, a.qkv);
  const auto given = n.integers("qkv_hidden_sizes");
  if (n.integer("do_rotary", 0) != 0) return n.unsupported("do_rotary is not supported");
  n.ignore("rotary_embedding_dim");
  if (n.integer("past_present_share_buffer", 0) != 0)
    return n.unsupported("a shared cache buffer is not supported");
  const float scale = n.number("scale", 0);
  if (n.failed()) return;
  if (n.rank(a.qkv) != 3 || !width)
    return n.unsupported("operands of these types are not supported");
  const std::vector<std::int64_t> sizes =
      given && !given->empty() ? *given : std::vector<std::int64_t>(3, *width / 3);
  const bool fits = core.heads >= 1 && core.heads <= kMaxHeads && sizes.size() == 3 &&
                    std::ranges::all_of(sizes, [&](std::int64_t size) {
                      return size > 0 && size <= *width && size % core.heads == 0;
                    });
  if (!fits || sizes[0] != sizes[1] || sizes[0] + sizes[1] + sizes[2] != *width)
    return n.bad("its " + std::to_string(*width) + " columns are not queries, keys and values of " +
                 std::to_string(core.heads) + " heads");
  core.head_dim = sizes[0] / core.heads;
  core.value_dim = sizes[2] / core.heads;
  std::int64_t begin = 0;
  const auto next = [&](std::int64_t size) {
    const ValueId part = last_dim_part(n, a.qkv, begin, begin + size);
    begin += size;
    return n.make(ir::Transpose{kSwapHeadsAndTokens}, {by_head(n, part, core.heads)});
  };
  core.q = next(sizes[0]);
  core.k = next(sizes[1]);
  core.v = next(sizes[2]);
  if (n.has(a.past)) {
    const ValueId past = n.in(a.past);
    if (n.failed()) return;
    if (n.rank(past) != 5) return n.bad("its cache is not [2, batch, heads, past, head size]");
    const auto extended = [&](std::int64_t half, ValueId fresh) {
      const ValueId index = n.make_constant(ir::make_i64({}, {half}));
      return n.make(ir::Concat{2}, {n.make(ir::Gather{0}, {past, index}), fresh});
    };
    core.k = extended(0, core.k);
    core.v = extended(1, core.v);
  }
  if (n.wants(1))
    n.bind(1, n.make(ir::Concat{0}, {unsqueezed(n, core.k, {0}), unsqueezed(n, core.v, {0})}));
  core.bias = n.optional_in(a.bias);
  if (n.has(a.mask)) {
    const ValueId term = mask_term(n, n.in(a.mask), core.k, filter);
    core.bias = core.bias.exists() ? binary(n, BinaryKind::kAdd, core.bias, term) : term;
  }
  core.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(core.head_dim));
  n.bind(0, attend_core(n, core));
}

/// Attention. Operands: x [B, S, E], weights [E, 3 heads D], bias?, mask?, cache?, bias of the
/// scores?.
void convert_projected_attention(NodeContext& n) {
  if (n.has(6)) return n.unsupported("a shared cache buffer is not supported");
  ValueId qkv = n.make(ir::MatMul{}, {n.in(0), n.in(1)});
  if (n.has(2)) qkv = binary(n, BinaryKind::kAdd, qkv, n.in(2));
  attend_projected(n, {.qkv = qkv, .mask = 3, .past = 4, .bias = 5});
}

/// QAttention. Operands: codes of x, of the weights, bias, scales of x and the weights, mask?, zero
/// points of x and the weights, cache?.
void convert_quantized_attention(NodeContext& n) {
  const ValueId product =
      scaled_product(n, {.codes = 0, .scale = 3, .zero = 6}, {.codes = 1, .scale = 4, .zero = 7});
  attend_projected(n, {.qkv = binary(n, BinaryKind::kAdd, product, n.in(2)), .mask = 5, .past = 8});
}

}  // namespace

std::vector<OperatorRule> contrib_encoder_rules() {
  const std::vector<std::string_view> embedding{"epsilon", "mask_index_type"};
  std::vector<std::string_view> attention{
      "num_heads", "unidirectional",       "mask_filter_value",        "scale",
      "do_rotary", "rotary_embedding_dim", "past_present_share_buffer"};
  const auto quantized = attention;
  attention.emplace_back("qkv_hidden_sizes");
  return {
      contrib_rule("EmbedLayerNormalization", {7, 9}, convert_embed_layer_norm, embedding),
      contrib_rule("QEmbedLayerNormalization", {13, 18}, convert_quantized_embed_layer_norm,
                   embedding),
      contrib_rule("Attention", {2, 7}, convert_projected_attention, attention),
      contrib_rule("QAttention", {5, 9}, convert_quantized_attention, quantized),
  };
}

}  // namespace llmc::importer
