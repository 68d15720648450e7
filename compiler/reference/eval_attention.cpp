#include <algorithm>
#include <limits>

#include "compiler/reference/eval.h"
#include "compiler/reference/functions.h"

/// Evaluates attention over a cache.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;

/// Dims and strides of a cache [2, 1, P, kv, D] or [2, 1, kv, P, D].
struct CacheView {
  std::int64_t length, kv_heads, head_dim;
  bool sequence_first;
  std::int64_t at(std::int64_t key_or_value, std::int64_t token, std::int64_t head) const {
    const std::int64_t row = sequence_first ? token * kv_heads + head : head * length + token;
    return (key_or_value * length * kv_heads + row) * head_dim;
  }
};

/// Returns c tanh(score / c) with a softcap c > 0, or `score` without one.
double capped(double score, float softcap) {
  const auto c = static_cast<double>(softcap);
  return c > 0 ? c * exact_tanh(score / c) : score;
}

}  // namespace

Result<Tensors> eval_op(EvalContext& c, const ir::Attention& op) {
  for (std::size_t i = 0; i < 4; ++i) {
    LLMC_RETURN_IF_ERROR(c.want_float(i));
    LLMC_RETURN_IF_ERROR(c.want_rank(i, i == 3 ? 5 : 4));
  }
  const Tensor &q = c.operand(0), &k = c.operand(1), &v = c.operand(2), &past = c.operand(3);
  if (op.heads <= 0 || op.kv_heads <= 0 || op.head_dim <= 0 || op.heads % op.kv_heads != 0)
    return c.error("invalid attention shape: " + std::to_string(op.heads) + " query heads, " +
                   std::to_string(op.kv_heads) + " KV heads, head_dim " +
                   std::to_string(op.head_dim));
  if (!(op.softcap >= 0) || op.window < 0 || (op.chunked && op.window == 0))
    return c.error("softcap or window is negative");
  const bool sequence_first = op.cache_layout == ir::CacheLayout::kSequenceFirst;
  const std::int64_t tokens = q.dims[1], length = past.dims[sequence_first ? 2 : 3];
  const Dims kv_dims{1, tokens, op.kv_heads, op.head_dim};
  const Dims past_dims = sequence_first ? Dims{2, 1, length, op.kv_heads, op.head_dim}
                                        : Dims{2, 1, op.kv_heads, length, op.head_dim};
  if (q.dims != Dims{1, tokens, op.heads, op.head_dim} || k.dims != kv_dims || v.dims != kv_dims ||
      past.dims != past_dims)
    return c.error("operands do not match the attention shape: q " + type_text(q) + ", k " +
                   type_text(k) + ", v " + type_text(v) + ", past " + type_text(past));
  const std::int64_t total = length + tokens;
  const Tensor* const bias = c.has(4) ? &c.operand(4) : nullptr;
  const std::int64_t columns = bias && bias->rank() == 2 ? bias->dims[1] : 0;
  if (bias && (!bias->is_float() || bias->rank() != 2 || bias->dims[0] != op.heads))
    return c.error("the bias " + type_text(*bias) + " has not one row for each head");
  const Tensor* const sinks = c.has(5) ? &c.operand(5) : nullptr;
  if (sinks && (!sinks->is_float() || sinks->dims != Dims{op.heads}))
    return c.error("the sinks " + type_text(*sinks) + " are not one for each head");
  if (bias && columns < total)
    return c.error("the bias has " + std::to_string(columns) + " columns for " +
                   std::to_string(total) + " tokens");
  Dims present_dims = past_dims;
  present_dims[sequence_first ? 2 : 3] = total;
  LLMC_TRY(Tensor present, c.make(past.element, std::move(present_dims)));
  LLMC_TRY(Tensor out, c.make(q.element, {1, tokens, op.heads * op.head_dim}));
  const CacheView old{length, op.kv_heads, op.head_dim, sequence_first};
  const CacheView cache{total, op.kv_heads, op.head_dim, sequence_first};
  for (std::int64_t part = 0; part < 2; ++part)
    for (std::int64_t head = 0; head < op.kv_heads; ++head)
      for (std::int64_t token = 0; token < total; ++token) {
        const auto& fresh = part == 0 ? k.floats : v.floats;
        const float* const from =
            token < length ? past.floats.data() + old.at(part, token, head)
                           : fresh.data() + ((token - length) * op.kv_heads + head) * op.head_dim;
        std::copy_n(from, op.head_dim, present.floats.begin() + cache.at(part, token, head));
      }
  std::vector<double> scores(index(total)), sums(index(op.head_dim));
  const std::int64_t group = op.heads / op.kv_heads;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t seen = length + token + 1;
    std::int64_t first = op.window > 0 ? std::max<std::int64_t>(seen - op.window, 0) : 0;
    if (op.chunked) first = (seen - 1) / op.window * op.window;
    for (std::int64_t head = 0; head < op.heads; ++head) {
      const float* const query = q.floats.data() + (token * op.heads + head) * op.head_dim;
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t t = first; t < seen; ++t) {
        const float* const key = present.floats.data() + cache.at(0, t, head / group);
        double dot = 0;
        for (std::int64_t d = 0; d < op.head_dim; ++d)
          dot += static_cast<double>(query[d]) * static_cast<double>(key[d]);
        double& score = scores[index(t)] = capped(dot * static_cast<double>(op.scale), op.softcap);
        const std::int64_t column = op.bias_by_key ? t : columns - seen + t;
        if (bias) score += static_cast<double>(bias->floats[index(head * columns + column)]);
        largest = std::max(largest, scores[index(t)]);
      }
      if (sinks) {
        const auto sink = static_cast<double>(sinks->floats[index(head)]);
        largest = std::max(largest, sink);
        sum = exact_exp(sink - largest);
      }
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t t = first; t < seen; ++t) {
        const double weight = exact_exp(scores[index(t)] - largest);
        sum += weight;
        const float* const value = present.floats.data() + cache.at(1, t, head / group);
        for (std::int64_t d = 0; d < op.head_dim; ++d)
          sums[index(d)] += weight * static_cast<double>(value[d]);
      }
      for (std::int64_t d = 0; d < op.head_dim; ++d)
        out.floats[index((token * op.heads + head) * op.head_dim + d)] =
            static_cast<float>(sums[index(d)] / sum);
    }
  }
  return Tensors{std::move(out), std::move(present)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::CrossAttention& op) {
  for (std::size_t i = 0; i < 2; ++i) {
    LLMC_RETURN_IF_ERROR(c.want_float(i));
    LLMC_RETURN_IF_ERROR(c.want_rank(i, 4));
  }
  const Tensor &q = c.operand(0), &source = c.operand(1);
  if (op.heads <= 0 || op.kv_heads <= 0 || op.head_dim <= 0 || op.heads % op.kv_heads != 0)
    return c.error("invalid attention shape");
  if (!(op.softcap >= 0)) return c.error("softcap is negative or not a number");
  const std::int64_t tokens = q.dims[1], keys = source.dims[2], dim = op.head_dim;
  if (q.dims != Dims{1, tokens, op.heads, dim} || source.dims != Dims{2, op.kv_heads, keys, dim})
    return c.error("operands do not match the attention shape: q " + type_text(q) + ", source " +
                   type_text(source));
  LLMC_TRY(Tensor out, c.make(q.element, {1, tokens, op.heads * dim}));
  std::vector<double> scores(index(keys)), sums(index(dim));
  for (std::int64_t row = 0; row < tokens * op.heads; ++row) {
    const std::int64_t head = row % op.heads / (op.heads / op.kv_heads);
    const float* const key = source.floats.data() + head * keys * dim;
    const float* const value = key + op.kv_heads * keys * dim;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t t = 0; t < keys; ++t) {
      double dot = 0;
      for (std::int64_t d = 0; d < dim; ++d)
        dot += static_cast<double>(q.floats[index(row * dim + d)]) *
               static_cast<double>(key[t * dim + d]);
      scores[index(t)] = capped(dot * static_cast<double>(op.scale), op.softcap);
      largest = std::max(largest, scores[index(t)]);
    }
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t t = 0; t < keys; ++t) {
      const double weight = exact_exp(scores[index(t)] - largest);
      sum += weight;
      for (std::int64_t d = 0; d < dim; ++d)
        sums[index(d)] += weight * static_cast<double>(value[t * dim + d]);
    }
    for (std::int64_t d = 0; d < dim; ++d)
      out.floats[index(row * dim + d)] = static_cast<float>(sums[index(d)] / sum);
  }
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference
