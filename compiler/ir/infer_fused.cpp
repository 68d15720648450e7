#include <cmath>

#include "compiler/ir/infer_rules.h"

/// Type inference of fused operators and loops.
namespace llmc::ir {
namespace {

/// Checks that an operand (weight, bias) is a float vector of `width` elements.
Status want_vector(const InferContext& c, std::size_t operand, const Dim& width,
                   const std::string& what) {
  LLMC_RETURN_IF_ERROR(c.want_float(operand));
  LLMC_RETURN_IF_ERROR(c.want_rank(operand, 1));
  return c.want_equal(c.type(operand).dims[0], width, "length of the " + what);
}

/// Returns an error if the operator's softcap, 0 for none, is not valid.
template <class Op>
Status want_softcap(const InferContext& c, const Op& op) {
  return op.softcap >= 0 && std::isfinite(op.softcap)
             ? ok_status()
             : c.error("softcap is negative or not finite");
}

/// Checks the head counts and head size of an attention operator: all are positive, `heads` is a
/// multiple of `kv_heads`, and products of them do not overflow.
Status want_heads(const InferContext& c, std::int64_t heads, std::int64_t kv_heads,
                  std::int64_t head_dim) {
  constexpr std::int64_t kMaxHeadCount = 1 << 20;
  if (heads <= 0 || kv_heads <= 0 || head_dim <= 0 || heads > kMaxHeadCount ||
      kv_heads > kMaxHeadCount || head_dim > kMaxHeadCount)
    return c.error("head counts and head_dim must be between 1 and " +
                   std::to_string(kMaxHeadCount));
  if (heads % kv_heads != 0)
    return c.error(std::to_string(heads) + " query heads do not divide into " +
                   std::to_string(kv_heads) + " groups");
  return ok_status();
}

Status want_epsilon(const InferContext& c, float epsilon) {
  if (epsilon >= 0) return ok_status();  // also rejects NaN
  return c.error("epsilon is negative or not a number");
}

/// Checks the attribute `hadamard` of a product.
Status want_superblock(const InferContext& c, std::int64_t superblock) {
  if (superblock >= 0) return ok_status();
  return c.error("hadamard is negative");
}

/// Checks the operands of a RoPE: positions, with one element per token, and frequencies or a
/// table.
Status want_rotation(const InferContext& c, const Rope& rope, std::int64_t head_dim,
                     const Dim& tokens, std::size_t positions, std::size_t frequencies) {
  if (rope.rotary_dim <= 0 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > head_dim)
    return c.error("rotary_dim " + std::to_string(rope.rotary_dim) +
                   " is not an even number of up to " + std::to_string(head_dim));
  LLMC_RETURN_IF_ERROR(c.want_integer(positions));
  if (rope.position_axes.empty()) {
    Dim count(1);
    for (const Dim& d : c.type(positions).dims) {
      const auto next = mul(count, d);
      count = next ? *next : tokens;
    }
    LLMC_RETURN_IF_ERROR(c.want_equal(count, tokens, "number of positions"));
  } else {
    if (rope.table) return c.error("a rotation table has one position of each token");
    if (std::ssize(rope.position_axes) != rope.rotary_dim / 2)
      return c.error("position_axes does not have an element for each pair");
    LLMC_RETURN_IF_ERROR(c.want_rank(positions, 2));
    LLMC_RETURN_IF_ERROR(c.want_equal(c.type(positions).dims[1], tokens, "number of positions"));
    const auto rows = c.type(positions).dims[0].constant();
    for (const std::int64_t row : rope.position_axes)
      if (!rows || row < 0 || row >= *rows)
        return c.error("position_axes has row " + std::to_string(row) + " of positions " +
                       to_string(c.type(positions)));
  }
  LLMC_RETURN_IF_ERROR(c.want_float(frequencies));
  LLMC_RETURN_IF_ERROR(c.want_rank(frequencies, rope.table ? 2 : 1));
  return c.want_equal(c.type(frequencies).dims.back(),
                      Dim(rope.table ? rope.rotary_dim : rope.rotary_dim / 2),
                      rope.table ? "width of the rotation table" : "number of frequencies");
}

/// Returns the number of tokens in an activation, which is the product of all dims except the last.
/// Returns a new symbol if the product is not affine.
Dim tokens_of(const InferContext& c, const TensorType& x) {
  Dim tokens(1);
  for (std::size_t i = 0; i + 1 < x.rank(); ++i) {
    const auto next = mul(tokens, x.dims[i]);
    if (!next) return c.fresh();
    tokens = *next;
  }
  return tokens;
}

/// Checks the activation operand and its optional normalization.
Status want_source(const InferContext& c, const std::optional<float>& norm_epsilon, NormKind kind,
                   std::size_t norm_weight, std::size_t norm_bias) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  if (c.rank(0) == 0) return c.error("the operand is a scalar");
  if (norm_epsilon.has_value() != c.has(norm_weight))
    return c.error("norm_epsilon and the norm weight must occur together");
  if (c.has(norm_bias) && (!norm_epsilon || kind != NormKind::kLayer))
    return c.error("only a layer norm has a bias");
  if (!norm_epsilon) return ok_status();
  LLMC_RETURN_IF_ERROR(want_epsilon(c, *norm_epsilon));
  if (c.has(norm_bias))
    LLMC_RETURN_IF_ERROR(want_vector(c, norm_bias, c.type(0).dims.back(), "norm bias"));
  return want_vector(c, norm_weight, c.type(0).dims.back(), "norm weight");
}

}  // namespace

Result<Types> infer_op(const InferContext& c, const LayerNorm& op) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  if (c.rank(0) == 0) return c.error("the operand is a scalar");
  LLMC_RETURN_IF_ERROR(want_epsilon(c, op.epsilon));
  LLMC_RETURN_IF_ERROR(want_vector(c, 1, c.type(0).dims.back(), "scale"));
  if (c.has(2)) LLMC_RETURN_IF_ERROR(want_vector(c, 2, c.type(0).dims.back(), "bias"));
  return Types{c.type(0)};
}

Result<Types> infer_op(const InferContext& c, const RmsNorm& op) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  if (c.rank(0) == 0) return c.error("the operand is a scalar");
  LLMC_RETURN_IF_ERROR(want_epsilon(c, op.epsilon));
  LLMC_RETURN_IF_ERROR(want_vector(c, 1, c.type(0).dims.back(), "weight"));
  return Types{c.type(0)};
}

Result<Types> infer_op(const InferContext& c, const Rope& op) {
  const auto& x = c.type(0);
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(c.want_rank(0, 4));
  if (!x.dims[3].is_constant()) return c.error("the head dim of " + to_string(x) + " is symbolic");
  LLMC_RETURN_IF_ERROR(c.want_equal(x.dims[0], Dim(1), "batch"));
  LLMC_RETURN_IF_ERROR(
      want_rotation(c, op, *x.dims[3].constant(), x.dims[op.heads_first ? 2 : 1], 1, 2));
  return Types{x};
}

Result<Types> infer_op(const InferContext& c, const Attention& op) {
  LLMC_RETURN_IF_ERROR(want_heads(c, op.heads, op.kv_heads, op.head_dim));
  LLMC_RETURN_IF_ERROR(want_softcap(c, op));
  if (op.window < 0) return c.error("the window is negative");
  if (op.chunked && op.window == 0) return c.error("chunks have no size");
  for (std::size_t i = 0; i < 4; ++i) LLMC_RETURN_IF_ERROR(c.want_float(i));
  for (std::size_t i = 0; i < 3; ++i) {
    LLMC_RETURN_IF_ERROR(c.want_rank(i, 4));
    const std::string who = "operand " + std::to_string(i) + ", ";
    const auto& dims = c.type(i).dims;
    LLMC_RETURN_IF_ERROR(c.want_equal(dims[0], Dim(1), who + "batch"));
    LLMC_RETURN_IF_ERROR(c.want_equal(dims[1], c.type(0).dims[1], who + "tokens"));
    LLMC_RETURN_IF_ERROR(
        c.want_equal(dims[2], Dim(i == 0 ? op.heads : op.kv_heads), who + "heads"));
    LLMC_RETURN_IF_ERROR(c.want_equal(dims[3], Dim(op.head_dim), who + "head dim"));
  }
  if (c.has(4)) {
    LLMC_RETURN_IF_ERROR(c.want_float(4));
    LLMC_RETURN_IF_ERROR(c.want_rank(4, 2));
    LLMC_RETURN_IF_ERROR(c.want_equal(c.type(4).dims[0], Dim(op.heads), "rows of the bias"));
  }
  if (c.has(5)) LLMC_RETURN_IF_ERROR(want_vector(c, 5, Dim(op.heads), "sinks"));
  LLMC_RETURN_IF_ERROR(c.want_rank(3, 5));
  TensorType present = c.type(3);
  const bool sequence_first = op.cache_layout == CacheLayout::kSequenceFirst;
  const std::size_t sequence = sequence_first ? 2 : 3;
  LLMC_RETURN_IF_ERROR(c.want_equal(present.dims[0], Dim(2), "keys and values of the cache"));
  LLMC_RETURN_IF_ERROR(c.want_equal(present.dims[1], Dim(1), "batch of the cache"));
  LLMC_RETURN_IF_ERROR(
      c.want_equal(present.dims[sequence_first ? 3 : 2], Dim(op.kv_heads), "heads of the cache"));
  LLMC_RETURN_IF_ERROR(c.want_equal(present.dims[4], Dim(op.head_dim), "head dim of the cache"));
  const Dim& tokens = c.type(0).dims[1];
  const auto total = add(present.dims[sequence], tokens);
  present.dims[sequence] = total ? *total : c.fresh();
  return Types{{c.type(0).element, {Dim(1), tokens, Dim(op.heads * op.head_dim)}},
               std::move(present)};
}

