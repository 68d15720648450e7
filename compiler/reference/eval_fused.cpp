#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "compiler/ir/hadamard.h"
#include "compiler/reference/eval.h"
#include "compiler/reference/functions.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/matrix.h"

/// Evaluates the operators created by fusion: norms, rotation, linear and QKV.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;

/// Checks that an operand is a float tensor with `width` elements.
Status want_vector(EvalContext& c, std::size_t i, std::int64_t width, const std::string& what) {
  LLMC_RETURN_IF_ERROR(c.want_float(i));
  return c.want_equal(c.operand(i).count(), width, "length of the " + what);
}

/// Computes x / sqrt(mean(x²) + epsilon) · weight for each row of x.
void rms_normalize(const std::vector<float>& x, const std::vector<float>& weight, float epsilon,
                   std::vector<float>& out) {
  const std::size_t width = weight.size();
  for (std::size_t row = 0; width > 0 && row + width <= x.size(); row += width) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i)
      sum += static_cast<double>(x[row + i]) * static_cast<double>(x[row + i]);
    const double scale =
        1.0 / std::sqrt(sum / static_cast<double>(width) + static_cast<double>(epsilon));
    for (std::size_t i = 0; i < width; ++i)
      out[row + i] = static_cast<float>(static_cast<double>(x[row + i]) * scale *
                                        static_cast<double>(weight[i]));
  }
}

/// Computes (x - mean) / sqrt(variance + epsilon) · weight + bias for each row of x.
void layer_normalize(const std::vector<float>& x, const std::vector<float>& weight,
                     const std::vector<float>* bias, float epsilon, std::vector<float>& out) {
  const std::size_t width = weight.size();
  for (std::size_t row = 0; width > 0 && row + width <= x.size(); row += width) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += static_cast<double>(x[row + i]);
    mean /= static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      const double d = static_cast<double>(x[row + i]) - mean;
      variance += d * d;
    }
    variance /= static_cast<double>(width);
    const double scale = 1.0 / std::sqrt(variance + static_cast<double>(epsilon));
    for (std::size_t i = 0; i < width; ++i) {
      double y = (static_cast<double>(x[row + i]) - mean) * scale * static_cast<double>(weight[i]);
      if (bias) y += static_cast<double>((*bias)[i]);
      out[row + i] = static_cast<float>(y);
    }
  }
}

/// Cosines and sines of all pairs: [tokens, rotary_dim / 2] each.
struct Rotation {
  std::vector<float> cosines, sines;
};

/// Returns the rotations of all tokens. Angles are position · frequency in f32, as the exported
/// graphs compute them.
Result<Rotation> rotation(EvalContext& c, const ir::Rope& rope, const Tensor& positions,
                          const Tensor& frequencies, std::int64_t tokens) {
  const std::int64_t half = rope.rotary_dim / 2;
  if (rope.rotary_dim <= 0 || rope.rotary_dim % 2 != 0)
    return c.error("rotary_dim is not even and positive");
  if (!frequencies.is_float() || positions.is_float() || frequencies.rank() == 0)
    return c.error("takes integer positions and float frequencies");
  LLMC_RETURN_IF_ERROR(
      c.want_equal(frequencies.dims.back(), rope.table ? rope.rotary_dim : half, "frequencies"));
  const auto& pairs = rope.position_axes;
  const bool fits = pairs.empty()
                        ? positions.count() == tokens
                        : std::ssize(pairs) == half && positions.rank() == 2 &&
                              positions.dims[0] > *std::ranges::max_element(pairs) &&
                              positions.dims[1] == tokens && *std::ranges::min_element(pairs) >= 0;
  if (!fits) return c.error("the number of positions does not fit the tokens");
  Rotation out;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t rows = rope.table ? frequencies.count() / rope.rotary_dim : 1;
    std::int64_t position = positions.integers[index(token)];
    if (rope.table && (position < 0 || position >= rows))
      return c.error("position " + std::to_string(position) + " is outside the table of " +
                     std::to_string(rows));
    for (std::int64_t i = 0; i < half; ++i) {
      if (!pairs.empty()) position = positions.integers[index(pairs[index(i)] * tokens + token)];
      if (rope.table) {
        const std::int64_t row = position * rope.rotary_dim;
        out.cosines.push_back(frequencies.floats[index(row + i)]);
        out.sines.push_back(frequencies.floats[index(row + half + i)]);
      } else {
        const float angle = static_cast<float>(position) * frequencies.floats[index(i)];
        out.cosines.push_back(static_cast<float>(exact_cos(static_cast<double>(angle))));
        out.sines.push_back(static_cast<float>(exact_sin(static_cast<double>(angle))));
      }
    }
  }
  return out;
}

/// Rotates one head of one token in place.
void rotate(const ir::Rope& rope, const Rotation& r, std::int64_t token, float* x) {
  const std::int64_t half = rope.rotary_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    float& a = x[rope.interleaved ? 2 * i : i];
    float& b = x[rope.interleaved ? 2 * i + 1 : i + half];
    const double cosine = static_cast<double>(r.cosines[index(token * half + i)]);
    const double sine = static_cast<double>(r.sines[index(token * half + i)]);
    const double x0 = static_cast<double>(a), x1 = static_cast<double>(b);
    a = static_cast<float>(x0 * cosine - x1 * sine);
    b = static_cast<float>(x1 * cosine + x0 * sine);
  }
}

float gated(ir::ActivationFn function, float gate, float up) {
  return static_cast<float>(apply_unary(ir::unary_kind(function), static_cast<double>(gate)) *
                            static_cast<double>(up));
}

/// Returns the rows that are multiplied by the weight: the first operand after its norm and
/// Hadamard transform. Returns an empty tensor if it has neither.
template <class Op>
Result<Tensor> product_rows(EvalContext& c, const Op& op, std::size_t norm_bias) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  const Tensor &x = c.operand(0), &weight = c.operand(1);
  const std::int64_t k = weight.dims[1];
  if (x.rank() == 0) return c.error("the operand is a scalar");
  LLMC_RETURN_IF_ERROR(c.want_equal(x.dims.back(), k, "columns of the weight"));
  Tensor rows;
  if (!op.norm_epsilon && op.hadamard == 0) return rows;
  LLMC_TRY(rows, c.make(ir::ElementType::kF32, x.dims));
  if (!op.norm_epsilon) {
    rows.floats = x.floats;
  } else {
    if (!c.has(3)) return c.error("the norm weight is missing");
    LLMC_RETURN_IF_ERROR(want_vector(c, 3, k, "norm weight"));
    if (c.has(norm_bias)) LLMC_RETURN_IF_ERROR(want_vector(c, norm_bias, k, "norm bias"));
    const std::vector<float>& norm_weight = c.operand(3).floats;
    if (op.norm_kind == ir::NormKind::kRms)
      rms_normalize(x.floats, norm_weight, *op.norm_epsilon, rows.floats);
    else
      layer_normalize(x.floats, norm_weight,
                      c.has(norm_bias) ? &c.operand(norm_bias).floats : nullptr, *op.norm_epsilon,
                      rows.floats);
  }
  if (op.hadamard > 0)
    for (std::size_t at = 0; at < rows.floats.size(); at += index(k))
      ir::hadamard_input(std::span(rows.floats).subspan(at, index(k)), op.hadamard);
  return rows;
}

/// Index of the operand norm_bias of each operator.
constexpr std::size_t kLinearNormBias = 5, kQkvNormBias = 6;

/// Computes norm(x) · weight^T + bias, the common part of Linear and QkvProjection: [tokens, rows
/// of weight].
template <class Op>
Result<Tensor> project(EvalContext& c, const Op& op, std::size_t norm_bias) {
  LLMC_TRY(const Tensor rows, product_rows(c, op, norm_bias));
  const Tensor &x = c.operand(0), &weight = c.operand(1);
  const std::int64_t n = weight.dims[0], k = weight.dims[1];
  std::int64_t tokens = 1;
  for (std::size_t i = 0; i + 1 < x.rank(); ++i) tokens *= x.dims[i];
  const bool changed = op.norm_epsilon.has_value() || op.hadamard > 0;
  const std::vector<float>& source = changed ? rows.floats : x.floats;
  LLMC_TRY(Tensor y, c.make(ir::ElementType::kF32, {tokens, n}));
  if (c.product() != nullptr)
    (*c.product())(0, source, y.floats);
  else
    multiply_transposed(source.data(), weight.floats.data(), y.floats.data(), tokens, k, n);
  if (c.has(2)) {
    LLMC_RETURN_IF_ERROR(want_vector(c, 2, n, "bias"));
    for (std::int64_t i = 0; i < tokens * n; ++i)
      y.floats[index(i)] += c.operand(2).floats[index(i % n)];
  }
  return y;
}

}  // namespace

Result<ProductInput> product_input(const ir::Node& node, const std::vector<const Tensor*>& operands,
                                   std::optional<std::size_t> block) {
  Budget budget{InterpreterOptions().memory_limit_bytes, 0};
  EvalContext c(node, operands, budget);
  const auto rows = [&](const auto& op, std::size_t norm_bias) -> Result<ProductInput> {
    LLMC_TRY(Tensor changed, product_rows(c, op, norm_bias));
    const bool same = !op.norm_epsilon && op.hadamard == 0;
    ProductInput input{same ? c.operand(0).floats : std::move(changed.floats), {}};
    input.places.resize(input.rows.size() / index(std::max<std::int64_t>(1, c.operand(1).dims[1])));
    std::iota(input.places.begin(), input.places.end(), std::size_t{0});
    return input;
  };
  if (const auto* linear = std::get_if<ir::Linear>(&node.op)) return rows(*linear, kLinearNormBias);
  if (const auto* experts = std::get_if<ir::ExpertLinear>(&node.op))
    return expert_input(c, *experts, block);
  const auto* qkv = std::get_if<ir::QkvProjection>(&node.op);
  if (qkv == nullptr) return c.error("has no product");
  return rows(*qkv, kQkvNormBias);
}

Result<Tensors> eval_op(EvalContext& c, const ir::LayerNorm& op) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  if (x.rank() == 0) return c.error("the operand is a scalar");
  LLMC_RETURN_IF_ERROR(want_vector(c, 1, x.dims.back(), "scale"));
  if (c.has(2)) LLMC_RETURN_IF_ERROR(want_vector(c, 2, x.dims.back(), "bias"));
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  layer_normalize(x.floats, c.operand(1).floats, c.has(2) ? &c.operand(2).floats : nullptr,
                  op.epsilon, out.floats);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::RmsNorm& op) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  if (x.rank() == 0) return c.error("the operand is a scalar");
  LLMC_RETURN_IF_ERROR(want_vector(c, 1, x.dims.back(), "weight"));
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  rms_normalize(x.floats, c.operand(1).floats, op.epsilon, out.floats);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Rope& op) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(c.want_rank(0, 4));
  const std::int64_t head_dim = x.dims[3];
  const std::int64_t tokens = x.dims[op.heads_first ? 2 : 1];
  const std::int64_t heads = x.dims[op.heads_first ? 1 : 2];
  LLMC_RETURN_IF_ERROR(c.want_equal(x.dims[0], 1, "batch"));
  if (op.rotary_dim > head_dim) return c.error("rotary_dim is larger than the head");
  LLMC_TRY(const auto angles, rotation(c, op, c.operand(1), c.operand(2), tokens));
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  out.floats = x.floats;
  for (std::int64_t token = 0; token < tokens; ++token)
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t row = op.heads_first ? head * tokens + token : token * heads + head;
      rotate(op, angles, token, out.floats.data() + row * head_dim);
    }
  return Tensors{std::move(out)};
}

/// Evaluates, one after the other, the operators that ScaledAttention replaces.
Result<Tensors> eval_op(EvalContext& c, const ir::ScaledAttention& op) {
  const auto apply = [](ir::Op by, const std::vector<const Tensor*>& operands) -> Result<Tensor> {
    ir::Node node{std::move(by), {}, {ir::ValueId{0}}, {}};
    node.inputs.resize(operands.size(), ir::ValueId{0});
    LLMC_TRY(Tensors results, evaluate_node(node, operands));
    return std::move(results.front());
  };
  const auto number = [](float value) {
    return Tensor{.element = ir::ElementType::kF32, .dims = {}, .floats = {value}, .integers = {}};
  };
  const Tensor scale = number(op.scale), fill = number(op.fill), zero = number(0);
  LLMC_TRY(Tensor scores, apply(ir::MatMul{}, {&c.operand(0), &c.operand(1)}));
  LLMC_TRY(scores, apply(ir::Binary{ir::BinaryKind::kMul}, {&scores, &scale}));
  if (op.softcap > 0) {
    const Tensor cap = number(op.softcap);
    LLMC_TRY(scores, apply(ir::Binary{ir::BinaryKind::kDiv}, {&scores, &cap}));
    LLMC_TRY(scores, apply(ir::Unary{ir::UnaryKind::kTanh}, {&scores}));
    LLMC_TRY(scores, apply(ir::Binary{ir::BinaryKind::kMul}, {&scores, &cap}));
  }
  if (c.has(3)) {
    LLMC_TRY(scores, apply(ir::Binary{ir::BinaryKind::kAdd}, {&scores, &c.operand(3)}));
  }
  if (c.has(4)) {
    LLMC_TRY(scores, apply(ir::Where{}, {&c.operand(4), op.keeps ? &scores : &fill,
                                         op.keeps ? &fill : &scores}));
  }
  LLMC_TRY(scores, apply(ir::Softmax{-1}, {&scores}));
  if (op.nan_is_zero) {
    LLMC_TRY(const Tensor is_nan, apply(ir::Unary{ir::UnaryKind::kIsNan}, {&scores}));
    LLMC_TRY(scores, apply(ir::Where{}, {&is_nan, &zero, &scores}));
  }
  LLMC_TRY(Tensor out, apply(ir::MatMul{}, {&scores, &c.operand(2)}));
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::GatedActivation& op) {
  const Tensor &gate = c.operand(0), &up = c.operand(1);
  for (std::size_t i = 0; i < 2; ++i) LLMC_RETURN_IF_ERROR(c.want_float(i));
  if (gate.dims != up.dims)
    return c.error("operands differ: " + type_text(gate) + " against " + type_text(up));
  LLMC_TRY(Tensor out, c.make(gate.element, gate.dims));
  for (std::size_t i = 0; i < out.floats.size(); ++i)
    out.floats[i] = gated(op.function, gate.floats[i], up.floats[i]);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Embedding&) {
  LLMC_RETURN_IF_ERROR(c.want_integer(0));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  const Tensor &ids = c.operand(0), &table = c.operand(1);
  const std::int64_t width = table.dims[1];
  Dims dims = ids.dims;
  dims.push_back(width);
  LLMC_TRY(Tensor out, c.make(ir::ElementType::kF32, std::move(dims)));
  for (std::int64_t i = 0; i < ids.count(); ++i) {
    const std::int64_t given = ids.integers[index(i)];
    const std::int64_t id = given < 0 ? given + table.dims[0] : given;  // like Gather
    if (id < 0 || id >= table.dims[0])
      return c.error("id " + std::to_string(given) + " is outside the table of " +
                     std::to_string(table.dims[0]));
    std::copy_n(table.floats.begin() + id * width, width, out.floats.begin() + i * width);
  }
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Linear& op) {
  LLMC_TRY(Tensor y, project(c, op, kLinearNormBias));
  Dims dims = c.operand(0).dims;
  std::int64_t width = y.dims[1];
  if (op.gated) {
    if (width % 2 != 0) return c.error("a gated layer needs an even number of weight rows");
    width /= 2;
    LLMC_TRY(Tensor act, c.make(ir::ElementType::kF32, {y.dims[0], width}));
    for (std::int64_t i = 0; i < act.count(); ++i) {
      const std::int64_t row = i / width * 2 * width, column = i % width;
      act.floats[index(i)] =
          gated(op.function, y.floats[index(row + column)], y.floats[index(row + width + column)]);
    }
    y = std::move(act);
  } else if (op.function != ir::ActivationFn::kNone) {
    for (float& v : y.floats) v = gated(op.function, v, 1.0f);
  }
  if (c.has(4)) {
    LLMC_RETURN_IF_ERROR(want_vector(c, 4, y.count(), "residual"));
    for (std::size_t i = 0; i < y.floats.size(); ++i) y.floats[i] += c.operand(4).floats[i];
  }
  dims.back() = width;
  y.dims = std::move(dims);
  return Tensors{std::move(y)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::QkvProjection& op) {
  LLMC_TRY(const Tensor y, project(c, op, kQkvNormBias));
  const std::int64_t tokens = y.dims[0], dim = op.head_dim;
  if (op.heads <= 0 || op.kv_heads <= 0 || dim <= 0)
    return c.error("invalid attention shape: " + std::to_string(op.heads) + " query heads, " +
                   std::to_string(op.kv_heads) + " KV heads, head_dim " + std::to_string(dim));
  LLMC_RETURN_IF_ERROR(
      c.want_equal(y.dims[1], (op.heads + 2 * op.kv_heads) * dim, "rows of the weight"));
  std::optional<Rotation> angles;
  if (op.rope) {
    if (!c.has(4) || !c.has(5)) return c.error("positions or frequencies are missing");
    if (op.rope->rotary_dim > dim) return c.error("rotary_dim is larger than the head");
    LLMC_TRY(angles, rotation(c, *op.rope, c.operand(4), c.operand(5), tokens));
  }
  if (op.qk_norm_epsilon) {
    if (!c.has(7) || !c.has(8)) return c.error("the weights of the head norms are missing");
    for (const std::size_t i : {7, 8}) LLMC_RETURN_IF_ERROR(want_vector(c, i, dim, "head norm"));
  }
  Tensors parts;
  std::int64_t first = 0;  // first row of the part in the weight
  for (const std::int64_t heads : {op.heads, op.kv_heads, op.kv_heads}) {
    LLMC_TRY(Tensor part, c.make(ir::ElementType::kF32, {1, tokens, heads, dim}));
    for (std::int64_t token = 0; token < tokens; ++token) {
      float* const to = part.floats.data() + token * heads * dim;
      std::copy_n(y.floats.begin() + token * y.dims[1] + first, heads * dim, to);
    }
    if (op.qk_norm_epsilon && parts.size() < 2) {
      const std::vector<float> x = part.floats;
      rms_normalize(x, c.operand(7 + parts.size()).floats, *op.qk_norm_epsilon, part.floats);
    }
    for (std::int64_t token = 0; token < tokens; ++token) {
      float* const to = part.floats.data() + token * heads * dim;
      const bool is_value = parts.size() == 2;
      for (std::int64_t head = 0; angles && !is_value && head < heads; ++head)
        rotate(*op.rope, *angles, token, to + head * dim);
    }
    first += heads * dim;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace llmc::reference