Result<Types> infer_op(const InferContext& c, const CrossAttention& op) {
  LLMC_RETURN_IF_ERROR(want_heads(c, op.heads, op.kv_heads, op.head_dim));
  LLMC_RETURN_IF_ERROR(want_softcap(c, op));
  for (std::size_t i = 0; i < 2; ++i) {
    LLMC_RETURN_IF_ERROR(c.want_float(i));
    LLMC_RETURN_IF_ERROR(c.want_rank(i, 4));
  }
  const auto &q = c.type(0).dims, &source = c.type(1).dims;
  LLMC_RETURN_IF_ERROR(c.want_equal(q[0], Dim(1), "batch"));
  LLMC_RETURN_IF_ERROR(c.want_equal(q[2], Dim(op.heads), "heads"));
  LLMC_RETURN_IF_ERROR(c.want_equal(q[3], Dim(op.head_dim), "head dim"));
  LLMC_RETURN_IF_ERROR(c.want_equal(source[0], Dim(2), "keys and values of the source"));
  LLMC_RETURN_IF_ERROR(c.want_equal(source[1], Dim(op.kv_heads), "heads of the source"));
  LLMC_RETURN_IF_ERROR(c.want_equal(source[3], Dim(op.head_dim), "head dim of the source"));
  return Types{{c.type(0).element, {Dim(1), q[1], Dim(op.heads * op.head_dim)}}};
}

Result<Types> infer_op(const InferContext& c, const ScaledAttention& op) {
  LLMC_RETURN_IF_ERROR(want_softcap(c, op));
  for (std::size_t i = 0; i < 3; ++i) {
    LLMC_RETURN_IF_ERROR(c.want_float(i));
    if (c.rank(i) < 2) return c.error("an operand has less than two dims");
  }
  const auto &q = c.type(0).dims, &k = c.type(1).dims, &v = c.type(2).dims;
  LLMC_RETURN_IF_ERROR(c.want_equal(q.back(), k[k.size() - 2], "head dims differ"));
  LLMC_RETURN_IF_ERROR(c.want_equal(k.back(), v[v.size() - 2], "numbers of keys differ"));
  if (c.has(3)) LLMC_RETURN_IF_ERROR(c.want_float(3));
  if (c.has(4) && c.type(4).element != ElementType::kBool) return c.error("the mask is not bool");
  if (c.has(4) && !(op.fill < 0 || op.fill > 0)) return c.error("the fill is 0 or not a number");
  const auto front = [](const std::vector<Dim>& dims) {
    return std::vector<Dim>(dims.begin(), dims.end() - 2);
  };
  LLMC_TRY(auto scores, c.broadcast(front(q), front(k)));
  LLMC_TRY(auto dims, c.broadcast(scores, front(v)));
  scores.push_back(q[q.size() - 2]);
  scores.push_back(k.back());
  for (const std::size_t i : {std::size_t{3}, std::size_t{4}}) {
    if (!c.has(i)) continue;
    LLMC_TRY(const auto both, c.broadcast(scores, c.type(i).dims));
    if (both != scores) return c.error("the bias or mask has more elements than the scores");
  }
  dims.push_back(q[q.size() - 2]);
  dims.push_back(v.back());
  return Types{{ElementType::kF32, std::move(dims)}};
}

Result<Types> infer_op(const InferContext& c, const GatedActivation&) {
  for (std::size_t i = 0; i < 2; ++i) LLMC_RETURN_IF_ERROR(c.want_float(i));
  if (!compatible(c.type(0), c.type(1)))
    return c.error("operands differ: " + to_string(c.type(0)) + " against " + to_string(c.type(1)));
  return Types{c.type(0)};
}

Result<Types> infer_op(const InferContext& c, const Embedding&) {
  LLMC_RETURN_IF_ERROR(c.want_integer(0));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  TensorType out{ElementType::kF32, c.type(0).dims};
  out.dims.push_back(c.type(1).dims[1]);
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Linear& op) {
  LLMC_RETURN_IF_ERROR(want_superblock(c, op.hadamard));
  LLMC_RETURN_IF_ERROR(want_source(c, op.norm_epsilon, op.norm_kind, 3, 5));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  const auto& weight = c.type(1).dims;
  TensorType out{ElementType::kF32, c.type(0).dims};
  LLMC_RETURN_IF_ERROR(c.want_equal(out.dims.back(), weight[1], "columns of the weight"));
  if (c.has(2)) LLMC_RETURN_IF_ERROR(want_vector(c, 2, weight[0], "bias"));
  out.dims.back() = weight[0];
  if (op.gated) {
    const auto half = div_exact(weight[0], Dim(2));
    if (!half) return c.error("a gated layer needs an even number of weight rows, gate and up");
    out.dims.back() = *half;
  }
  if (c.has(4)) {
    LLMC_RETURN_IF_ERROR(c.want_float(4));
    // The residual is added token by token; its leading dims may differ from those of x.
    if (c.rank(4) == 0) return c.error("the residual is a scalar");
    LLMC_RETURN_IF_ERROR(
        c.want_equal(c.type(4).dims.back(), out.dims.back(), "width of the residual"));
    LLMC_RETURN_IF_ERROR(
        c.want_equal(tokens_of(c, c.type(4)), tokens_of(c, out), "tokens of the residual"));
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const ExpertLinear& op) {
  LLMC_RETURN_IF_ERROR(want_superblock(c, op.hadamard));
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  if (c.has(2)) LLMC_RETURN_IF_ERROR(c.want_integer(2));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  const auto& weight = c.type(1).dims;
  TensorType out{ElementType::kF32, c.type(0).dims};
  if (out.dims.size() < (c.has(2) ? 1u : 2u)) return c.error("the operand has too few dims");
  LLMC_RETURN_IF_ERROR(c.want_equal(out.dims.back(), weight[1], "columns of the weight"));
  out.dims.pop_back();
  if (!c.has(2))
    LLMC_RETURN_IF_ERROR(c.want_equal(out.dims.back(), Dim(op.experts), "experts without ids"));
  if (c.has(2) && c.type(2).dims != out.dims)
    return c.error("ids " + to_string(c.type(2)) + " are not one for each row of " +
                   to_string(c.type(0)));
  const auto rows = op.experts > 0 ? div_exact(weight[0], Dim(op.experts)) : std::optional<Dim>();
  if (!rows) return c.error("the rows of the weight do not divide into the experts");
  if (c.has(3)) LLMC_RETURN_IF_ERROR(want_vector(c, 3, weight[0], "bias"));
  out.dims.push_back(*rows);
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const QkvProjection& op) {
  LLMC_RETURN_IF_ERROR(want_superblock(c, op.hadamard));
  LLMC_RETURN_IF_ERROR(want_heads(c, op.heads, op.kv_heads, op.head_dim));
  LLMC_RETURN_IF_ERROR(want_source(c, op.norm_epsilon, op.norm_kind, 3, 6));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  const Dim rows = Dim((op.heads + 2 * op.kv_heads) * op.head_dim);
  LLMC_RETURN_IF_ERROR(c.want_equal(c.type(1).dims[0], rows, "rows of the weight"));
  LLMC_RETURN_IF_ERROR(
      c.want_equal(c.type(0).dims.back(), c.type(1).dims[1], "columns of the weight"));
  if (c.has(2)) LLMC_RETURN_IF_ERROR(want_vector(c, 2, rows, "bias"));
  const Dim tokens = tokens_of(c, c.type(0));
  if (op.rope.has_value() != c.has(4) || op.rope.has_value() != c.has(5))
    return c.error("rope, positions and frequencies must occur together");
  if (op.rope) LLMC_RETURN_IF_ERROR(want_rotation(c, *op.rope, op.head_dim, tokens, 4, 5));
  if (op.qk_norm_epsilon.has_value() != c.has(7) || op.qk_norm_epsilon.has_value() != c.has(8))
    return c.error("qk_norm_epsilon and the weights of both head norms must occur together");
  if (op.qk_norm_epsilon) {
    LLMC_RETURN_IF_ERROR(want_epsilon(c, *op.qk_norm_epsilon));
    LLMC_RETURN_IF_ERROR(want_vector(c, 7, Dim(op.head_dim), "query norm's weight"));
    LLMC_RETURN_IF_ERROR(want_vector(c, 8, Dim(op.head_dim), "key norm's weight"));
  }
  const auto part = [&](std::int64_t heads) {
    return TensorType{ElementType::kF32, {Dim(1), tokens, Dim(heads), Dim(op.head_dim)}};
  };
  return Types{part(op.heads), part(op.kv_heads), part(op.kv_heads)};
}

Result<Types> infer_op(const InferContext& c, const Loop& op) {
  constexpr std::int64_t kMaxLoopCount = 1 << 16;
  for (const std::int64_t n :
       {op.count, op.carried, op.per_iteration_inputs, op.per_iteration_outputs})
    if (n < 0 || n > kMaxLoopCount)
      return c.error("a count is outside 0 … " + std::to_string(kMaxLoopCount));
  if (op.count == 0) return c.error("has no iterations");
  if (!op.body) return c.error("has no body");
  const Graph& body = *op.body;
  const auto carried = static_cast<std::size_t>(op.carried);
  const auto count = static_cast<std::size_t>(op.count);
  const auto slots = static_cast<std::size_t>(op.per_iteration_inputs);
  const auto results = static_cast<std::size_t>(op.per_iteration_outputs);
  const std::size_t inputs = c.node().inputs.size();
  if (inputs < carried + count * slots)
    return c.error("has fewer operands than carried and per-iteration values");
  const std::size_t invariants = inputs - carried - count * slots;
  if (body.inputs().size() != carried + slots + invariants)
    return c.error("the body has " + std::to_string(body.inputs().size()) + " inputs, not " +
                   std::to_string(carried + slots + invariants));
  if (body.outputs().size() != carried + results)
    return c.error("the body has " + std::to_string(body.outputs().size()) + " outputs, not " +
                   std::to_string(carried + results));
  const auto check = [&](std::size_t operand, std::size_t body_input) -> Status {
    const auto& wanted = body.value(body.inputs()[body_input]).type;
    if (compatible(c.type(operand), wanted)) return ok_status();
    return c.error("operand " + std::to_string(operand) + " is " + to_string(c.type(operand)) +
                   ", but the body expects " + to_string(wanted));
  };
  for (std::size_t i = 0; i < carried; ++i) LLMC_RETURN_IF_ERROR(check(i, i));
  for (std::size_t i = 0; i < count * slots; ++i)
    LLMC_RETURN_IF_ERROR(check(carried + i, carried + i % slots));
  for (std::size_t i = 0; i < invariants; ++i)
    LLMC_RETURN_IF_ERROR(check(carried + count * slots + i, carried + slots + i));
  Types out;
  for (std::size_t i = 0; i < carried; ++i) {
    const auto& result = body.value(body.outputs()[i]).type;
    if (!compatible(result, c.type(i)))
      return c.error("carried value " + std::to_string(i) + " has type " + to_string(c.type(i)) +
                     ", but the body returns " + to_string(result));
    out.push_back(c.type(i));
  }
  for (std::size_t i = 0; i < count * results; ++i)
    out.push_back(body.value(body.outputs()[carried + i % results]).type);
  return out;
}

Result<Types> infer_op(const InferContext& c, const Parameter&) {
  // The type comes from the enclosing loop's constants; verify() compares the two.
  if (c.node().outputs.size() != 1) return c.error("the type of a parameter is missing");
  return Types{c.graph().value(c.node().outputs[0]).type};
}

}  // namespace llmc::ir
